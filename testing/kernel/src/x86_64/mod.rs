//! What differs on x86-64: a machine that a PVH loader starts (`boot.s`).

pub(crate) mod access;
mod apic;
pub(crate) mod boot;
mod bytes;
pub(crate) mod clock;
pub(crate) mod cpu;
mod madt;
mod serial;
#[cfg(feature = "stack")]
pub(crate) mod stack;
pub(crate) mod tlb;
mod traps;

pub(crate) use apic::{interrupt, start_cpu, wake};
pub(crate) use madt::cpus;
pub(crate) use serial::Port;
pub(crate) use traps::enter;

use crate::exit::{Status, exit};

/// The hardware's number of a CPU: of its interrupt controller.
pub(crate) type CpuId = u8;

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
    entry & 1 << 7 != 0
}
/// The physical address that an entry leads to.
pub(crate) fn leads_to(entry: u64) -> u64 {
    entry & 0x000f_ffff_ffff_f000
}

/// Ends the machine, by the port of `isa-debug-exit`.
pub(crate) fn end(status: u32) -> ! {
    // SAFETY: a device of the machine that ends it.
    unsafe { x86_64::instructions::port::Port::new(0xf4).write(status) };
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

/// Ends badly, in a way that only this architecture has.
pub(crate) fn crash(how: &str) {
    match how {
        // SAFETY: its handler ends the machine.
        "interrupt" => unsafe { core::arch::asm!("int 0x42") },
        "double-fault" => traps::lose_gates(),
        _ => {}
    }
}

/// The precompiled `core` and `alloc` name these two; nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(Status::Died)
}
