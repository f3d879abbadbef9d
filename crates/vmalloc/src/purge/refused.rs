//! Unmapping what a purge has taken; and areas, parts of tenants and pages that the platform
//! refuses to unmap or to flush.
//!
//! One page can make the platform refuse a whole set: on Linux one that is locked in memory. It
//! must not keep the other areas of the set back, nor those of later sets.
//!
//! ```text
//!   taken ──► all in one call ──ok─────────────────────────────────────► given back
//!                 │ refused                                                 ▲  ▲
//!                 ▼                                                         │  │
//!               sift: a part of a list, half of it while that is refused ───┘  │
//!                 │ an area is refused by itself                               │
//!                 ▼                                                            │
//!               refused ──► first of all in every later purge: in one call, ───┘
//!                           else one by one
//! ```
//!
//! Invariants:
//! - **REFUSED-1** An area that was taken is in the purger until the platform has unmapped and
//!   flushed it: in `taken`, or in `refused` once it was refused by itself. Where there is no
//!   memory to set it aside it stays in `taken`, and the purge ends there.
//! - **REFUSED-2** Refused areas start no purge: the count of lazy pages, by which that is decided,
//!   is without them. [`Stats`](crate::Stats) count them as lazy.
//! - **REFUSED-3** A *pending* range is a part of an area in use that was refused, or of an area
//!   that was cut off from one. An area that meets a pending range is not given back before that
//!   range was unmapped; else the range would be unmapped when another owner has it.
//! - **REFUSED-4** A part of a tenant that is refused stays in its purge: to its tenant it is one
//!   that was collected, and what lives beside it in its area stays.
//!
//! # Cost
//! To find k refused areas among n takes about 2 k log n calls. To try k refused ones again takes
//! one call where the platform has relented. Otherwise a purge on request tries each by itself, for
//! an allocation may need it. A purge that starts by itself tries [`BATCH`] of them in turn.

use super::ranges::{coalesce, sort};
use super::tenant::{Parts, Sifted};
use super::{Counts, Done, PurgePlan, Purger};
use crate::PageRange;
use crate::platform::{Platform, PlatformError};
use crate::wait::{BATCH, Lazy, LazyPages};
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// The areas and parts of tenants that the platform has refused by themselves.
#[derive(Default)]
pub(crate) struct Refused {
    pub(super) areas: Vec<PageRange>,
    pub(crate) parts: Parts,
    /// Where a purge that starts by itself goes on to try areas.
    next: usize,
}

impl Refused {
    /// The place of the list of areas: for an outline.
    pub(crate) const AREAS: usize = offset_of!(Self, areas);

    pub(crate) fn is_empty(&self) -> bool {
        self.areas.is_empty() && self.parts.is_empty()
    }

    pub(crate) fn areas(&self) -> impl Iterator<Item = &PageRange> {
        self.areas.iter()
    }

    /// Returns whether an area that begins at `page` is refused.
    pub(crate) fn has(&self, page: u64) -> bool {
        self.areas.iter().any(|area| area.start() == page)
    }

    pub(super) fn bytes(&self) -> usize {
        self.areas.capacity() * size_of::<PageRange>()
    }

    /// Returns the areas that a purge tries one by one.
    fn turn(&mut self, plan: PurgePlan) -> Range<usize> {
        let len = self.areas.len();
        if plan.insists {
            return 0..len;
        }
        let start = if self.next < len { self.next } else { 0 };
        self.next = len.min(start + BATCH);
        start..self.next
    }
}

/// The means to unmap freed areas, and the counts of what is refused. The caller holds the purger:
/// one purge at a time, as the platform is promised.
pub(crate) struct Unmapper<'a, P> {
    pub(crate) platform: &'a P,
    pub(crate) counts: &'a Counts,
    pub(crate) lazy: &'a LazyPages,
}

impl<P: Platform> Unmapper<'_, P> {
    /// Unmaps and flushes ranges that have no other owner: freed ones, or what a failed commit
    /// takes back for its caller.
    pub(crate) fn unmap_and_flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the ranges are of retired areas that were taken out of the lazy sets, whose
        // owners gave them up, or the caller's who committed them a moment ago. They are not given
        // back before this has succeeded.
        unsafe {
            self.platform.unmap(ranges)?;
            self.platform.flush(ranges)
        }
    }

    /// Counts areas that were lazy in node `id`, or with a number that is no node's in none.
    fn move_to_refused(&self, id: usize, areas: u64, pages: u64) {
        // Relaxed, here and below: numbers that protect nothing.
        self.counts.refused_areas.fetch_add(areas, Relaxed);
        self.counts.refused_pages.fetch_add(pages, Relaxed);
        self.lazy.of(id).sub(pages);
    }

    pub(crate) fn move_from_refused(&self, areas: u64, pages: u64) {
        self.lazy.of_none().add(pages);
        self.counts.refused_areas.fetch_sub(areas, Relaxed);
        self.counts.refused_pages.fetch_sub(pages, Relaxed);
    }
}

impl Purger {
    /// Unmaps and flushes everything that was taken. The areas that are refused are set aside, and
    /// taken no more (step 3).
    ///
    /// # Errors
    /// There is no memory to set something aside: it is still taken, and unmapped or not.
    pub(crate) fn unmap_taken<P: Platform>(
        &mut self,
        means: &Unmapper<'_, P>,
        done: &mut Done,
    ) -> Result<(), PlatformError> {
        // REFUSED-3
        if self.unmap_all(means) && self.pending.is_empty() { Ok(()) } else { self.sift(means, done) }
    }

    /// Unmaps and flushes everything that was taken. Returns whether that worked.
    pub(crate) fn unmap_all<P: Platform>(&mut self, means: &Unmapper<'_, P>) -> bool {
        let Self { taken, ranges, parts, .. } = self;
        let lists = taken.iter().flat_map(Lazy::lists).chain([parts.ranges()]);
        coalesce(lists, ranges, |ranges| means.unmap_and_flush(ranges)).is_ok()
    }

    /// Unmaps what was taken as far as the platform lets it, and sets the rest aside.
    #[cold]
    fn sift<P: Platform>(&mut self, means: &Unmapper<'_, P>, done: &mut Done) -> Result<(), PlatformError> {
        let Self { taken, pending, refused, .. } = self;
        // Refused areas are counted as a whole.
        let of_none = taken.len() - 1;
        for (id, lazy) in taken.iter_mut().enumerate() {
            let id = if id == of_none { usize::MAX } else { id };
            means.lazy.of(id).add(lazy.absent);
            means.lazy.sub_absent(core::mem::take(&mut lazy.absent));
            for list in lazy.lists_mut() {
                let count = sift_areas(means, list, pending, &mut done.refusal);
                if refused.areas.try_reserve(count).is_err() {
                    return done.refused();
                }
                let pages = list[..count].iter().map(PageRange::len).sum();
                means.move_to_refused(id, count as u64, pages);
                refused.areas.extend(list.drain(..count));
            }
        }
        self.sift_parts(means, done)
    }

    /// Unmaps the parts of tenants that were taken: in one call, else part by part.
    fn sift_parts<P: Platform>(
        &mut self,
        means: &Unmapper<'_, P>,
        done: &mut Done,
    ) -> Result<(), PlatformError> {
        let Self { parts, refused, ranges, .. } = self;
        if parts.is_empty() {
            return Ok(());
        }
        let unmap = |ranges: &[PageRange]| means.unmap_and_flush(ranges);
        if coalesce([parts.ranges()].into_iter(), ranges, unmap).is_ok() {
            return Ok(());
        }
        let Sifted { refusal, is_complete, lazy } =
            parts.sift(&mut refused.parts, unmap, |unmapped| unmapped.is_err());
        done.refusal = refusal.or(done.refusal);
        means.move_to_refused(usize::MAX, lazy.0, lazy.1);
        means.counts.refused_parts.store(refused.parts.len(), Relaxed);
        if is_complete { Ok(()) } else { done.refused() }
    }

    /// Tries again to unmap what was refused. `give` gets the areas that no longer are.
    #[cold]
    pub(crate) fn retry<P: Platform>(
        &mut self,
        means: &Unmapper<'_, P>,
        plan: PurgePlan,
        done: &mut Done,
        give: impl FnOnce(&[PageRange]) -> u64,
    ) {
        let Self { refused, pending, parts, .. } = self;
        // Parts that are unmapped now go the way of all that was taken.
        let unmap = |ranges: &[PageRange]| means.unmap_and_flush(ranges);
        let sifted = refused.parts.sift(parts, unmap, |unmapped| unmapped.is_ok());
        means.move_from_refused(sifted.lazy.0, sifted.lazy.1);
        means.counts.refused_parts.store(refused.parts.len(), Relaxed);
        sort(&mut refused.areas);
        let is_any = !refused.areas.is_empty();
        let at_once = if is_any { means.unmap_and_flush(&refused.areas) } else { Ok(()) };
        let (mut gone, mut refusal) = (0..refused.areas.len(), at_once.err());
        if refusal.is_some() || !pending.is_empty() {
            gone = refused.turn(plan);
            let tried = &mut refused.areas[gone.clone()];
            gone.start += sift_areas(means, tried, pending, &mut refusal);
        }
        let relented = &refused.areas[gone.clone()];
        let (areas, pages) = (relented.len() as u64, relented.iter().map(PageRange::len).sum());
        means.move_from_refused(areas, pages);
        means.counts.purged_areas.fetch_add(areas, Relaxed);
        done.given += give(relented);
        refused.areas.drain(gone);
        // Areas that are refused together may go one by one.
        let refusal = refusal.filter(|_| !refused.areas.is_empty());
        done.refusal = refusal.or(sifted.refusal).or(done.refusal);
    }

    /// Unmaps and flushes `ranges` of areas in use, which are disjoint and ascending. If that fails
    /// they are remembered as pending, for which there is room.
    pub(crate) fn unmap_or_remember<P: Platform>(
        &mut self,
        means: &Unmapper<'_, P>,
        ranges: &[PageRange],
    ) -> Result<(), PlatformError> {
        // REFUSED-3: a range that was refused there before must not be unmapped later, when the
        // addresses may be another owner's.
        let finished = self.finish_pending(means, |pending| meets(ranges, pending));
        let unmapped = means.unmap_and_flush(ranges);
        finished.map_or(unmapped, Err).inspect_err(|_| {
            self.pending.extend_from_slice(ranges);
            means.counts.pending.store(self.pending.len() as u64, Relaxed);
        })
    }

    /// Unmaps pending ranges, as far as the platform lets it. Returns why not all.
    pub(crate) fn finish_pending<P: Platform>(
        &mut self,
        means: &Unmapper<'_, P>,
        is_wanted: impl Fn(&PageRange) -> bool,
    ) -> Option<PlatformError> {
        if self.pending.is_empty() {
            return None;
        }
        let mut refusal = None;
        self.pending.retain(|pending| {
            let unmapped = is_wanted(pending).then(|| means.unmap_and_flush(&[*pending]));
            refusal = unmapped.and_then(Result::err).or(refusal);
            unmapped != Some(Ok(()))
        });
        means.counts.pending.store(self.pending.len() as u64, Relaxed);
        refusal
    }
}

/// Returns whether one of `ranges`, which are disjoint and ascending, shares pages with `range`.
pub(crate) fn meets(ranges: &[PageRange], range: &PageRange) -> bool {
    let next = ranges.partition_point(|it| it.end() <= range.start());
    ranges.get(next).is_some_and(|it| it.start() < range.end())
}

/// Unmaps `areas`, each alone or with others, and puts those first that are refused, or meet a
/// pending range. Returns how many these are.
fn sift_areas<P: Platform>(
    means: &Unmapper<'_, P>,
    areas: &mut [PageRange],
    pending: &[PageRange],
    refusal: &mut Option<PlatformError>,
) -> usize {
    let mut refused = 0;
    for index in 0..areas.len() {
        // REFUSED-3
        if pending.iter().any(|pending| pending.intersection(&areas[index]).is_some()) {
            areas.swap(refused, index);
            refused += 1;
        }
    }
    sort(&mut areas[refused..]);
    let (mut tried, mut step) = (refused, areas.len());
    while tried < areas.len() {
        let end = areas.len().min(tried.saturating_add(step));
        match means.unmap_and_flush(&areas[tried..end]) {
            Ok(()) => (tried, step) = (end, step.saturating_mul(2)),
            Err(_) if end - tried > 1 => step = (end - tried) / 2,
            Err(error) => {
                *refusal = Some(error);
                // Before it there are those refused so far, and then those unmapped so far.
                areas.swap(refused, tried);
                (refused, tried, step) = (refused + 1, tried + 1, 1);
            }
        }
    }
    refused
}
