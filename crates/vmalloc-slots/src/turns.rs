//! Turns at all waiting and free slots of a pool: of drains of the space, or of callers that keep
//! drains out. So a flush misses no slot that a drain has taken.
//!
//! ```text
//!   generation of the space │ callers │ drains at work
//! ```
//!
//! The child of a fork has none of its parent's other threads, and another generation.

use crate::sync::{AtomicU64, pause};
use core::sync::atomic::Ordering::{Acquire, Release};

const DRAIN: u64 = 1;
const CALLER: u64 = 1 << 16;
const GENERATION_SHIFT: u32 = 32;

/// The word of a pool.
#[derive(Debug)]
pub(crate) struct Turns(AtomicU64);

/// A turn, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    own: u64,
    generation: u64,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins the turn of a drain; `None` while a caller keeps it out.
    pub(crate) fn drain(&self, generation: u64) -> Option<Turn<'_>> {
        self.enter(DRAIN, generation, |word| word < CALLER)
    }

    /// Begins the turn of a caller, once the drains at work have ended.
    pub(crate) fn caller(&self, generation: u64) -> Option<Turn<'_>> {
        let turn = self.enter(CALLER, generation, |_| true);
        // Acquire: pairs with the Release at the end of a drain. A batch takes a call or two of the
        // platform, and no caller needs another turn meanwhile.
        while self.0.load(Acquire) % CALLER != 0 {
            pause();
        }
        turn
    }

    fn enter(&self, own: u64, generation: u64, may: impl Fn(u64) -> bool) -> Option<Turn<'_>> {
        let enter = |word: u64| {
            let (of, turns) = (word >> GENERATION_SHIFT, word % (1 << GENERATION_SHIFT));
            let turns = if of == generation { turns } else { 0 };
            may(turns).then_some(generation << GENERATION_SHIFT | (turns + own))
        };
        // Acquire: pairs with the Release of the turn before.
        self.0.fetch_update(Acquire, Acquire, enter).ok().map(|_| Turn { turns: self, own, generation })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let leave = |word: u64| (word >> GENERATION_SHIFT == self.generation).then(|| word - self.own);
        // Release: the work comes before the next turn. After a fork in between there is nothing to
        // be counted off.
        let _ = self.turns.0.fetch_update(Release, Acquire, leave);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn callers_keep_drains_out_and_a_child_of_a_fork_forgets_both() {
        let turns = Turns::new();
        let drains = [turns.drain(0), turns.drain(0)];
        assert!(drains.iter().all(Option::is_some), "drains work side by side");
        drop(drains);
        let caller = turns.caller(0);
        assert!(caller.is_some() && turns.drain(0).is_none());
        let of_parent = turns.drain(1);
        assert!(of_parent.is_some(), "another generation has no callers yet");
        drop(caller);
        let caller = turns.caller(2);
        drop(of_parent);
        assert!(caller.is_some() && turns.drain(2).is_none());
        drop(caller);
        assert!(turns.drain(2).is_some());
    }
}
