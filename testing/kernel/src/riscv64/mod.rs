//! What differs on RISC-V: the machine `virt` of QEMU, and firmware that has SBI.

pub(crate) mod access;
pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod cpu;
pub(crate) mod tlb;
mod traps;

pub(crate) use traps::enter;

use crate::boot::StartInfo;
use crate::clock as time;
use crate::memory::direct;
use alloc::vec::Vec;
use core::arch::asm;
use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;

/// The hardware's number of a CPU.
pub(crate) type CpuId = u64;

/// Where physical address 0 is.
pub(crate) const DIRECT_MAP: usize = 0xffff_ffc0_0000_0000;
/// The first page of the first space, the pages from there to that of the next, and of a span.
pub(crate) const SPACES: u64 = 0xf_ffff_fd00_0000;
pub(crate) const APART: u64 = 1 << 24;
pub(crate) const SPAN: u64 = 1 << 24;
/// An address where nothing is.
pub(crate) const NOWHERE: usize = 0xffff_ffc8_0000_0000;

/// A look at an entry of a page table above the lowest level: whether it leads anywhere, and
/// whether to memory.
pub(crate) const LEVELS: u32 = 3;
pub(crate) fn is_present(entry: u64) -> bool {
    entry & 1 != 0
}
pub(crate) fn is_leaf(entry: u64) -> bool {
    entry & 0xe != 0
}
/// The physical address that an entry leads to.
pub(crate) fn leads_to(entry: u64) -> u64 {
    (entry & 0x003f_ffff_ffff_fc00) << 2
}

/// Returns the numbers of all CPUs, this one's first.
pub(crate) fn cpus(info: &StartInfo) -> Vec<u64> {
    let mut cpus = info.cpus().to_vec();
    let own = cpus.iter().position(|&cpu| cpu == boot::first());
    own.into_iter().for_each(|own| cpus.swap(0, own));
    cpus
}

/// Extensions of the firmware.
const BASE: u64 = 0x10;
const IPI: u64 = 0x73_5049;
const HSM: u64 = 0x48_534d;

/// Calls a function of an extension. Returns its value, or its error.
fn firmware(extension: u64, function: u64, arguments: [u64; 3]) -> Result<u64, i64> {
    let (error, value): (i64, u64);
    let [one, two, three] = arguments;
    // SAFETY: the functions that are called here tell something, start a CPU or interrupt some.
    unsafe {
        asm!("ecall", in("a7") extension, in("a6") function, inout("a0") one => error,
            inout("a1") two => value, in("a2") three, options(nostack));
    }
    if error == 0 { Ok(value) } else { Err(error) }
}

/// Returns true if the firmware has an extension.
fn has(extension: u64) -> bool {
    const PROBE: u64 = 3;
    firmware(BASE, PROBE, [extension, 0, 0]).is_ok_and(|found| found != 0)
}

/// Starts a CPU, on a stack that ends there.
pub(crate) fn start_cpu(
    cpu: u64,
    number: usize,
    stack: u64,
    is_up: impl Fn() -> bool,
) -> Result<bool, &'static str> {
    const START: u64 = 0;
    if !has(HSM) {
        return Err("the firmware starts no CPUs (HSM of SBI)");
    }
    if !has(IPI) {
        return Err("the firmware interrupts no CPUs (IPI of SBI)");
    }
    let top = stack - 16;
    // SAFETY: the end of the new CPU's stack, which nothing uses yet.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(top as usize).write_volatile(number as u64) };
    firmware(HSM, START, [cpu, boot::second_addr(), top])
        .map_err(|_| "the firmware refuses to start a CPU")?;
    Ok(time::wait(Duration::from_secs(20), is_up))
}

/// Makes a CPU acknowledge a shootdown, and look for work.
pub(crate) fn interrupt(cpu: u64) {
    const SEND: u64 = 0;
    // It was there when CPUs were started.
    let _ = firmware(IPI, SEND, [1, cpu, 0]);
}

pub(crate) use interrupt as wake;

/// The serial port, a 16550.
pub(crate) struct Port;

impl Port {
    pub(crate) const fn new() -> Self {
        Self
    }
}

impl fmt::Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const BASE: u64 = 0x1000_0000;
        const READY: u8 = 1 << 5;
        for byte in text.bytes() {
            // SAFETY: its registers: of its state, and of the byte to send.
            unsafe {
                while direct::<u8>(BASE + 5).read_volatile() & READY == 0 {}
                direct::<u8>(BASE).write_volatile(byte);
            }
        }
        Ok(())
    }
}

/// Ends the machine with a status: by the device that QEMU has for tests.
pub(crate) fn end(status: u32) -> ! {
    const ENDS: u32 = 0x3333;
    // SAFETY: it ends the machine.
    unsafe { direct::<u32>(0x10_0000).write_volatile((2 * status + 1) << 16 | ENDS) };
    loop {
        core::hint::spin_loop();
    }
}

/// Reads where nothing is.
fn read_nowhere() {
    // SAFETY: none: the handler ends the machine.
    let _ = unsafe { core::ptr::with_exposed_provenance::<u8>(NOWHERE).read_volatile() };
}

/// Ends badly, in a way that only this architecture has.
pub(crate) fn crash(how: &str) {
    match how {
        // SAFETY: its handler ends the machine.
        "interrupt" => unsafe { asm!("ebreak") },
        "double-fault" => traps::FAULTS_AGAIN.store(true, Ordering::Relaxed),
        _ => {}
    }
}
