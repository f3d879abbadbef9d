//! Purging: the steps, in their order. The sets and the protocol are in [`purge`](crate::purge).

use super::Space;
use super::told::URGENT;
use crate::PageRange;
use crate::cache::{BATCH, Borders, Cursor, Fraction, SizeStacks};
use crate::platform::{Platform, PlatformError, PlatformFault, Protection};
use crate::purge::{Done, PurgePlan, Purger, Sweep, Unmapper};
use crate::sync::{Mutant, is, unlocked};
use crate::{AllocError, AreaError};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use lock_api::MutexGuard;
use vmalloc_map::parts::{LEAF_SHIFT, Leaf};

/// So many returned parts of tenants that show owned frames may wait for a flush of them all.
const MOST_RETURNED: usize = 1024;

/// The reason why a part of a tenant could not be noted that was to be unmapped.
const NO_MEMORY: PlatformError =
    PlatformError { call: "the list of parts to unmap", fault: PlatformFault::OutOfMemory, code: 0 };

/// The holder of the purger: it alone purges, and unmaps parts of areas in use.
pub(super) struct Purge<'a, P: Platform> {
    pub(super) space: &'a Space<P>,
    pub(super) purger: MutexGuard<'a, P::PurgeLock, Purger>,
}

impl<'a, P: Platform> Purge<'a, P> {
    /// Returns the means to unmap freed areas.
    pub(super) fn means(&self) -> Unmapper<'a, P> {
        let Space { platform, counts, cache, .. } = self.space;
        Unmapper { platform, counts, lazy: &cache.lazy }
    }

    pub(super) fn run(&mut self, plan: PurgePlan) -> Result<Done, PlatformError> {
        let (space, means) = (self.space, self.means());
        self.purger.is_short = false;
        let mut done = Done { refusal: self.purger.finish_pending(&means, |_| true), ..Done::default() };
        if !self.purger.refused.is_empty() {
            let mut way = WayBack::new(space, plan);
            let give = |areas: &[PageRange], rest: &mut Vec<PageRange>| way.give_areas(areas, &mut 0, rest);
            self.purger.retry(&means, plan, &mut done, give);
        }
        if !self.purger.is_empty() {
            // The set that an earlier purge could not finish comes first.
            self.purger.unmap_taken(&means, &mut done)?;
            done.given += self.give_back(plan);
        }
        // First the shares in frame sets, then the areas: their lists had them before.
        let waiting = space.frame_sets.lock().waiting();
        // Where nothing decays, frames of returned parts would wait for ever.
        let plan =
            if waiting[1] > MOST_RETURNED { PurgePlan { sweep: Sweep::Everything, ..plan } } else { plan };
        // Acquire: pairs with the Release in `tell_later`. The purge finds what was told of; what
        // is told of later stays so.
        let _ = space.told.compare_exchange(URGENT, 0, Acquire, Relaxed);
        // Before the lazy sets: other threads may make cached areas lazy, and never the reverse.
        if let Some(fraction) = plan.cached {
            done.evicted += self.take_cached_areas(fraction, plan.most);
            done.evicted += self.take_stock(fraction, plan.most - done.evicted);
        }
        self.take();
        self.take_deferred();
        space.tally(|tally| self.purger.parts.collect(&space.tenants, plan.sweep, tally));
        if plan.insists && self.purger.parts.is_short() {
            done.refusal = done.refusal.or(Some(NO_MEMORY));
        }
        let is_some = !self.purger.is_empty();
        if is_some {
            self.purger.unmap_taken(&means, &mut done)?;
        }
        if let Some(fraction) = plan.pooled {
            let pooled = self.decay_pools(fraction, plan.most - done.evicted);
            (done.given, done.evicted) = (done.given + pooled, done.evicted + pooled);
        }
        if is_some {
            done.given += self.give_back(plan);
            self.purger.tidy();
            space.counts.purges.fetch_add(1, Relaxed);
            space.counts.list_bytes.store(self.purger.bytes() as u64, Relaxed);
        }
        self.settle_frames(waiting, plan);
        let spared = self.release_spare(plan.pooled, plan.most - done.evicted);
        let keeps_memory = plan.memory().is_some_and(|part| space.platform.evict_memory(part));
        Ok(Done { given: done.given + spared, evicted: done.evicted + spared, keeps_memory, ..done })
    }

    /// Ends those of the first shares of areas and of parts of tenants that were flushed, and gives
    /// frames back that nothing shows any more.
    fn settle_frames(&self, [released, returned]: [usize; 2], plan: PurgePlan) {
        let (space, purger) = (self.space, &self.purger);
        // A part that stays mapped may show frames of any that was returned.
        let is_swept =
            plan.sweep == Sweep::Everything && purger.refused.parts.is_empty() && !purger.parts.is_short();
        for nth in 0..released + if is_swept { returned } else { 0 } {
            let mut sets = space.frame_sets.lock();
            let set = match nth < released {
                true => sets.settle(|page| purger.refused.has(page)),
                false => sets.settle_returned(),
            };
            drop(sets);
            if let Some(set) = set {
                set.give_back(&space.platform);
            }
        }
    }

    /// Takes the lazy sets of all nodes (step 2).
    fn take(&mut self) {
        let space = self.space;
        for (node, taken) in space.cache.nodes.iter().zip(&mut self.purger.taken) {
            let mut node = node.lock();
            if !node.lazy.is_empty() {
                let unpublished = node.take_lazy(taken);
                space.count_taken(taken.areas.len() as u64, unpublished);
                if is(Mutant::EarlyCount) {
                    space.cache.lazy.sub(taken.areas.iter().map(PageRange::len).sum());
                }
            }
        }
    }

    /// Takes a fraction of the cached areas, `most` at most. Returns how many.
    fn take_cached_areas(&mut self, fraction: Fraction, most: u64) -> u64 {
        let (space, purger) = (self.space, &mut *self.purger);
        // Else an allocation could bring areas to a node that was passed already.
        let _in_need = space.need.enter();
        let mut count = 0;
        for node in &space.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && count < most && purger.has_room() {
                let batch = &mut purger.batch;
                batch.clear();
                let mut node = node.lock();
                let wanted = (most - count).min(BATCH as u64) as usize;
                more = node.evict_cached(fraction, &mut cursor, wanted, batch);
                let pages = batch.iter().map(PageRange::len).sum();
                space.count_taken(batch.len() as u64, pages);
                drop(node);
                count += batch.len() as u64;
                space.counts.held(batch.len());
                purger.enter_batch(0);
            }
        }
        count
    }

    /// Takes a fraction of the stock, `most` areas at most. Returns how many.
    fn take_stock(&mut self, fraction: Fraction, most: u64) -> u64 {
        let (space, purger) = (self.space, &mut *self.purger);
        let (mut due, mut count) = (None, 0);
        while count < most && due != Some(0) && purger.has_room() {
            purger.batch.clear();
            let wanted = (most - count).min(BATCH as u64) as usize;
            let mut stock = unlocked(Mutant::UnlockedTake, || space.cache.stock.lock());
            let left = due.unwrap_or_else(|| stock.due(fraction));
            let memory = stock.evict(left, wanted, &mut purger.batch, &space.areas);
            space.cache.budget.put(memory);
            let areas = purger.batch.len();
            let pages: u64 = purger.batch.iter().map(PageRange::len).sum();
            space.count_taken(areas as u64, memory);
            drop(stock);
            space.cache.lazy.add_absent(pages - memory);
            purger.enter_batch(pages - memory);
            space.counts.held(areas);
            count += areas as u64;
            due = Some(if areas == 0 { 0 } else { left.saturating_sub(pages) });
        }
        count
    }

    /// Gives a fraction of the pools to the map, `most` areas at most (step 4). Returns how many.
    fn decay_pools(&mut self, fraction: Fraction, most: u64) -> u64 {
        let (space, batch) = (self.space, &mut self.purger.batch);
        // As in `take_cached_areas`.
        let _in_need = space.need.enter();
        let mut given = 0;
        for node in &space.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && given < most {
                batch.clear();
                let wanted = (most - given).min(BATCH as u64) as usize;
                more = node.lock().pooled.evict(fraction, &mut cursor, wanted, batch);
                given += space.release(batch);
            }
        }
        given
    }

    /// Gives flushed areas to pools or to the map (step 5). Returns how many went to the map.
    fn give_back(&mut self, plan: PurgePlan) -> u64 {
        let space = self.space;
        let Purger { taken, batch, parts, .. } = &mut *self.purger;
        let (mut given, mut purged, mut way) = (0, 0, WayBack::new(space, plan));
        space.tally(|tally| {
            parts.take(&space.tenants, |tenant, part, ranges| {
                space.cache.lazy.sub(part.lazy_pages);
                tenant.flushed(part, ranges, tally);
            });
        });
        for taken in taken {
            purged += taken.areas.len() as u64;
            given += way.give_areas(&taken.areas, &mut taken.absent, batch);
            taken.clear();
        }
        space.counts.purged_areas.fetch_add(purged, Relaxed);
        given
    }

    /// Unmaps and flushes parts of areas in use, which are disjoint and ascending. The caller owns
    /// them.
    pub(super) fn unmap_parts(&mut self, ranges: &[PageRange]) -> Result<(), AreaError> {
        self.purger.pending.try_reserve(ranges.len()).map_err(|_| AllocError::Metadata)?;
        let means = self.means();
        self.purger.unmap_or_remember(&means, ranges).map_err(AreaError::Platform)
    }

    /// Makes one area of those that were taken of the stock for a request: maps the guard pages
    /// inside, and unmaps the one that is to be behind it. Where the platform refuses that, the
    /// area is the purge's, which has room for it.
    pub(super) fn unite(&mut self, area: PageRange, lacks_guard: bool) -> bool {
        let space = self.space;
        let last_page = |end: u64| PageRange::of(end - 1, end);
        let first_end = || space.areas.map().segment(area.start()).map(|first| first.range.end());
        let mut is_done = true;
        while let Some(end) = first_end().filter(|&end| end < area.end()) {
            // SAFETY: the area was just taken for this caller alone, and the guard page is not
            // mapped. It is not pending either: what lies behind a pending one is not given back
            // (REFUSED-3).
            let map = || unsafe { space.platform.map(last_page(end), Protection::ReadWrite) };
            is_done = is_done && map().is_ok();
            space.areas.join(end);
        }
        is_done = is_done && (!lacks_guard || self.unmap_parts(&[last_page(area.end())]).is_ok());
        if !is_done {
            self.purger.list().push(area);
            space.count_taken(1, area.len());
        }
        is_done
    }

    /// Returns whether a page of `range` has still to be unmapped.
    pub(super) fn is_pending(&self, range: PageRange) -> bool {
        self.purger.pending.iter().any(|pending| pending.intersection(&range).is_some())
    }
}

/// The way of flushed areas back: to pools, as far as these have room, or to the map.
struct WayBack<'a, P: Platform> {
    space: &'a Space<P>,
    /// Pages that may still go to pools.
    room: u64,
}

impl<'a, P: Platform> WayBack<'a, P> {
    fn new(space: &'a Space<P>, plan: PurgePlan) -> Self {
        Self { space, room: if plan.refill { space.cache.room_in_pools() } else { 0 } }
    }

    /// Gives areas of any node back. Returns how many went to the map.
    fn give_areas(&mut self, areas: &[PageRange], absent: &mut u64, rest: &mut Vec<PageRange>) -> u64 {
        let give = |areas: &[PageRange]| {
            let given = match self.room {
                0 => self.space.release(areas),
                _ => self.return_to_owners(areas, rest),
            };
            self.count_given(areas, absent);
            given
        };
        areas.chunks(BATCH).map(give).sum()
    }

    /// Counts areas that leave the purger. `absent` is how many pages of those that it still has
    /// are without memory: these are counted off first.
    fn count_given(&self, areas: &[PageRange], absent: &mut u64) {
        let (lazy, is_early) = (&self.space.cache.lazy, is(Mutant::EarlyCount));
        let pages: u64 = if is_early { 0 } else { areas.iter().map(PageRange::len).sum() };
        let without = pages.min(*absent);
        if without != 0 {
            *absent -= without;
            lazy.sub_absent(without);
        }
        lazy.sub(pages - without);
        self.space.counts.taken_areas.fetch_sub(areas.len() as u64, Relaxed);
    }

    /// Puts areas into the pools of their owner nodes. Those that do not go in go to the map.
    fn return_to_owners(&mut self, mut areas: &[PageRange], rest: &mut Vec<PageRange>) -> u64 {
        let space = self.space;
        let owner_node = |area: &PageRange| {
            let home = space.areas.bitmaps.sure_home(area.start());
            let home = home.filter(|_| SizeStacks::takes(area.len()));
            home.and_then(Leaf::owner_node).map(|owner| owner % space.cache.nodes.len())
        };
        let mut given = 0;
        while let Some((first, others)) = areas.split_first() {
            let owner = owner_node(first);
            let is_small = |area: &PageRange| owner.is_some() && area.len() <= first.len();
            // Those in the same leaf have the same owner, if they are not too large for a pool.
            let is_near = |area: &PageRange| (area.start() ^ first.start()) >> LEAF_SHIFT == 0;
            let is_next = |area: &&PageRange| is_near(area) && is_small(area) || owner_node(area) == owner;
            let more = others.iter().take_while(is_next).count();
            let of_owner;
            (of_owner, areas) = areas.split_at(1 + more);
            given += match owner {
                Some(id) => {
                    space.cache.pool(id, of_owner, &mut self.room, rest);
                    space.counts.held(of_owner.len());
                    space.release(rest)
                }
                None => space.release(of_owner),
            };
        }
        given
    }
}
