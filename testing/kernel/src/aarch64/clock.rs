//! The processor's counter.

use core::arch::asm;

/// Ticks since some time ago. Under `-icount shift=0` one is 16 instructions.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: it only reads.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

pub(crate) fn ticks_of_a_millisecond() -> u64 {
    let frequency: u64;
    // SAFETY: it only reads.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
    frequency / 1000
}

/// Executes a million instructions.
pub(crate) fn a_million_instructions() {
    // SAFETY: it counts down.
    unsafe {
        asm!("2:", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) 500_000u64 => _, options(nomem, nostack));
    }
}
