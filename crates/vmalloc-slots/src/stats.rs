//! Figures of a pool.

use crate::sync::{AtomicU64, Lines};
use core::sync::atomic::Ordering::Relaxed;

/// Figures of a pool, each true at its moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SlotsStats {
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

/// Counts of a pool, in pages: they start work and fill [`SlotsStats`], and publish nothing.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Pages that slots keep, and the credit of all CPUs.
    kept: AtomicU64,
    /// The most of these.
    most: u64,
    /// For each CPU, pages that are counted, and kept by no slot: so a CPU that frees and allocates
    /// in turn changes no count that others read.
    credit: Lines,
    /// The most credit of a CPU. All of it is at most a quarter of what may be kept.
    most_credit: u64,
    waiting: AtomicU64,
    arrived: AtomicU64,
    batches: AtomicU64,
    reset: AtomicU64,
}

impl Counts {
    /// Returns counts of a pool that keeps up to `most` pages; `None` without memory.
    pub(crate) fn new(cpus: usize, most: u64) -> Option<Self> {
        let [kept, waiting, arrived, batches, reset] = [(); 5].map(|()| AtomicU64::new(0));
        let (credit, most_credit) = (Lines::new(cpus.max(1))?, most / 4 / cpus.max(1) as u64);
        Some(Self { kept, most, credit, most_credit, waiting, arrived, batches, reset })
    }

    /// Counts up to `wanted` more pages as kept, as far as is allowed. Returns how many.
    pub(crate) fn keep(&self, cpu: usize, wanted: u64) -> u64 {
        let rest = |credit: u64| (wanted.min(credit) != 0).then(|| credit - wanted.min(credit));
        let credit = self.credit(cpu).fetch_update(Relaxed, Relaxed, rest).unwrap_or(0).min(wanted);
        let missing = wanted - credit;
        if missing == 0 {
            return credit;
        }
        let before = self.kept.fetch_add(missing, Relaxed);
        let granted = self.most.saturating_sub(before).min(missing);
        if granted < missing {
            self.kept.fetch_sub(missing - granted, Relaxed);
        }
        credit + granted
    }

    /// Counts pages off that are not kept any more: they become credit of the CPU, if that is not
    /// too much.
    pub(crate) fn unkeep(&self, cpu: usize, pages: u64) {
        let sum = |credit: u64| (credit + pages <= self.most_credit).then_some(credit + pages);
        if pages != 0 && self.credit(cpu).fetch_update(Relaxed, Relaxed, sum).is_err() {
            self.kept.fetch_sub(pages, Relaxed);
        }
    }

    fn credit(&self, cpu: usize) -> &AtomicU64 {
        &self.credit.get(cpu % self.credit.len())[0]
    }

    /// Counts pages of a slot that begins to wait. Returns whether their number passes a multiple
    /// of `most` by that.
    pub(crate) fn wait(&self, pages: u64, most: u64) -> bool {
        let before = self.waiting.fetch_add(pages, Relaxed);
        (before + pages) / most.max(1) > before / most.max(1)
    }

    /// Counts a slot that begins to wait. Returns whether it is the last of so many that do.
    pub(crate) fn arrive(&self, batch: u64) -> bool {
        (self.arrived.fetch_add(1, Relaxed) + 1) % batch == 0
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
    pub(crate) fn tell(&self, shift: u32, stats: SlotsStats) -> SlotsStats {
        let credit: u64 = (0..self.credit.len()).map(|cpu| self.credit(cpu).load(Relaxed)).sum();
        SlotsStats {
            kept_bytes: self.kept.load(Relaxed).saturating_sub(credit) << shift,
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
        let counts = Counts::new(1, 10).unwrap();
        assert_eq!([6, 6, 6].map(|wanted| counts.keep(0, wanted)), [6, 4, 0]);
        counts.unkeep(0, 6);
        assert_eq!(counts.keep(0, 9), 6);
        assert_eq!(counts.tell(12, SlotsStats::default()).kept_bytes, 10 << 12);
    }

    #[test]
    fn credit_of_a_cpu_is_counted_for_all_and_told_as_kept_by_none() {
        let counts = Counts::new(2, 80).unwrap();
        assert_eq!([10, 10].map(|wanted| counts.keep(0, wanted)), [10, 10]);
        counts.unkeep(0, 8);
        counts.unkeep(0, 4);
        assert_eq!((counts.kept.load(Relaxed), counts.tell(0, SlotsStats::default()).kept_bytes), (16, 8));
        assert_eq!(counts.keep(1, 100), 64, "8 are credit of the other CPU");
        assert_eq!((counts.keep(0, 100), counts.keep(0, 1)), (8, 0));
        assert_eq!(counts.tell(0, SlotsStats::default()).kept_bytes, 80);
    }

    #[test]
    fn a_batch_is_due_each_time_that_a_multiple_is_passed() {
        let counts = Counts::new(1, 0).unwrap();
        assert_eq!([9, 1, 9, 20].map(|pages| counts.wait(pages, 10)), [false, true, false, true]);
        // Without an allowance each slot is reset by itself.
        assert!(counts.wait(1, 0) && !counts.wait(0, 0));
    }
}
