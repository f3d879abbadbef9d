//! How lazy areas go back under one global lock: three answers to the question which threads wait
//! meanwhile.
//!
//! | | held over all of it | the lock of allocations, while areas are given back | a thread that finds a purge under way |
//! |---|---|---|---|
//! | P0, before 2016 | a spin lock | held | goes away if it needs no result, else spins |
//! | P1, 2016 | nothing | offered after each area | purges what has come since; waits for the count if it needs a result |
//! | P2, 2018 | nothing | offered after each area while fewer than 2 × lazy_max pages wait | as P1 |
//! | [one purger](one_purger), 2017 to 2018 | a lock that purges alone take | as P1, or as P2 | goes away |
//!
//! * `P1` A set of lazy areas leaves the list whole, under the lock, so no area is in two sets. The last
//!   freed goes back first, which the descriptions leave open.
//! * `P2` `purging` counts the threads that have a set in hand. A thread that needs the lazy areas freed takes the set that there is and
//!   then waits until none has one. (The race: the first has emptied the list and given nothing back; the second finds
//!   nothing. It must not conclude that there is nothing.) With P0 the spin lock is the wait.
//! * `P3` The count of lazy pages falls with each area. P2 keeps the lock while it is high: under P1 allocations can take the lock
//!   so often that freed areas gather faster than they go back, without end.
//!
//! Offered means that a waiting thread has it next. Sources: the postings of 2016 and of 2018.

use super::areas::Areas;
use super::augmented::Augmented;
use super::classic::Classic;
use super::pair::Pair;
use super::stack::Stack;
use crate::design::{Design, Setup};
use crate::lock::{self, Mutex};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use vmalloc::sync::AtomicU64;

/// See the [module](self).
pub(super) enum Purge {
    /// P0, and one purger.
    Held { purger: Mutex<()>, offer: Offer },
    /// P1 and P2.
    Counted { purging: AtomicU64, offer: Offer },
}

/// When the lock is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offer {
    Never,
    Always,
    UnlessPressed,
}

impl Purge {
    pub(super) const fn p0() -> Self {
        Self::Held { purger: Mutex::new(()), offer: Offer::Never }
    }

    pub(super) const fn p1() -> Self {
        Self::Counted { purging: AtomicU64::new(0), offer: Offer::Always }
    }

    pub(super) const fn p2() -> Self {
        Self::Counted { purging: AtomicU64::new(0), offer: Offer::UnlessPressed }
    }
}

/// Builds the tree as it was when the threshold was proposed: the series of 2016 had been merged
/// with one purge at a time. It always offers the lock, or does unless many pages are lazy.
///
/// # Panics
/// When memory for its metadata is short.
#[must_use]
pub fn one_purger(setup: &Setup, always_offers: bool) -> Box<dyn Design> {
    let offer = if always_offers { Offer::Always } else { Offer::UnlessPressed };
    let purge = Purge::Held { purger: Mutex::new(()), offer };
    Box::new(Classic::<Pair<Augmented>>::new("one-purger", setup, purge))
}

impl<S: Areas> Classic<S> {
    /// Purges for a caller that needs no result.
    pub(super) fn purge_if_nobody_does(&self) {
        match &self.purge {
            Purge::Held { purger, offer } => {
                let Some(_purging) = purger.try_lock() else { return };
                self.give_all(*offer);
            }
            Purge::Counted { purging, offer } => self.give_all_counted(purging, *offer),
        }
    }

    /// Frees all that was lazy before the call.
    pub(super) fn purge_and_wait(&self) {
        match &self.purge {
            Purge::Held { purger, offer } => {
                let _purging = purger.lock();
                self.give_all(*offer);
            }
            Purge::Counted { purging, offer } => {
                self.give_all_counted(purging, *offer);
                // Acquire: pairs with the release of each purge that ends.
                while purging.load(Acquire) != 0 {
                    lock::yield_now();
                }
            }
        }
    }

    fn give_all_counted(&self, purging: &AtomicU64, offer: Offer) {
        // Before the set is taken: the lock that is taken then is what makes it seen by who finds
        // the list empty.
        purging.fetch_add(1, Relaxed);
        self.give_all(offer);
        purging.fetch_sub(1, Release);
    }

    fn give_all(&self, offer: Offer) {
        let mut held = self.held.lock();
        if held.lazy.is_empty() {
            return;
        }
        let set = std::mem::take(&mut held.lazy);
        drop(held);
        self.purges.fetch_add(1, Relaxed);
        flush(&set);
        self.give(set, offer);
    }

    fn give(&self, mut set: Stack<S::Freed>, offer: Offer) {
        let (mut held, mut hold) = (self.held.lock(), 0);
        while let Some(freed) = set.pop() {
            let pages = held.areas.give(freed);
            let lazy = self.lazy.load(Relaxed) - pages;
            self.lazy.store(lazy, Relaxed);
            hold += 1;
            if self.offers(offer, lazy) {
                lock::offer(&mut held);
                self.note_hold(std::mem::take(&mut hold));
            }
        }
        self.note_hold(hold);
    }

    /// So many areas were given back under one hold of the lock. Hardly ever a record, so it is
    /// read first.
    fn note_hold(&self, areas: u64) {
        if areas > self.longest_hold.load(Relaxed) {
            self.longest_hold.fetch_max(areas, Relaxed);
        }
    }

    fn offers(&self, offer: Offer, lazy: u64) -> bool {
        match offer {
            Offer::Never => false,
            Offer::Always => true,
            Offer::UnlessPressed => lazy < 2 * self.lazy_max,
        }
    }
}

/// Here every CPU would forget its translations, once for all of the set. There is no memory and so
/// nothing to forget.
pub(super) fn flush<T>(_set: &Stack<T>) {
    vmalloc_kit::hooks::flush();
}

#[cfg(test)]
mod tests;
