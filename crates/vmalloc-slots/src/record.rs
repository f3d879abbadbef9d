//! The records of the slots: what is known of a slot while no [`Slot`](crate::Slot) owns it.

use crate::sync::Lines;
use core::sync::atomic::Ordering::Relaxed;

/// The facts about a slot, in pages. All but `base` are counted from the start of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SlotState {
    /// The first page of the slot; 0 if it has no addresses.
    pub(crate) base: u64,
    /// Pages that are committed, from the start.
    pub(crate) committed: u64,
    /// The most pages that have memory behind them, while the slot is free.
    pub(crate) kept: u64,
    /// The end of the last of those pages.
    pub(crate) kept_end: u64,
    /// Pages that have to be discarded before the slot is free.
    pub(crate) discard: Pages,
    /// The most pages that a waiting slot has beyond those that it keeps.
    pub(crate) waiting: u64,
}

/// A range of pages, which may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pages {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Pages {
    pub(crate) fn is_empty(self) -> bool {
        self.end <= self.start
    }

    pub(crate) fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the part below `limit`.
    pub(crate) fn below(self, limit: u64) -> Self {
        Self { start: self.start, end: self.end.min(limit) }
    }

    /// Returns the pages from the start of the lower range to the end of the higher one.
    pub(crate) fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    /// Returns the pages that both have.
    pub(crate) fn meet(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

/// One record for each slot, in a line of its own. Only the owner of a slot reads or writes its
/// record (SLOT-1): the set that it went through orders that, so the words are relaxed.
#[derive(Debug)]
pub(crate) struct Records {
    lines: Lines,
}

impl Records {
    /// Returns `count` empty records; `None` without memory.
    pub(crate) fn new(count: usize) -> Option<Self> {
        Lines::new(count).map(|lines| Self { lines })
    }

    /// Returns the record of a slot that the caller owns.
    pub(crate) fn get(&self, index: usize) -> SlotState {
        let words = self.lines.get(index);
        let [base, committed, kept, kept_end, start, end, waiting] =
            core::array::from_fn(|nth| words[nth].load(Relaxed));
        SlotState { base, committed, kept, kept_end, discard: Pages { start, end }, waiting }
    }

    /// Sets the record of a slot that the caller owns.
    pub(crate) fn set(&self, index: usize, state: SlotState) {
        let SlotState { base, committed, kept, kept_end, discard: Pages { start, end }, waiting } = state;
        let words = self.lines.get(index);
        let values = [base, committed, kept, kept_end, start, end, waiting];
        words.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart() {
        let records = Records::new(3).unwrap();
        let discard = Pages { start: 5, end: 6 };
        let state = SlotState { base: 1, committed: 2, kept: 3, kept_end: 4, discard, waiting: 7 };
        records.set(1, state);
        assert_eq!(
            [0, 1, 2].map(|index| records.get(index)),
            [SlotState::default(), state, SlotState::default()]
        );
    }

    #[test]
    fn empty_ranges_add_nothing_to_a_hull() {
        let [empty, low, high] = [(9, 9), (2, 4), (6, 7)].map(|(start, end)| Pages { start, end });
        assert_eq!(
            (low.hull(high), high.hull(low)),
            (Pages { start: 2, end: 7 }, Pages { start: 2, end: 7 })
        );
        assert_eq!((low.hull(empty), empty.hull(low)), (low, low));
        assert!(low.meet(high).is_empty() && empty.is_empty() && low.below(2).is_empty());
        assert_eq!((low.below(3).len(), low.meet(Pages { start: 3, end: 9 }).len()), (1, 1));
    }
}
