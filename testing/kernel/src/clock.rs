//! Time, by the processor's counter.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use x86_64::instructions::port::Port;

/// Ticks of a millisecond.
static TICKS: AtomicU64 = AtomicU64::new(1);

/// Ticks since some time ago. Under `-icount shift=0` each instruction is one.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { _rdtsc() }
}

/// Finds out how fast it runs: by the old timer, which has 1,193,182 ticks a second.
pub(crate) fn calibrate() {
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
    TICKS.store(taken / MILLISECONDS, Ordering::Relaxed);
}

/// Microseconds of so many ticks.
pub(crate) fn microseconds(ticks: u64) -> u64 {
    ticks * 1000 / TICKS.load(Ordering::Relaxed).max(1)
}

/// Waits.
pub(crate) fn delay(time: Duration) {
    wait(time, || false);
}

/// Waits for something, for so long at most; whether it came.
pub(crate) fn wait(time: Duration, is_done: impl Fn() -> bool) -> bool {
    let (start, most) = (ticks(), time.as_millis() as u64 * TICKS.load(Ordering::Relaxed));
    while !is_done() {
        if ticks() - start > most {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}
