//! Lazy free and purge: the sets of freed areas on their way back to the map.
//!
//! A freed area is taken out of use at once, but its pages and its addresses are given back in
//! bulk:
//!
//! ```text
//!   free ─── retire ──► cached ───(decay, pressure)──┐
//!               │                                     ▼
//!               └─────────────────────────────────► lazy ──► unmap all, flush once ──► pools ──(decay, pressure)──► map
//! ```
//!
//! Protocol:
//! 1. The **purger** is locked: one purge of the space runs at a time. An allocation that runs out
//!    of addresses waits for it, so none fails while freed addresses are on their way back. The
//!    second of two callers, which would find nothing lazy, waits until the first has given
//!    everything back.
//! 2. Cached areas that have to go are taken, in batches. Then the lazy sets of all nodes are, each
//!    by exchanging two lists under its node's lock: what other threads make lazy of cached areas
//!    meanwhile is in one of these.
//! 3. One `unmap` and one `flush` for all of it, with the real, coalesced ranges.
//! 4. Pools decay: a part of what was not needed goes back to the map, at most [`BATCH`] areas
//!    under one hold of a lock.
//! 5. Flushed areas go to the pools of the nodes that freed them, or to the map, in such batches
//!    too. The lazy count falls as they do.
//!
//! With more than eight nodes, a purge at the threshold is one of a **group** of eight: steps 2, 3
//! and 5 for its lazy sets alone, beside those of other groups.
//! - **GROUP-1** A purge of the space waits for those of groups that have begun. While one that has
//!   to unmap everything is under way no group begins one: what was freed before the call is
//!   flushed when it returns. A drain by age lets groups go on.
//! - **GROUP-2** An allocation in need looks for the last time while no purge is under way: then
//!   each area is in a node, in the map, or in use.
//! - **GROUP-3** What a group's purge could not finish stays in its sets, and the next purge of the
//!   space takes it over. Where anything is pending (REFUSED-3) a group finishes nothing.
//! - **GROUP-4** A fork holds the purger, then all groups.
//! - **GROUP-5** A call that waited for a purge that began after it has nothing to do, if that was
//!   as thorough.
//!
//! A set stays in the purger from the moment when it is taken until each area is given back. So
//! when the platform fails nothing is lost, and no area that may still be translated somewhere is
//! handed out. An area that the platform refuses stays back alone, and every later purge tries it
//! again: see [`refused`].
//!
//! The space orders the steps. This module holds the sets and what becomes of them.
//!
//! - [`plan`]: how much a purge does. [`ranges`]: from areas to ranges. [`refused`]: areas that
//!   the platform refuses. [`deferred`]: frees where nothing may be waited for. [`frame_sets`]:
//!   frames that go back to their supply after a flush. [`tenant`]: owners of areas that hand out
//!   parts of them.

mod deferred;
mod frame_sets;
mod plan;
mod ranges;
mod refused;
pub mod tenant;

pub(crate) use deferred::Deferred;
pub(crate) use frame_sets::{FrameSets, FrameShare, copy};
pub use plan::DrainStatus;
pub(crate) use plan::{Done, PurgePlan};
pub(crate) use ranges::{join, sort};
pub(crate) use refused::{Refused, Unmapper, meets};
pub(crate) use tenant::{Parts, Sweep, Tenants};

use crate::sync::AtomicU64;
use crate::wait::{BATCH, Lazy};
use crate::{PageRange, SpaceError};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

/// The sets that a purge works on, with memory for them once they are [prepared](Self::prepare). A purge of one group of nodes uses the lists, and nothing else.
#[derive(Default)]
pub(crate) struct Purger {
    /// For each node, the areas of its lazy set that are not given back yet; then one more set, for
    /// those that were in none.
    pub(crate) taken: Vec<Lazy>,
    /// Pages of areas in use that the platform refused to unmap or to flush.
    pub(crate) pending: Vec<PageRange>,
    /// The parts of tenants that were collected.
    pub(crate) parts: Parts,
    /// Areas and parts that the platform refuses.
    pub(crate) refused: Refused,
    /// Memory for the ranges to unmap, a piece after the other.
    ranges: Vec<PageRange>,
    /// Memory for areas on the way from one lock to another; for [`BATCH`] of them.
    pub(crate) batch: Vec<PageRange>,
    /// The last purge that a call asked for: its number, what it was to do, and what it has done. A
    /// call that waited for it has nothing to do.
    last: Option<(u64, PurgePlan, Done)>,
}

/// Counts over the life of a space.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) purges: AtomicU64,
    pub(crate) purged_areas: AtomicU64,
    /// The most areas that a purge moved or gave back under one hold of a lock.
    longest_hold: AtomicU64,
    /// Areas that the purger has.
    pub(crate) taken_areas: AtomicU64,
    /// Areas among them that the platform refused, and lazy areas of tenants.
    pub(crate) refused_areas: AtomicU64,
    /// Pages of these. They start no purge, so the space's count of lazy pages is without them.
    pub(crate) refused_pages: AtomicU64,
    /// Parts of tenants that the platform refused.
    pub(crate) refused_parts: AtomicU64,
    /// Ranges of areas in use that have still to be unmapped.
    pub(crate) pending: AtomicU64,
    /// Frees that were to trap at once and became lazy.
    pub(crate) late_frees: AtomicU64,
    /// Bytes of the purger's lists.
    pub(crate) list_bytes: AtomicU64,
}

impl Counts {
    /// Notes how long a lock was held, in areas.
    pub(crate) fn held(&self, areas: usize) {
        self.longest_hold.fetch_max(areas as u64, Relaxed);
    }

    pub(crate) fn longest_hold(&self) -> u64 {
        self.longest_hold.load(Relaxed)
    }

    /// Returns whether the platform has refused something that was freed, and not relented since.
    pub(crate) fn is_anything_refused(&self) -> bool {
        // Relaxed: a hint; a purge under way may change it at any time.
        let refused = [&self.refused_areas, &self.refused_parts, &self.pending];
        refused.iter().any(|count| count.load(Relaxed) != 0)
    }

    /// Returns whether ranges of areas in use have still to be unmapped.
    pub(crate) fn is_anything_pending(&self) -> bool {
        // Relaxed: the caller that owns these pages either incremented the counter itself or
        // synchronised with the thread that did.
        self.pending.load(Relaxed) != 0
    }
}

impl Purger {
    /// Makes the sets for `nodes` nodes, in place: a purger is large.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    pub(crate) fn prepare(&mut self, nodes: usize) -> Result<(), SpaceError> {
        self.taken.try_reserve_exact(nodes + 1).map_err(|_| SpaceError::Metadata)?;
        for _ in 0..=nodes {
            self.taken.push(Lazy::new()?);
        }
        // So many can be set aside where memory is short.
        let lists = [&mut self.refused.areas, &mut self.ranges, &mut self.batch];
        lists.into_iter().try_for_each(|list| list.try_reserve_exact(BATCH)).map_err(|_| SpaceError::Metadata)
    }

    /// Returns what the last purge has done, if it began after the one with number `begun` and did
    /// all that a `plan` asks for.
    pub(crate) fn done_since(&self, begun: u64, plan: &PurgePlan) -> Option<Done> {
        let last = self.last.as_ref();
        last.filter(|(number, last, _)| *number > begun && last.covers(plan)).map(|(.., done)| *done)
    }

    /// Notes what a purge has done, for [`done_since`](Self::done_since).
    pub(crate) fn note(&mut self, number: u64, plan: &PurgePlan, done: &Done) {
        self.last = Some((number, *plan, *done));
    }

    /// Returns the sets of nodes.
    pub(crate) fn of_nodes(&mut self) -> &mut [Lazy] {
        let last = self.taken.len() - 1;
        &mut self.taken[..last]
    }

    /// Returns the list for areas that no node's lazy set had.
    pub(crate) fn list(&mut self) -> &mut Vec<PageRange> {
        let last = self.taken.len() - 1;
        &mut self.taken[last].areas
    }

    /// Enters the areas of the batch in that list, which has room for them. Behind `absent` pages
    /// of theirs there is no memory.
    pub(crate) fn enter_batch(&mut self, absent: u64) {
        let last = self.taken.len() - 1;
        self.taken[last].absent += absent;
        self.taken[last].areas.extend_from_slice(&self.batch);
    }

    /// Returns whether there is nothing to unmap, but what was refused before.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.iter().all(Lazy::is_empty) && self.parts.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PageRange> {
        self.taken.iter().flat_map(Lazy::iter).chain(self.refused.areas())
    }

    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.taken.iter().map(|lazy| lazy.bytes() + size_of::<Lazy>()).sum();
        let ranges = (self.ranges.capacity() + self.batch.capacity()) * size_of::<PageRange>();
        lists + ranges + self.refused.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_what_is_taken_and_refused_are_metadata() {
        let mut purger = Purger::default();
        purger.prepare(2).expect("memory");
        let before = purger.bytes();
        purger.refused.areas.reserve_exact(2 * BATCH);
        purger.taken[0].areas.reserve_exact(3 * BATCH);
        purger.taken[1].full.push(Vec::with_capacity(4 * BATCH));
        let list = purger.taken[1].full.capacity() * size_of::<Vec<PageRange>>();
        assert_eq!(purger.bytes(), before + (1 + 2 + 4) * BATCH * size_of::<PageRange>() + list);
    }
}
