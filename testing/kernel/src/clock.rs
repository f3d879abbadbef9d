//! Time, by the processor's counter.

use crate::arch;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

pub(crate) use arch::clock::ticks;

/// Ticks of a millisecond.
static TICKS: AtomicU64 = AtomicU64::new(1);

/// Finds out how fast it runs.
pub(crate) fn calibrate() {
    TICKS.store(arch::clock::ticks_of_a_millisecond(), Ordering::Relaxed);
}

/// Microseconds of so many ticks.
pub(crate) fn microseconds(ticks: u64) -> u64 {
    ticks * 1000 / TICKS.load(Ordering::Relaxed).max(1)
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
