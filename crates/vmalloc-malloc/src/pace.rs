//! Decay without a thread: the threads that free look at the clock.
//!
//! A thread in the background would be seen by the program: by those that count their threads, or
//! call unshare(2), or forbid clone(2). So the first free after an interval has passed drains the
//! space. A program that frees nothing any more keeps what is cached, which the budget bounds.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time between two drains.
#[derive(Debug)]
pub(crate) struct Pace {
    every_ms: u64,
    /// Milliseconds of the monotonic clock at which the next drain is due.
    next_ms: AtomicU64,
}

impl Pace {
    /// Returns a pace of one drain in `every_ms` milliseconds; none at all for 0.
    #[must_use]
    pub(crate) const fn new(every_ms: u64) -> Self {
        Self { every_ms, next_ms: AtomicU64::new(0) }
    }

    /// Returns true in one of the threads that ask, once in each interval.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        if self.every_ms == 0 {
            return false;
        }
        let (now, next) = (now_ms(), self.next_ms.load(Ordering::Relaxed));
        now >= next && self.take(now, next)
    }

    /// Begins the next interval. The first one begins with the first question.
    #[cold]
    fn take(&self, now: u64, next: u64) -> bool {
        let new = now.saturating_add(self.every_ms);
        // Relaxed: one thread wins, and nothing else is published.
        self.next_ms.compare_exchange(next, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() && next != 0
    }
}

/// Returns milliseconds of a clock that the C library reads without a system call.
fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer. The clock is there since Linux 2.6.32; without it the time is 0,
    // and nothing is due.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_at_first_and_one_question_an_interval_afterwards() {
        let pace = Pace::new(1 << 40);
        assert!(!pace.is_due(), "the first interval begins");
        pace.next_ms.store(1, Ordering::Relaxed);
        assert_eq!([pace.is_due(), pace.is_due()], [true, false]);
    }

    #[test]
    fn intervals_of_zero_and_of_all_time_are_never_over() {
        for (every_ms, next_ms) in [(0, 1), (u64::MAX, 0)] {
            let pace = Pace::new(every_ms);
            pace.next_ms.store(next_ms, Ordering::Relaxed);
            assert!((0..3).all(|_| !pace.is_due()));
        }
    }
}
