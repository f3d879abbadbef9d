//! What a purge can't finish: areas, blocks and pages that the platform refuses to unmap or to flush.
//!
//! One page can make the platform refuse a whole set: on Linux one that is locked in memory. It must not keep the other
//! areas of the set back, nor those of later sets.
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
//! - **Q1** An area that was taken is in the purger until the platform has unmapped and flushed it: in `taken`, or in
//!   `refused` once it was refused by itself. Where there is no memory to set it aside it stays in `taken`, and the
//!   purge ends there.
//! - **Q2** What is refused starts no purge: the count of lazy pages, by which that is decided, is without it.
//!   [`Stats`](super::Stats) count it among what is lazy.
//! - **Q3** A *torn* range is a part of an area in use that was refused, or of an area that was cut off from one. An
//!   area that meets a torn range is not given back before that was mended; else the range would be unmapped when
//!   somebody else has it.
//! - **Q4** A block that is refused stays [in its purge](crate::block::Place::Purging): it has no windows, and what is
//!   live in it stays.
//!
//! # Cost
//! To find k refused areas among n takes about 2 k log n calls. To try k refused ones again takes one call where the
//! platform has relented. Otherwise a purge that was asked for tries each by itself, for each may be what an
//! allocation needs, and a purge that starts by itself tries [`BATCH`] of them in turn.

use super::Space;
use super::blocks::Taken;
use super::drain::{Done, Drain};
use super::keys::Keys;
use super::purge::{BATCH, Purger};
use crate::addr::PageRange;
use crate::platform::{Platform, PlatformError};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Refused areas that a space can set aside without memory.
const ROOM: usize = 32;

/// What the platform has refused by itself.
pub(super) struct Refused {
    areas: Vec<PageRange>,
    pub(super) blocks: Taken,
    /// Where a purge that starts by itself goes on to try areas.
    next: usize,
}

impl Refused {
    /// An empty one; `None` when memory is short.
    pub(super) fn new() -> Option<Self> {
        let mut areas = Vec::new();
        areas.try_reserve_exact(ROOM).ok()?;
        Some(Self { areas, blocks: Taken::default(), next: 0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.areas.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn areas(&self) -> impl Iterator<Item = &PageRange> {
        self.areas.iter()
    }

    /// Whether an area that begins at `page` is refused.
    pub(super) fn has(&self, page: u64) -> bool {
        self.areas.iter().any(|area| area.start() == page)
    }

    pub(super) fn bytes(&self) -> usize {
        self.areas.capacity() * size_of::<PageRange>()
    }

    /// The areas that a purge tries one by one.
    fn window(&mut self, drain: Drain) -> Range<usize> {
        let len = self.areas.len();
        if drain.insists {
            return 0..len;
        }
        let start = if self.next < len { self.next } else { 0 };
        self.next = len.min(start + BATCH);
        start..self.next
    }
}

impl<P: Platform> Space<P> {
    /// Whether the platform has refused something that was freed, and not relented since.
    pub(super) fn is_anything_refused(&self) -> bool {
        // Relaxed: a hint; a purge under way may change it at any time.
        let refused = [&self.counts.refused_areas, &self.counts.refused_blocks];
        refused.iter().any(|count| count.load(Ordering::Relaxed) != 0) || self.is_torn()
    }

    /// Unmaps what was taken as far as the platform lets it, and sets the rest aside. Then all that is still taken is
    /// unmapped and flushed.
    ///
    /// # Errors
    /// There is no memory to set something aside: it is still taken, and unmapped or not.
    #[cold]
    pub(super) fn sift(&self, purger: &mut Purger, done: &mut Done) -> Result<(), PlatformError> {
        let Purger { taken, torn, refused, .. } = purger;
        for list in taken.iter_mut().flat_map(|lazy| [&mut lazy.own, &mut lazy.remote]) {
            let count = self.sift_areas(list, torn, &mut done.refusal);
            if refused.areas.try_reserve(count).is_err() {
                return done.complete();
            }
            self.count_refused(&list[..count]);
            refused.areas.extend(list.drain(..count));
        }
        self.sift_blocks(purger, done)
    }

    /// Unmaps `areas`, each alone or with others, and puts those first that are refused, or meet a torn range; how many
    /// these are.
    fn sift_areas(
        &self,
        areas: &mut [PageRange],
        torn: &[PageRange],
        refusal: &mut Option<PlatformError>,
    ) -> usize {
        let mut refused = 0;
        for index in 0..areas.len() {
            // Q3
            if torn.iter().any(|torn| torn.intersection(&areas[index]).is_some()) {
                areas.swap(refused, index);
                refused += 1;
            }
        }
        areas[refused..].sort_unstable_by_key(PageRange::start);
        let (mut tried, mut step) = (refused, areas.len());
        while tried < areas.len() {
            let end = areas.len().min(tried.saturating_add(step));
            match self.unmap_and_flush(&areas[tried..end]) {
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

    /// Unmaps what was taken of blocks: in one call, else block by block.
    fn sift_blocks(&self, purger: &mut Purger, done: &mut Done) -> Result<(), PlatformError> {
        let Purger { blocks, refused, ranges, keys, .. } = purger;
        if blocks.is_empty() {
            return Ok(());
        }
        let joined = Keys { base: self.geometry.span.start(), keys }
            .sort(blocks.runs.iter())
            .and_then(|keys| keys.join(ranges));
        if joined.is_some() && self.unmap_and_flush(ranges).is_ok() {
            return Ok(());
        }
        let parted = self.part_blocks(blocks, &mut refused.blocks, |unmapped| unmapped.is_err());
        done.refusal = parted.refusal.or(done.refusal);
        self.counts.refused_blocks.store(refused.blocks.len(), Ordering::Relaxed);
        if parted.is_complete { Ok(()) } else { done.complete() }
    }

    /// Tries again what was refused, and gives back what no longer is.
    #[cold]
    pub(super) fn retry(&self, purger: &mut Purger, drain: Drain, done: &mut Done) {
        let Purger { refused, torn, batch, blocks, .. } = purger;
        // Those that are unmapped now go the way of all that was taken.
        let parted = self.part_blocks(&mut refused.blocks, blocks, |unmapped| unmapped.is_ok());
        self.counts.refused_blocks.store(refused.blocks.len(), Ordering::Relaxed);
        refused.areas.sort_unstable_by_key(PageRange::start);
        let at_once = if refused.areas.is_empty() { Ok(()) } else { self.unmap_and_flush(&refused.areas) };
        done.refusal = at_once.err().or(parted.refusal).or(done.refusal);
        let mut gone = 0..refused.areas.len();
        if at_once.is_err() || !torn.is_empty() {
            gone = refused.window(drain);
            gone.start += self.sift_areas(&mut refused.areas[gone.clone()], torn, &mut done.refusal);
        }
        self.count_relented(&refused.areas[gone.clone()]);
        done.given += self.give_remote(&refused.areas[gone.clone()], drain, batch);
        refused.areas.drain(gone);
    }

    /// Counts areas that were taken and are refused.
    fn count_refused(&self, areas: &[PageRange]) {
        let pages = areas.iter().map(PageRange::len).sum();
        self.move_to_refused(areas.len() as u64, pages);
    }

    /// Counts areas that were refused, and are unmapped.
    fn count_relented(&self, areas: &[PageRange]) {
        let pages = areas.iter().map(PageRange::len).sum();
        self.move_from_refused(areas.len() as u64, pages);
        self.counts.purged_areas.fetch_add(areas.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn move_to_refused(&self, areas: u64, pages: u64) {
        // Relaxed, here and below: numbers that protect nothing.
        self.counts.refused_areas.fetch_add(areas, Ordering::Relaxed);
        self.counts.refused_pages.fetch_add(pages, Ordering::Relaxed);
        self.lazy_pages.0.fetch_sub(pages, Ordering::Relaxed);
    }

    pub(super) fn move_from_refused(&self, areas: u64, pages: u64) {
        self.lazy_pages.0.fetch_add(pages, Ordering::Relaxed);
        self.counts.refused_areas.fetch_sub(areas, Ordering::Relaxed);
        self.counts.refused_pages.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Unmaps and flushes `range` of an area in use; if that fails it is remembered, for which there is room.
    pub(super) fn unmap_or_remember(
        &self,
        purger: &mut Purger,
        range: PageRange,
    ) -> Result<(), PlatformError> {
        // Q3: what was refused there before must not be unmapped later, when the addresses may be somebody else's.
        let mended = self.mend_where(purger, |torn| torn.intersection(&range).is_some());
        let unmapped = self.unmap_and_flush(&[range]);
        mended.map_or(unmapped, Err).inspect_err(|_| {
            purger.torn.push(range);
            self.torn.store(purger.torn.len() as u64, Ordering::Relaxed);
        })
    }

    /// Unmaps what is remembered, as far as the platform lets it; why not all.
    pub(super) fn mend_with(&self, purger: &mut Purger) -> Option<PlatformError> {
        self.mend_where(purger, |_| true)
    }

    fn mend_where(
        &self,
        purger: &mut Purger,
        is_wanted: impl Fn(&PageRange) -> bool,
    ) -> Option<PlatformError> {
        if purger.torn.is_empty() {
            return None;
        }
        let mut refusal = None;
        purger.torn.retain(|torn| {
            let mended = is_wanted(torn).then(|| self.unmap_and_flush(&[*torn]));
            refusal = mended.and_then(Result::err).or(refusal);
            mended != Some(Ok(()))
        });
        self.torn.store(purger.torn.len() as u64, Ordering::Relaxed);
        refusal
    }

    /// Sees to it that nothing in `range` is remembered to be unmapped of areas in use: before its pages are mapped anew.
    pub(super) fn mend(&self, range: PageRange) -> Result<(), PlatformError> {
        if !self.is_torn() {
            return Ok(());
        }
        let refusal = self.mend_where(&mut self.purger.0.lock(), |torn| torn.intersection(&range).is_some());
        refusal.map_or(Ok(()), Err)
    }

    /// Whether something of that kind is in `range`.
    pub(super) fn is_torn_in(&self, range: PageRange) -> bool {
        self.is_torn() && self.purger.0.lock().torn.iter().any(|torn| torn.intersection(&range).is_some())
    }

    fn is_torn(&self) -> bool {
        // Relaxed: whose pages they are has counted them, or was told of them.
        self.torn.load(Ordering::Relaxed) != 0
    }
}
