//! The processor's counter.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use x86_64::instructions::port::Port;

/// Ticks since some time ago. Under `-icount shift=0` each instruction is one.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { _rdtsc() }
}

/// Finds out how fast it runs: by the old timer, which has 1,193,182 ticks a second.
pub(crate) fn ticks_of_a_millisecond() -> u64 {
    const MILLISECONDS: u64 = 20;
    const COUNT: u16 = (1_193_182 * MILLISECONDS / 1000) as u16;
    let (mut gate, mut mode, mut data) =
        (Port::<u8>::new(0x61), Port::<u8>::new(0x43), Port::<u8>::new(0x42));
    // SAFETY: channel 2 of the timer, which is the speaker's: its gate on, the speaker off; one
    // shot; until its output is high.
    let taken = unsafe {
        let old = gate.read();
        gate.write(old & !2 | 1);
        mode.write(0b1011_0000);
        data.write(COUNT as u8);
        data.write((COUNT >> 8) as u8);
        let start = ticks();
        while gate.read() & 0x20 == 0 {}
        ticks() - start
    };
    taken / MILLISECONDS
}

/// Executes a million instructions.
pub(crate) fn a_million_instructions() {
    // SAFETY: it counts down.
    unsafe {
        asm!("2:", "dec {left:e}", "jnz 2b", left = inout(reg) 500_000 => _, options(nomem, nostack));
    }
}
