//! A set of slots, by index: a bit each, and no lock.
//!
//! A thread that clears a bit owns the slot, and a thread that sets it gives the slot up. So two
//! threads never own one, and a fork at any moment leaves each bit either set or clear.

use crate::sync::{AtomicU64, AtomicUsize, words};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const BITS: usize = u64::BITS as usize;

/// The times that all words are read before a set counts as empty: other threads may insert behind
/// the search, and remove ahead of it. Bounded, as the count may be too high for ever after a fork.
const PASSES: usize = 3;

/// A set of indices below a bound.
#[derive(Debug)]
pub(crate) struct IndexSet {
    words: Box<[AtomicU64]>,
    /// Indices in the set, or on their way into it: never too low.
    count: AtomicUsize,
    /// The fewest indices since [`begin_interval`](Self::begin_interval), as far as threads that
    /// removed some at once noted it.
    least: AtomicUsize,
    /// The word where the last search ended.
    hint: AtomicUsize,
}

impl IndexSet {
    /// Returns an empty set of indices below `bound`; `None` without memory.
    pub(crate) fn new(bound: usize) -> Option<Self> {
        let words = words(bound.div_ceil(BITS))?;
        let [count, least, hint] = [(); 3].map(|()| AtomicUsize::new(0));
        Some(Self { words, count, least, hint })
    }

    /// Returns how many indices there are: a hint while other threads change the set.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns how many of the indices were not needed in this interval.
    pub(crate) fn idle(&self) -> usize {
        self.least.load(Relaxed).min(self.len())
    }

    /// Begins the next interval.
    pub(crate) fn begin_interval(&self) {
        self.least.store(self.len(), Relaxed);
    }

    /// Enters `index`, which the caller owns, and gives it up.
    pub(crate) fn insert(&self, index: usize) {
        self.count.fetch_add(1, Relaxed);
        let word = index / BITS;
        // Release: pairs with the Acquire in `remove`, for what the old owner did to the slot.
        self.words[word].fetch_or(1 << (index % BITS), Release);
        if word < self.hint.load(Relaxed) {
            self.hint.store(word, Relaxed);
        }
    }

    /// Removes `index` if it is there. Returns whether it was: the caller owns it then.
    pub(crate) fn remove(&self, index: usize) -> bool {
        let (word, bit) = (&self.words[index / BITS], 1 << (index % BITS));
        if word.load(Relaxed) & bit == 0 {
            return false;
        }
        // Acquire: pairs with the Release in `insert`.
        let was_there = word.fetch_and(!bit, Acquire) & bit != 0;
        if was_there {
            let left = self.count.fetch_sub(1, Relaxed) - 1;
            if left < self.least.load(Relaxed) {
                self.least.store(left, Relaxed);
            }
        }
        was_there
    }

    /// Removes the lowest index, as far as the hint tells. The caller owns it.
    pub(crate) fn remove_lowest(&self) -> Option<usize> {
        let start = self.hint.load(Relaxed).min(self.words.len());
        let found = self.remove_from(start * BITS)?;
        self.hint.store(found / BITS, Relaxed);
        Some(found)
    }

    /// Removes the first index from `start` on, or else the lowest. The caller owns it.
    pub(crate) fn remove_from(&self, start: usize) -> Option<usize> {
        let mut start = start;
        for _ in 0..PASSES {
            if self.len() == 0 {
                return None;
            }
            let found = self.search(start).or_else(|| self.search(0));
            if found.is_some() {
                return found;
            }
            start = 0;
        }
        None
    }

    /// Removes the first index from `start` on. The caller owns it.
    pub(crate) fn search(&self, start: usize) -> Option<usize> {
        let mut mask = u64::MAX << (start % BITS);
        for (nth, word) in self.words.iter().enumerate().skip(start / BITS) {
            let mut bits = word.load(Relaxed) & mask;
            mask = u64::MAX;
            while bits != 0 {
                let index = nth * BITS + bits.trailing_zeros() as usize;
                if self.remove(index) {
                    return Some(index);
                }
                bits &= bits - 1;
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn an_index_has_one_owner() {
        let set = IndexSet::new(200).unwrap();
        assert_eq!((set.remove_lowest(), set.remove(7)), (None, false));
        [199, 3, 64].iter().for_each(|index| set.insert(*index));
        assert_eq!(set.len(), 3);
        assert!(set.remove(64) && !set.remove(64));
        assert_eq!([(); 3].map(|()| set.remove_lowest()), [Some(3), Some(199), None]);
        assert_eq!(set.len(), 0);
    }

    #[test]
    fn indices_below_the_hint_are_found() {
        let set = IndexSet::new(1000).unwrap();
        set.insert(900);
        assert_eq!(set.remove_lowest(), Some(900));
        set.insert(5);
        set.insert(901);
        assert_eq!([(); 2].map(|()| set.remove_lowest()), [Some(5), Some(901)]);
        // A hint that is wrong costs a second look, and finds everything.
        set.insert(5);
        set.hint.store(usize::MAX, Relaxed);
        assert_eq!(set.remove_lowest(), Some(5));
    }

    #[test]
    fn indices_are_removed_in_turn_from_any_start() {
        let set = IndexSet::new(200).unwrap();
        for (start, found) in [(0, 3), (3, 3), (4, 64), (64, 64), (65, 199), (199, 199), (200, 3), (999, 3)] {
            [3, 64, 199].iter().for_each(|index| set.insert(*index));
            assert_eq!(set.remove_from(start), Some(found), "from {start}");
            while set.remove_lowest().is_some() {}
        }
    }

    /// Two threads exchange 8 indices: no index is ever had twice, and none is lost.
    #[test]
    fn two_threads_never_own_one_index() {
        let set = IndexSet::new(128).unwrap();
        let owned: Vec<AtomicUsize> = (0..128).map(|_| AtomicUsize::new(0)).collect();
        (60..68).for_each(|index| set.insert(index));
        let rounds = if cfg!(miri) { 100 } else { 100_000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let index = set.remove_lowest().expect("6 are never owned");
                        assert_eq!(owned[index].fetch_add(1, Relaxed), 0);
                        owned[index].fetch_sub(1, Relaxed);
                        set.insert(index);
                    }
                });
            }
        });
        assert_eq!(set.len(), 8);
        let mut left: Vec<_> = core::iter::from_fn(|| set.remove_lowest()).collect();
        left.sort_unstable();
        assert_eq!(left, (60..68).collect::<Vec<_>>());
    }
}
