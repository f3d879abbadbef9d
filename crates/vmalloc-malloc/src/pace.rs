//! Decay without a thread: the threads that free look at the clock.
//!
//! A thread in the background would be seen by the program: by those that count their threads, or
//! call unshare(2), or forbid clone(2). So the first free after an interval has passed drains the
//! space, once for each interval since the last: what an idle program did not need is gone then.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The most drains that are made up for. Each leaves three quarters: of 1 GiB, 100 KiB are left.
const MOST_DUE: u64 = 32;

/// Bytes that are freed between two looks at what is cached.
const STEP: usize = 8 << 20;

/// The time between two drains, and the bytes between two looks.
#[derive(Debug)]
pub(crate) struct Pace {
    every_ms: u64,
    /// Milliseconds of the monotonic clock at which the next drain is due.
    next_ms: AtomicU64,
    /// Bytes of all blocks that were freed.
    freed: AtomicUsize,
}

impl Pace {
    /// Returns a pace of one drain in `every_ms` milliseconds; none at all for 0.
    #[must_use]
    pub(crate) const fn new(every_ms: u64) -> Self {
        Self { every_ms, next_ms: AtomicU64::new(0), freed: AtomicUsize::new(0) }
    }

    /// Returns how many drains are due, to one of the threads that ask in each interval: as many as
    /// intervals have passed, but no more than leave anything.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        if self.every_ms == 0 {
            return 0;
        }
        let (now, next) = (now_ms(), self.next_ms.load(Ordering::Relaxed));
        if now < next { 0 } else { self.take(now, next) }
    }

    /// Counts a block that was freed. Returns true to one thread in each [`STEP`].
    #[inline]
    pub(crate) fn has_freed_much(&self, bytes: usize) -> bool {
        // Relaxed: a count, and nothing else is published.
        let before = self.freed.fetch_add(bytes, Ordering::Relaxed);
        before / STEP != before.wrapping_add(bytes) / STEP
    }

    /// Begins the next interval. The first one begins with the first question.
    #[cold]
    fn take(&self, now: u64, next: u64) -> u64 {
        let new = now.saturating_add(self.every_ms);
        // Relaxed: one thread wins, and nothing else is published.
        let has_won = self.next_ms.compare_exchange(next, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if has_won && next != 0 { ((now - next) / self.every_ms).saturating_add(1).min(MOST_DUE) } else { 0 }
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
        assert_eq!(pace.due(), 0, "the first interval begins");
        pace.next_ms.store(1, Ordering::Relaxed);
        assert_eq!([pace.due(), pace.due()], [1, 0]);
    }

    #[test]
    fn intervals_in_which_nobody_asked_are_made_up_for() {
        let pace = Pace::new(1 << 20);
        let at = |now: u64| pace.take(now, pace.next_ms.load(Ordering::Relaxed));
        assert_eq!([at(5), at(5 + (1 << 20)), at(5 + (5 << 20)), at(1 << 40)], [0, 1, 4, MOST_DUE]);
    }

    #[test]
    fn intervals_of_zero_and_of_all_time_are_never_over() {
        for (every_ms, next_ms) in [(0, 1), (u64::MAX, 0)] {
            let pace = Pace::new(every_ms);
            pace.next_ms.store(next_ms, Ordering::Relaxed);
            assert!((0..3).all(|_| pace.due() == 0));
        }
    }
}
