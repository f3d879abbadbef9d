//! Figures of a pool.

use crate::sync::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Figures of a pool, each true at its moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Slots that have addresses.
    pub reserved: usize,
    /// Slots that can be handed out at once.
    pub free: usize,
    /// Slots that wait to be reset.
    pub waiting: usize,
    /// Bytes of memory that free and waiting slots keep, at most.
    pub kept_bytes: u64,
    /// Bytes of memory that waiting slots have beyond that, at most.
    pub waiting_bytes: u64,
    /// Batches that have reset slots.
    pub batches: u64,
    /// Slots that they have reset.
    pub reset_in_batches: u64,
}

/// Counts of a pool, in pages: they start work and fill [`Stats`], and publish nothing.
#[derive(Debug)]
pub(crate) struct Counts {
    kept: AtomicU64,
    waiting: AtomicU64,
    arrived: AtomicU64,
    batches: AtomicU64,
    reset: AtomicU64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let [kept, waiting, arrived, batches, reset] = [(); 5].map(|()| AtomicU64::new(0));
        Self { kept, waiting, arrived, batches, reset }
    }

    /// Counts up to `wanted` more pages as kept, as far as `most` allows. Returns how many.
    pub(crate) fn keep(&self, wanted: u64, most: u64) -> u64 {
        let before = self.kept.fetch_add(wanted, Relaxed);
        let granted = most.saturating_sub(before).min(wanted);
        if granted < wanted {
            self.kept.fetch_sub(wanted - granted, Relaxed);
        }
        granted
    }

    /// Counts pages off that are not kept any more.
    pub(crate) fn unkeep(&self, pages: u64) {
        self.kept.fetch_sub(pages, Relaxed);
    }

    /// Counts pages of a slot that begins to wait. Returns whether their number passes a multiple
    /// of `most` by that.
    pub(crate) fn wait(&self, pages: u64, most: u64) -> bool {
        let before = self.waiting.fetch_add(pages, Relaxed);
        (before + pages) / most.max(1) > before / most.max(1)
    }

    /// Counts a slot that begins to wait. Returns whether it is the last of so many that do.
    pub(crate) fn arrive(&self, batch: u64) -> bool {
        (self.arrived.fetch_add(1, Relaxed) + 1).is_multiple_of(batch)
    }

    /// Counts pages off of a slot that has been reset by a batch.
    pub(crate) fn unwait(&self, pages: u64) {
        self.waiting.fetch_sub(pages, Relaxed);
    }

    /// Counts a batch, which has reset so many slots.
    pub(crate) fn batch(&self, slots: usize) {
        self.batches.fetch_add(1, Relaxed);
        self.reset.fetch_add(slots as u64, Relaxed);
    }

    /// Fills in the figures that are counted here, of pages of `1 << shift` bytes.
    pub(crate) fn tell(&self, shift: u32, stats: Stats) -> Stats {
        Stats {
            kept_bytes: self.kept.load(Relaxed) << shift,
            waiting_bytes: self.waiting.load(Relaxed) << shift,
            batches: self.batches.load(Relaxed),
            reset_in_batches: self.reset.load(Relaxed),
            ..stats
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_allowed() {
        let counts = Counts::new();
        assert_eq!([6, 6, 6].map(|wanted| counts.keep(wanted, 10)), [6, 4, 0]);
        counts.unkeep(6);
        assert_eq!(counts.keep(9, 10), 6);
        assert_eq!(counts.tell(12, Stats::default()).kept_bytes, 10 << 12);
    }

    #[test]
    fn a_batch_is_due_each_time_that_a_multiple_is_passed() {
        let counts = Counts::new();
        assert_eq!([9, 1, 9, 20].map(|pages| counts.wait(pages, 10)), [false, true, false, true]);
        // Without an allowance each slot is reset by itself.
        assert!(counts.wait(1, 0) && !counts.wait(0, 0));
    }
}
