//! Clearing the memory of a slot: which pages are filled with zeros, and which are left to a batch.
//!
//! ```text
//!   pages of the slot that may not be zero:   few, or known to have memory ──► filled with zeros
//!                                             else: the platform tells which were used
//!                                                        │
//!                            the first that may be kept ─┴─► filled with zeros       the others: discarded later
//! ```

use crate::dirty::Dirty;
use crate::options::Layout;
use crate::record::{Pages, SlotState};
use vmalloc::{Discard, PageRange};

/// Pages that are filled with zeros without a look at which were used.
///
/// A look (`PAGEMAP_SCAN`) takes 1.7 µs and 16 ns for each page that has memory; filling a page
/// that has memory takes 50 ns. So a look costs what filling 32 such pages does. A page without
/// memory costs a page fault more, 1.9 µs, but only once: it has memory from then on. Measured on
/// Linux 6.18 with 1 to 16,384 pages:
/// `cargo run --release -p vmalloc-bench --features buffers --bin memory -- slots`, in the folder
/// `lab`, prints the three figures for this machine.
const UNSEEN_PAGES: u64 = 32;

/// The means to clear a slot.
pub(crate) struct Clearing<'a, P> {
    pub(crate) platform: &'a P,
    pub(crate) layout: &'a Layout,
    /// Pages from the start that are to read as zero. Those behind are decommitted.
    pub(crate) limit: u64,
    pub(crate) dirty: Dirty<'a>,
}

impl<P: Discard> Clearing<'_, P> {
    /// Returns the most pages below the limit that have memory.
    pub(crate) fn bound(&self, state: &SlotState) -> u64 {
        let (count, end) = self.dirty.extent(self.layout, self.limit);
        (state.kept + count).min(state.kept_end.max(end)).min(self.limit)
    }

    /// Makes all pages below the limit read as zero but those that it enters in `discard`. At most
    /// `allowed` pages keep their memory. Returns how many pages are left to be discarded, at most.
    ///
    /// # Safety
    /// The caller owns the slot, its pages below the limit are committed, nothing uses them, and
    /// all that are not zero are in `dirty` or `state.discard`.
    pub(crate) unsafe fn run(&self, state: &mut SlotState, allowed: u64) -> u64 {
        state.kept_end = state.kept_end.min(self.limit);
        state.kept = state.kept.min(state.kept_end);
        state.discard = state.discard.below(self.limit);
        let (bound, (count, end)) = (self.bound(state), self.dirty.extent(self.layout, self.limit));
        let all = Pages { start: 0, end: end.max(state.kept_end) };
        let has_memory = state.kept == state.kept_end && end <= state.kept_end;
        if bound <= allowed && (count <= UNSEEN_PAGES || has_memory) {
            // SAFETY: the pages are the caller's and committed.
            self.dirty.each(self.layout, self.limit, |pages| unsafe { self.zero(state.base, pages) });
            (state.kept, state.kept_end) = (bound, all.end);
            return state.discard.len();
        }
        if allowed == 0 {
            state.discard = state.discard.hull(all);
            (state.kept, state.kept_end) = (0, 0);
            return bound;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.keep_some(state, all, allowed) }
    }

    /// Clears the first `allowed` pages of `all` that have memory, and enters the others in
    /// `discard`. Returns how many these are.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn keep_some(&self, state: &mut SlotState, all: Pages, allowed: u64) -> u64 {
        let (base, mut left) = (state.base, state.discard.len());
        (state.kept, state.kept_end) = (0, 0);
        let mut found = |run: PageRange| {
            let run = Pages { start: run.start() - base, end: run.end() - base };
            let kept = Pages { start: run.start, end: run.end.min(run.start + allowed - state.kept) };
            let more = Pages { start: kept.end, end: run.end };
            self.dirty.each(self.layout, self.limit, |dirty| {
                // SAFETY: the pages are the caller's and committed.
                unsafe { self.zero(base, dirty.meet(kept)) };
            });
            if !kept.is_empty() {
                state.kept += kept.len();
                state.kept_end = kept.end;
            }
            left += more.len();
            state.discard = state.discard.hull(more);
        };
        if let Some(range) = pages_at(base, all) {
            // SAFETY: the pages are the caller's and committed.
            unsafe { self.platform.touched(range, &mut found) };
        }
        left
    }

    /// # Safety
    /// The caller owns the pages, and they are committed.
    unsafe fn zero(&self, base: u64, pages: Pages) {
        if let Some(range) = pages_at(base, pages) {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.platform.zero(range) };
        }
    }
}

/// Returns the pages of the span that these pages of a slot are, if there are any.
pub(crate) fn pages_at(base: u64, pages: Pages) -> Option<PageRange> {
    PageRange::new(base + pages.start, base + pages.end)
}
