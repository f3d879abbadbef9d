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
use crate::sync::{AtomicBool, AtomicUsize, fence};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

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
    /// True if a slot was freed since a drain looked. Seldom written.
    is_marked: AtomicBool,
}

impl FreeSet {
    /// Returns an empty set of indices below `bound`, with a place for each of `cpus` CPUs; `None`
    /// without memory.
    pub(crate) fn new(bound: usize, cpus: usize) -> Option<Self> {
        let mut places = Vec::new();
        places.try_reserve_exact(cpus.max(1)).ok()?;
        places.resize_with(cpus.max(1), || Place(AtomicUsize::new(0)));
        let (set, places) = (IndexSet::new(bound)?, places.into_boxed_slice());
        Some(Self { set, places, is_marked: AtomicBool::new(false) })
    }

    /// Returns how many slots there are: a hint while other threads change the set. O(CPUs).
    pub(crate) fn len(&self) -> usize {
        self.set.len() + self.places.iter().filter(|place| place.0.load(Relaxed) != 0).count()
    }

    /// Marks that a slot was freed, before the space is to know.
    pub(crate) fn mark(&self) {
        // Relaxed, here and below: a drain that takes away the mark seen here comes again.
        if !self.is_marked.load(Relaxed) {
            self.is_marked.store(true, Relaxed);
            // SeqCst, with the one below: a drain forgets that it was asked before it looks for the
            // mark. So it finds the mark, or the freeing thread finds that it forgot.
            fence(SeqCst);
        }
    }

    /// Takes the mark away. Returns whether it was there.
    pub(crate) fn unmark(&self) -> bool {
        fence(SeqCst);
        self.is_marked.swap(false, Relaxed)
    }

    /// Calls `act` with each slot, for it to own, and whether it counts as idle: as many slots as
    /// were not needed since this was called the last time, of those that are handed out last.
    /// Parked slots are parked no more. O(slots).
    pub(crate) fn age(&self, mut act: impl FnMut(usize, bool)) {
        while let Some(index) = self.take_any_parked() {
            self.insert(index);
        }
        let (count, mut next) = (self.set.len(), 0);
        let needed = count - self.set.idle().min(count);
        for nth in 0..count {
            let Some(index) = self.set.search(next) else { break };
            act(index, nth >= needed);
            next = index + 1;
        }
        self.set.begin_interval();
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
        assert_eq!(free.len(), 2);
        assert!(!free.remove(9), "it is parked");
        assert_eq!((free.take_parked(0), free.take_parked(0)), (Some(9), None));
        assert_eq!((free.take_any_parked(), free.take_any_parked(), free.len()), (Some(0), None, 0));
    }

    #[test]
    fn slots_that_were_needed_are_not_idle() {
        let free = FreeSet::new(100, 2).unwrap();
        let idle = || {
            let mut idle = Vec::new();
            free.age(|index, is_idle| {
                idle.extend(is_idle.then_some(index));
                free.insert(index);
            });
            idle
        };
        (0..6).for_each(|index| free.insert(index));
        assert_eq!((free.park(0, 6), idle()), (None, Vec::new()), "all are new");
        let needed = [(); 4].map(|()| free.remove_lowest().unwrap());
        needed.iter().for_each(|index| free.insert(*index));
        assert_eq!((idle(), idle()), ([4, 5, 6].to_vec(), (0..7).collect()));
    }

    #[test]
    fn a_mark_is_found_once() {
        let free = FreeSet::new(1, 2).unwrap();
        assert!(!free.unmark());
        [(); 2].iter().for_each(|()| free.mark());
        assert!(free.unmark() && !free.unmark());
    }
}
