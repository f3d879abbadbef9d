//! The processor's counter.

use core::arch::asm;

/// Ticks since some time ago. Under `-icount shift=0` each instruction is one.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: it only reads.
    unsafe { asm!("rdcycle {}", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Finds out how fast it runs: by the timer, which has 10,000,000 ticks a second.
pub(crate) fn ticks_of_a_millisecond() -> u64 {
    const MILLISECONDS: u64 = 20;
    let time = || {
        let time: u64;
        // SAFETY: it only reads.
        unsafe { asm!("rdtime {}", out(reg) time, options(nomem, nostack)) };
        time
    };
    let (begin, start) = (time(), ticks());
    while time() - begin < MILLISECONDS * 10_000 {}
    (ticks() - start) / MILLISECONDS
}

/// Executes a million instructions.
pub(crate) fn a_million_instructions() {
    // SAFETY: it counts down.
    unsafe {
        asm!("2:", "addi {left}, {left}, -1", "bnez {left}, 2b", left = inout(reg) 500_000u64 => _,
            options(nomem, nostack));
    }
}
