//! The free slots: a set that all CPUs share, and one slot for each CPU that is *parked* there.
//!
//! ```text
//!   CPU 0   parked: 7     ◄── free, alloc: one exchange in a line of this CPU alone
//!   CPU 1   parked: –
//!      │ the one before       ▲ a CPU that finds nothing else
//!      ▼                      │
//!   set   {2, 3, 9}  ─────────┘
//! ```
//!
//! A CPU whose threads free and allocate in turn writes nothing that another CPU reads. A parked
//! slot is free like any other, and any CPU may take it.

use crate::index_set::IndexSet;
use crate::sync::AtomicUsize;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A slot by its index plus 1, or 0. In a line of its own, and apart from the next one, which the
/// CPU fetches with it.
#[derive(Debug)]
#[repr(align(128))]
struct Place(AtomicUsize);

/// The slots that can be handed out at once.
#[derive(Debug)]
pub(crate) struct FreeSet {
    set: IndexSet,
    places: Box<[Place]>,
}

impl FreeSet {
    /// Returns an empty set of indices below `bound`, with a place for each of `cpus` CPUs; `None`
    /// without memory.
    pub(crate) fn new(bound: usize, cpus: usize) -> Option<Self> {
        let mut places = Vec::new();
        places.try_reserve_exact(cpus.max(1)).ok()?;
        places.resize_with(cpus.max(1), || Place(AtomicUsize::new(0)));
        Some(Self { set: IndexSet::new(bound)?, places: places.into_boxed_slice() })
    }

    /// Returns how many slots there are: a hint while other threads change the set. O(CPUs).
    pub(crate) fn len(&self) -> usize {
        self.set.len() + self.places.iter().filter(|place| place.0.load(Relaxed) != 0).count()
    }

    /// Returns whether there are fewer than `most` slots. Looks at other CPUs only near the limit.
    pub(crate) fn is_below(&self, most: usize) -> bool {
        self.set.len() + self.places.len() < most || self.len() < most
    }

    /// Parks a slot that the caller owns on a CPU, and gives it up. Returns the one that was there:
    /// the caller owns it.
    pub(crate) fn park(&self, cpu: usize, index: usize) -> Option<usize> {
        // Release: for what the old owner did to the slot. Acquire: for that of the one before.
        self.place(cpu).0.swap(index + 1, AcqRel).checked_sub(1)
    }

    /// Takes the slot that is parked on a CPU. The caller owns it.
    pub(crate) fn take_parked(&self, cpu: usize) -> Option<usize> {
        let place = &self.place(cpu).0;
        if place.load(Relaxed) == 0 {
            return None;
        }
        // Acquire: pairs with the Release in `park`.
        place.swap(0, Acquire).checked_sub(1)
    }

    /// Takes a slot that is parked on any CPU. The caller owns it. O(CPUs).
    pub(crate) fn take_any_parked(&self) -> Option<usize> {
        (0..self.places.len()).find_map(|cpu| self.take_parked(cpu))
    }

    /// Enters a slot that the caller owns, and gives it up.
    pub(crate) fn insert(&self, index: usize) {
        self.set.insert(index);
    }

    /// Removes a slot that is not parked, if it is there. Returns whether it was: the caller owns
    /// it then.
    pub(crate) fn remove(&self, index: usize) -> bool {
        self.set.remove(index)
    }

    /// Removes the lowest slot of those that are not parked, as far as a hint tells. The caller
    /// owns it.
    pub(crate) fn remove_lowest(&self) -> Option<usize> {
        self.set.remove_lowest()
    }

    fn place(&self, cpu: usize) -> &Place {
        &self.places[cpu % self.places.len()]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_slot_that_is_parked_last_comes_first_and_the_one_before_goes_to_its_owner() {
        let free = FreeSet::new(100, 2).unwrap();
        assert_eq!((free.take_parked(0), free.park(0, 7), free.park(0, 9)), (None, None, Some(7)));
        assert_eq!(free.park(3, 0), None, "CPU 3 shares the place of CPU 1");
        assert_eq!((free.len(), free.is_below(3), free.is_below(2)), (2, true, false));
        assert!(!free.remove(9), "it is parked");
        assert_eq!((free.take_parked(0), free.take_parked(0)), (Some(9), None));
        assert_eq!((free.take_any_parked(), free.take_any_parked(), free.len()), (Some(0), None, 0));
    }

    #[test]
    fn the_limit_counts_parked_slots() {
        let free = FreeSet::new(100, 4).unwrap();
        (0..4).for_each(|cpu| assert_eq!(free.park(cpu, cpu), None));
        (10..15).for_each(|index| free.insert(index));
        assert_eq!([9, 10, 20].map(|most| free.is_below(most)), [false, true, true]);
    }
}
