//! Deferred frees: where nothing may be waited for, in an interrupt, in a signal handler, under
//! another owner's spin lock.
//!
//! ```text
//!   free_atomic ─── retire ──► deferred ──► │ area │──►│ area │──►│ area │      a stack through the areas' own first words
//!                                                                   │
//!                        the next purge takes it whole ◄────────────┘
//! ```
//!
//! Retiring is one atomic operation, and so is entering the stack; neither takes a lock or memory.
//! (Linux's `free_atomic` has a list of its own and a work queue.)
//!
//! # The drain
//! A free here only wakes the platform ([`wake_drain`](crate::Platform::wake_drain)): to ask it for
//! a drain could mean to create a thread. The space remembers until a purge begins that it has to
//! ask. The next call on a slow path asks: an allocation that its CPU's node cannot serve, or a
//! free that publishes lazy pages. So no request is lost where a drain needs something that does
//! not exist yet, or is gone in the child of a fork. But no request is made before such a call
//! comes.

use crate::sync::{AtomicU64, AtomicUsize, set_word_at};
use core::sync::atomic::Ordering;

/// Areas that were retired and are in no list of a node. Their memory is still there.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// The address of the last; 0 = none. The first word of each area holds the address of the one
    /// before.
    last: AtomicUsize,
    areas: AtomicU64,
    pages: AtomicU64,
}

impl Deferred {
    pub(crate) fn areas(&self) -> u64 {
        self.areas.load(Ordering::Relaxed)
    }

    /// Returns the address of the area entered last, or 0.
    pub(crate) fn last(&self) -> usize {
        self.last.load(Ordering::Acquire)
    }

    /// Returns the address of the word with the address of the area entered last: for an outline.
    pub(crate) fn last_word(&self) -> usize {
        core::ptr::from_ref(&self.last).addr()
    }

    /// Counts an area that is entered.
    pub(crate) fn count(&self, pages: u64) {
        self.areas.fetch_add(1, Ordering::Relaxed);
        self.pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// Counts an area off that was taken.
    pub(crate) fn count_off(&self, pages: u64) {
        self.areas.fetch_sub(1, Ordering::Relaxed);
        self.pages.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Sets the counts, in a child of a fork.
    pub(crate) fn set_counts(&self, areas: u64, pages: u64) {
        self.pages.store(pages, Ordering::Relaxed);
        self.areas.store(areas, Ordering::Relaxed);
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

impl Deferred {
    /// Takes the whole stack. Returns the address of the area entered last, or 0.
    pub(crate) fn take(&self) -> usize {
        // Acquire: pairs with the Release in `enter`.
        self.last.swap(0, Ordering::Acquire)
    }

    /// Pushes the area at `addr`.
    ///
    /// # Safety
    /// A word can be written there, and the caller owns it.
    pub(crate) unsafe fn enter(&self, addr: usize) {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise.
            unsafe { set_word_at(addr, last) };
            // Release: the thread that takes the stack sees the word just written.
            match self.last.compare_exchange_weak(last, addr, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => last = other,
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
