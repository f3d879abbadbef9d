//! The stacks that one CPU, or a few, have dropped.

use crate::magazine::Magazine;
use std::sync::atomic::{AtomicBool, Ordering};

/// Dropped stacks of one CPU. The CPU is a hint: any shard would do.
pub(crate) struct Shard {
    /// Stacks of the pool's size that were not used below their kept part.
    pub(crate) warm: Magazine,
    /// Stacks of the pool's size that were. They are reused first, and trimmed together.
    pub(crate) deep: Magazine,
    /// Named stacks and those of other sizes, to be trimmed together and given to the space.
    pub(crate) single: Magazine,
    /// True if a stack was dropped here since the decay looked.
    is_active: AtomicBool,
}

impl Shard {
    pub(crate) fn new() -> Self {
        let [warm, deep, single] = [(); 3].map(|()| Magazine::new());
        Self { warm, deep, single, is_active: AtomicBool::new(false) }
    }

    pub(crate) fn magazines(&self) -> [&Magazine; 3] {
        [&self.warm, &self.deep, &self.single]
    }

    /// Notes that a stack is dropped here. Returns true for the first one since the decay looked.
    #[inline]
    pub(crate) fn activate(&self) -> bool {
        // Relaxed: a stale answer costs a look at the decay's state.
        if self.is_active.load(Ordering::Relaxed) {
            return false;
        }
        // SeqCst, here and below: with the state of the decay. Of a thread that drops a stack and a
        // decay that ends, one sees the other.
        self.is_active.store(true, Ordering::SeqCst);
        true
    }

    /// Returns whether a stack was dropped here since this was called the last time.
    pub(crate) fn deactivate(&self) -> bool {
        self.is_active.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.magazines().iter().all(|magazine| magazine.is_empty())
    }
}
