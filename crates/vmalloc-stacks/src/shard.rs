//! The stacks that one CPU, or a few, have dropped.

use crate::magazine::Magazine;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use vmalloc_linux::fork;

/// No generation of a process.
const IDLE: u32 = 0;

/// Dropped stacks of one CPU. The CPU is a hint: any shard would do.
pub(crate) struct Shard {
    /// Stacks of the pool's size that were not used below their kept part.
    pub(crate) warm: Magazine,
    /// Stacks of the pool's size that were. They are reused first, and trimmed together.
    pub(crate) deep: Magazine,
    /// Named stacks and those of other sizes, to be trimmed together and given to the space.
    pub(crate) single: Magazine,
    /// The [generation](fork::generation) of the process if a stack was dropped here since a drain
    /// looked, else [`IDLE`]. The child of a fork has no drain that its parent asked for.
    active: AtomicU32,
}

impl Shard {
    pub(crate) fn new() -> Self {
        let [warm, deep, single] = [(); 3].map(|()| Magazine::new());
        Self { warm, deep, single, active: AtomicU32::new(IDLE) }
    }

    pub(crate) fn magazines(&self) -> [&Magazine; 3] {
        [&self.warm, &self.deep, &self.single]
    }

    /// Marks that a stack is dropped here. Returns true for the first one since a drain looked: the
    /// space is to know.
    #[inline]
    pub(crate) fn activate(&self) -> bool {
        let mark = fork::generation();
        // Relaxed, here and below: a drain that takes away the mark seen here comes again.
        if self.active.load(Ordering::Relaxed) == mark {
            return false;
        }
        self.active.store(mark, Ordering::Relaxed);
        // SeqCst, with the one below: a drain forgets that it was asked before it looks for the
        // mark. So it finds the mark, or the dropping thread finds that it forgot.
        fence(Ordering::SeqCst);
        true
    }

    /// Returns whether a stack was dropped here since this was called the last time.
    pub(crate) fn deactivate(&self) -> bool {
        fence(Ordering::SeqCst);
        self.active.swap(IDLE, Ordering::Relaxed) != IDLE
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.magazines().iter().all(|magazine| magazine.is_empty())
    }
}
