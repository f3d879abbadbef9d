//! What differs on AArch64: the machine `virt` of QEMU.

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
pub(crate) const DIRECT_MAP: usize = 0xffff_8000_0000_0000;
/// The first page of the first space, the pages from there to that of the next, and of a span.
pub(crate) const SPACES: u64 = 0xf_ffff_c900_0000;
pub(crate) const APART: u64 = 1 << 28;
pub(crate) const SPAN: u64 = 16 << 20;
/// An address where nothing is.
pub(crate) const NOWHERE: usize = 0xffff_fe00_0000_0000;

/// A look at an entry of a page table above the lowest level: whether it leads anywhere, and
/// whether to memory.
pub(crate) const LEVELS: u32 = 4;
pub(crate) fn is_present(entry: u64) -> bool {
    entry & 1 != 0
}
pub(crate) fn is_leaf(entry: u64) -> bool {
    entry & 2 == 0
}
/// The physical address that an entry leads to.
pub(crate) fn leads_to(entry: u64) -> u64 {
    entry & 0x0000_ffff_ffff_f000
}

/// Returns the numbers of all CPUs, this one's first, as `virt` numbers them.
pub(crate) fn cpus(info: &StartInfo) -> Vec<u64> {
    info.cpus().to_vec()
}

/// Calls the firmware, by the convention that QEMU's has.
fn firmware(function: u64, arguments: [u64; 3]) -> i64 {
    let [one, two, three] = arguments;
    let result;
    // SAFETY: the functions that are called here start a CPU, and do no more.
    unsafe {
        asm!("hvc #0", inout("x0") function => result, inout("x1") one => _, inout("x2") two => _,
            inout("x3") three => _, out("x4") _, out("x5") _, out("x6") _, out("x7") _, out("x8") _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _,
            out("x16") _, out("x17") _);
    }
    result
}

/// Starts a CPU, on a stack that ends there.
pub(crate) fn start_cpu(
    cpu: u64,
    number: usize,
    stack: u64,
    is_up: impl Fn() -> bool,
) -> Result<bool, &'static str> {
    const CPU_ON: u64 = 0xc400_0003;
    let top = stack - 16;
    // SAFETY: the end of the new CPU's stack, which nothing uses yet.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(top as usize).write_volatile(number as u64) };
    // The CPU comes up without its MMU, at physical addresses; the heap is in the direct map.
    if firmware(CPU_ON, [cpu, boot::second_addr(), top]) != 0 {
        return Err("the firmware has no CPU_ON (PSCI)");
    }
    Ok(time::wait(Duration::from_secs(20), is_up))
}

/// Makes CPUs look for work.
pub(crate) fn wake(_: u64) {
    // SAFETY: what was written comes before the event.
    unsafe { asm!("dsb ish", "sev", options(nostack)) };
}

/// Is never called: forgetting reaches all CPUs.
pub(crate) fn interrupt(cpu: u64) {
    unreachable!("CPU {cpu} is interrupted");
}

/// The serial port, a PL011.
pub(crate) struct Port;

impl Port {
    pub(crate) const fn new() -> Self {
        Self
    }
}

impl fmt::Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: its data register; QEMU's takes bytes at any time.
            unsafe { direct::<u32>(0x0900_0000).write_volatile(u32::from(byte)) };
        }
        Ok(())
    }
}

/// Ends the machine with a status: by semihosting.
pub(crate) fn end(status: u32) -> ! {
    const EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x20026;
    let block = [APPLICATION_EXIT, u64::from(2 * status + 1)];
    // SAFETY: it ends the machine.
    unsafe { asm!("hlt #0xf000", in("x0") EXIT, in("x1") block.as_ptr(), options(noreturn)) }
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
        "interrupt" => unsafe { asm!("svc #0x42") },
        "double-fault" => traps::FAULTS_AGAIN.store(true, Ordering::Relaxed),
        _ => {}
    }
}
