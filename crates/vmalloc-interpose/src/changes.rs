//! What became the program's, and what ceased to be, while a thread forks.
//!
//! fork(2) copies all records at a moment of its own, and other threads may be in any step then. So
//! while a thread forks the map stays as it is, and each change of what the program has is one more
//! entry of a list of fixed size. The copy in the child is whole, whatever the moment: an entry
//! counts once the number of entries says so, and nothing else is written.
//!
//! ```text
//!   map, as at the start of the fork   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓    ▓ the program's
//!   1st entry: unmapped                    ░░░░░░░░░░                              ░ not the program's
//!   2nd entry: mapped                            ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//!   what holds: the last entry         ▓▓▓▓░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░▓▓▓▓▓▓▓▓
//! ```
//!
//! A call of the kernel that unmaps comes before its entry, and one that maps after it. So a child
//! that was made between the two takes pages for the program's which it does not have (I2), never
//! the other way round.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vmalloc::PageRange;

/// The most changes. A fork takes less than a millisecond as a rule. Where it waits for a file that
/// a thread has locked, a program can make more: then pages that it unmaps are lost to the map, and
/// calls that map over a hole fail for want of memory.
const MOST: usize = 1024;

/// One change.
struct Change {
    start: AtomicU64,
    /// The page behind the last one, twice, and one more if the pages became the program's.
    end: AtomicU64,
}

/// The changes. Their owner has the lock; a child of a fork has a copy from any moment.
pub(crate) struct Changes {
    all: [Change; MOST],
    count: AtomicUsize,
    /// True if an area may no longer be untouched.
    touched: AtomicBool,
}

impl Changes {
    /// Returns an empty list.
    pub(crate) const fn new() -> Self {
        let all = [const { Change { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; MOST];
        Self { all, count: AtomicUsize::new(0), touched: AtomicBool::new(false) }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        // Acquire: pairs with the Release in `push`.
        self.count.load(Ordering::Acquire)
    }

    /// Returns true if there is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == MOST
    }

    /// Adds a change. Returns false if there is no room.
    pub(crate) fn push(&self, range: PageRange, is_live: bool) -> bool {
        let at = self.len();
        let Some(change) = self.all.get(at) else { return false };
        // Release, all three: a child sees them in this order, and a count from before after that.
        change.start.store(range.start(), Ordering::Release);
        change.end.store(range.end() << 1 | u64::from(is_live), Ordering::Release);
        self.count.store(at + 1, Ordering::Release);
        true
    }

    /// Forgets all but the first `count` changes.
    pub(crate) fn truncate(&self, count: usize) {
        self.count.store(count, Ordering::Release);
    }

    /// Returns a change, and true if its pages became the program's.
    pub(crate) fn get(&self, at: usize) -> Option<(PageRange, bool)> {
        let change = self.all[..self.len()].get(at)?;
        let (start, end) = (change.start.load(Ordering::Acquire), change.end.load(Ordering::Acquire));
        Some((PageRange::new(start, end >> 1)?, end & 1 == 1))
    }

    /// Returns the first pages of `range` of which the changes say the same: true for the
    /// program's, `None` for what they do not tell.
    pub(crate) fn first(&self, range: PageRange) -> (PageRange, Option<bool>) {
        let (start, mut end) = (range.start(), range.end());
        let part = |end| PageRange::new(start, end).unwrap_or(range);
        for (change, is_live) in (0..self.len()).rev().filter_map(|at| self.get(at)) {
            if change.start() > start {
                end = end.min(change.start());
            } else if change.end() > start {
                return (part(end.min(change.end())), Some(is_live));
            }
        }
        (part(end), None)
    }

    /// Remembers that an area may no longer be untouched.
    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }

    /// Returns true if [`touch`](Self::touch) was called, and forgets it.
    pub(crate) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::AcqRel)
    }
}
