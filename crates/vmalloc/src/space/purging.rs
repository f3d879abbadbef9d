//! Purging: the steps, in their order. The sets and the protocol are in [`purge`](crate::purge).

use super::Space;
use super::told::URGENT;
use crate::PageRange;
use crate::platform::{Platform, PlatformError, Protection};
use crate::purge::{Done, PurgePlan, Purger, Sweep, Unmapper};
use crate::wait::policy::{LONG_LIST, POOLED};
use crate::wait::{
    BATCH, Borders, Cache, Cursor, Fraction, Lazy, LazyPages, Padded, SizeStacks, has_piece, list,
};
use crate::{AllocError, AreaError, SpaceError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::parts::LEAF_SHIFT;

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

    pub(super) fn run(&mut self, mut plan: PurgePlan) -> Result<Done, PlatformError> {
        let space = self.space;
        // GROUP-1
        let _whole = plan.insists.then(|| space.whole.enter());
        let mut done = Done::default();
        // First the shares in frame sets, then the areas: a list had them before, of a node or of a
        // group's purge, which is waited for.
        let waiting = space.frame_sets.lock().waiting();
        self.finish_earlier(plan, &mut done)?;
        // Where nothing decays, frames of returned parts would wait for ever.
        if waiting[1] > LONG_LIST {
            plan.sweep = Sweep::Everything;
        }
        // Acquire: pairs with the Release in `tell_later`. The purge finds what was told of; what
        // is told of later stays so.
        let _ = space.told.compare_exchange(URGENT, 0, Acquire, Relaxed);
        // Before the lazy sets: other threads may make cached areas lazy, and never the reverse.
        if let Some(fraction) = plan.cached {
            self.take_cached_areas(fraction, plan.most, &mut done)?;
            self.take_stock(fraction, plan.most, &mut done)?;
        }
        Ways(space).take_lazy(0, self.purger.of_nodes());
        self.take_deferred();
        space.tally(|tally| self.purger.parts.collect(&space.tenants, plan.sweep, tally));
        done.lacks_memory = plan.insists && self.purger.parts.is_short();
        let is_some = !self.purger.is_empty();
        if is_some {
            let means = self.means();
            self.purger.unmap_taken(&means, &mut done)?;
        }
        if let Some(fraction) = plan.pooled {
            let pooled = self.decay_pools(fraction, plan.most - done.evicted);
            (done.given, done.evicted) = (done.given + pooled, done.evicted + pooled);
        }
        if is_some {
            done.given += self.give_back(plan.refill);
            space.counts.purges.fetch_add(1, Relaxed);
            space.counts.list_bytes.store(self.purger.bytes() as u64, Relaxed);
        }
        self.settle_frames(waiting, plan);
        let spared = self.release_spare(plan.pooled, plan.most - done.evicted);
        (done.given, done.evicted) = (done.given + spared, done.evicted + spared);
        done.keeps_memory = plan.memory().is_some_and(|part| space.platform.extras().evict_memory(part));
        Ok(done)
    }

    /// Unmaps and gives back what earlier purges, and those of groups, could not finish.
    fn finish_earlier(&mut self, plan: PurgePlan, done: &mut Done) -> Result<(), PlatformError> {
        let (space, means) = (self.space, self.means());
        done.refusal = self.purger.finish_pending(&means, |_| true);
        if !self.purger.refused.is_empty() {
            self.purger.retry(&means, plan, done, |areas| {
                let give = |some: &[PageRange]| {
                    Ways(space).count_given(usize::MAX, some, &mut 0);
                    space.release(some)
                };
                areas.chunks(BATCH).map(give).sum()
            });
        }
        self.finish(done)?;
        self.take_over();
        self.finish(done)
    }

    /// Unmaps what was taken before, and gives it back.
    fn finish(&mut self, done: &mut Done) -> Result<(), PlatformError> {
        if !self.purger.is_empty() {
            let means = self.means();
            self.purger.unmap_taken(&means, done)?;
            done.given += self.give_back(false);
        }
        Ok(())
    }

    /// Waits for the purges of groups that are under way, and takes what they could not finish.
    /// Behind it none is, for as long as the caller is [counted](Space::whole).
    pub(super) fn take_over(&mut self) {
        for (number, group) in self.space.groups.iter().enumerate() {
            let mut group = group.lock();
            let sets = self.purger.taken[LazyPages::nodes_of(number).start..].iter_mut();
            let is_left = |(all, of_group): &(&mut Lazy, &mut Lazy)| all.is_empty() && !of_group.is_empty();
            let left = sets.zip(&mut group.taken).filter(is_left);
            left.for_each(|(all, of_group)| core::mem::swap(all, of_group));
        }
    }

    /// Calls `act` for all areas that purges have.
    pub(super) fn each_taken(&self, mut act: impl FnMut(PageRange)) {
        self.purger.iter().copied().for_each(&mut act);
        self.space.groups.iter().for_each(|group| group.lock().iter().copied().for_each(&mut act));
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

    /// Makes room for a batch of cached areas: gives back those taken so far, where their list may
    /// not be longer.
    fn make_room(&mut self, done: &mut Done) -> Result<&mut Purger, PlatformError> {
        // An empty one has room.
        if !has_piece(self.purger.list(), BATCH) {
            self.finish(done)?;
        }
        Ok(&mut self.purger)
    }

    /// Takes a fraction of the cached areas, as many as are left of `most`.
    fn take_cached_areas(
        &mut self,
        fraction: Fraction,
        most: u64,
        done: &mut Done,
    ) -> Result<(), PlatformError> {
        let space = self.space;
        for node in &space.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && done.evicted < most {
                let purger = self.make_room(done)?;
                let batch = &mut purger.batch;
                batch.clear();
                let mut node = node.lock();
                let wanted = (most - done.evicted).min(BATCH as u64) as usize;
                more = node.evict_cached(fraction, &mut cursor, wanted, batch);
                let pages = batch.iter().map(PageRange::len).sum();
                space.count_taken(usize::MAX, batch.len() as u64, pages);
                drop(node);
                cursor.gone = Vec::new();
                done.evicted += batch.len() as u64;
                space.counts.held(batch.len());
                purger.enter_batch(0);
            }
        }
        Ok(())
    }

    /// Takes a fraction of the stock, as many areas as are left of `most`.
    fn take_stock(&mut self, fraction: Fraction, most: u64, done: &mut Done) -> Result<(), PlatformError> {
        let (space, mut due) = (self.space, None);
        while done.evicted < most && due != Some(0) {
            let purger = self.make_room(done)?;
            purger.batch.clear();
            let wanted = (most - done.evicted).min(BATCH as u64) as usize;
            let mut stock = space.cache.stock.lock();
            let left = due.unwrap_or_else(|| stock.due(fraction));
            let memory = stock.evict(left, wanted, &mut purger.batch, &space.areas);
            space.cache.budget.put(memory);
            let areas = purger.batch.len();
            let pages: u64 = purger.batch.iter().map(PageRange::len).sum();
            space.count_taken(usize::MAX, areas as u64, memory);
            drop(stock);
            space.areas.supply_late();
            space.cache.lazy.add_absent(pages - memory);
            purger.enter_batch(pages - memory);
            space.counts.held(areas);
            done.evicted += areas as u64;
            due = Some(if areas == 0 { 0 } else { left.saturating_sub(pages) });
        }
        Ok(())
    }

    /// Gives a fraction of the pools to the map, `most` areas at most (step 4). Returns how many.
    fn decay_pools(&mut self, fraction: Fraction, most: u64) -> u64 {
        let (space, batch) = (self.space, &mut self.purger.batch);
        let mut given = 0;
        for node in &space.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && given < most {
                batch.clear();
                let wanted = (most - given).min(BATCH as u64) as usize;
                more = node.lock().evict_pooled(fraction, &mut cursor, wanted, batch);
                cursor.gone = Vec::new();
                given += space.release(batch);
            }
        }
        given
    }

    /// Gives flushed areas to pools or to the map (step 5). Returns how many went to the map.
    fn give_back(&mut self, refill: bool) -> u64 {
        let space = self.space;
        let Purger { taken, batch, parts, .. } = &mut *self.purger;
        space.tally(|tally| {
            parts.take(&space.tenants, |tenant, part, ranges| {
                space.cache.lazy.of_none().sub(part.lazy_pages);
                tenant.flushed(part, ranges, tally);
            });
        });
        let ids = (0..space.cache.nodes.len()).chain([usize::MAX]);
        ids.zip(taken).map(|(id, taken)| Ways(space).give_set(id, taken, refill, batch)).sum()
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
            let map = |page| unsafe { space.platform.map(page, Protection::ReadWrite, Default::default()) };
            is_done = is_done && map(last_page(end)).is_ok();
            space.areas.join(end);
        }
        is_done = is_done && (!lacks_guard || self.unmap_parts(&[last_page(area.end())]).is_ok());
        if !is_done {
            self.purger.list().push(area);
            space.count_taken(usize::MAX, 1, area.len());
        }
        is_done
    }

    /// Returns whether a page of `range` has still to be unmapped.
    pub(super) fn is_pending(&self, range: PageRange) -> bool {
        self.purger.pending.iter().any(|pending| pending.intersection(&range).is_some())
    }
}

/// Purgers of groups of nodes.
pub(super) type Groups<L> = Box<[Padded<Mutex<L, Purger>>]>;

/// Returns purgers for the groups of nodes.
///
/// # Errors
/// [`SpaceError::Metadata`] when memory is short.
pub(super) fn groups<L: RawMutex, G: RawMutex>(cache: &Cache<L>) -> Result<Groups<G>, SpaceError> {
    let nodes = cache.nodes.len();
    let mut groups = list(cache.lazy.groups(), || Padded(Mutex::new(Purger::default())))?;
    for (number, group) in groups.iter_mut().enumerate() {
        let Range { start, end } = LazyPages::nodes_of(number);
        group.0.get_mut().prepare(end.min(nodes) - start)?;
    }
    Ok(groups)
}

/// The ways of areas to a purge, and back.
pub(super) struct Ways<'a, P: Platform>(pub(super) &'a Space<P>);

impl<P: Platform> Ways<'_, P> {
    /// Takes the lazy sets of nodes from the `first` on, one for each that is `taken`.
    pub(super) fn take_lazy(&self, first: usize, taken: &mut [Lazy]) {
        for (id, (node, taken)) in (first..).zip(self.0.cache.nodes[first..].iter().zip(taken)) {
            let mut node = node.lock();
            if !node.lazy.is_empty() {
                let unpublished = node.take_lazy(taken);
                self.0.count_taken(id, taken.len(), unpublished);
            }
        }
    }

    /// Gives a set of flushed areas back that node `id` freed, or none. Returns how many went to
    /// the map.
    pub(super) fn give_set(
        &self,
        id: usize,
        taken: &mut Lazy,
        refill: bool,
        batch: &mut Vec<PageRange>,
    ) -> u64 {
        if taken.is_empty() {
            return 0;
        }
        // What the purge took comes back to the pool, and as much again may be there. Cached areas
        // spread what is in use as well.
        let pages: u64 = taken.iter().map(PageRange::len).sum();
        let most = if self.0.caches { pages } else { POOLED * pages };
        let (mut given, mut absent) = (0, taken.absent);
        for some in taken.lists().flat_map(|list| list.chunks(BATCH)) {
            given += if refill { self.give_to_pools(id, some, most, batch) } else { self.0.release(some) };
            self.count_given(id, some, &mut absent);
        }
        self.0.counts.purged_areas.fetch_add(taken.len(), Relaxed);
        taken.clear();
        given
    }

    /// Gives flushed areas back that node `id` freed, or none, at most [`BATCH`]: to the pools that
    /// take them, up to `most` pages there, or to the map. Returns how many went to the map.
    fn give_to_pools(
        &self,
        id: usize,
        mut areas: &[PageRange],
        most: u64,
        evicted: &mut Vec<PageRange>,
    ) -> u64 {
        let (mut given, mut cursor) = (0, Cursor::default());
        while let Some(first) = areas.first() {
            evicted.clear();
            let owner = self.pool_of(id, first);
            // Those of one leaf go one way, if they are not too large for a pool.
            let is_near = |area: &PageRange| (area.start() ^ first.start()) >> LEAF_SHIFT == 0;
            let is_small = |area: &PageRange| owner.is_some() && area.len() <= first.len();
            let is_alike = |area: &PageRange| is_near(area) && is_small(area);
            let is_next = |area: &&PageRange| is_alike(area) || self.pool_of(id, area) == owner;
            let count = areas.iter().take_while(is_next).count();
            let pooled = match owner {
                Some(owner) => self.0.cache.pool(owner, &areas[..count], most, &mut cursor, evicted),
                None => 0,
            };
            self.0.counts.held(pooled + evicted.len());
            // Those that did not go in try once more where others made way.
            let rest = if evicted.is_empty() { count - pooled } else { 0 };
            given += self.0.release(evicted) + self.0.release(&areas[pooled..pooled + rest]);
            areas = &areas[pooled + rest..];
        }
        given
    }

    /// Returns the node whose pool takes an area that node `id` freed. Near the start of the span
    /// that is the one whose areas alone are in its leaf, as if it was cached. So it is for an area
    /// that no node freed. None takes a large one, or one in a leaf that is not dense.
    fn pool_of(&self, id: usize, area: &PageRange) -> Option<usize> {
        let (home, nodes) = (self.0.areas.bitmaps.sure_home(area.start())?, self.0.cache.nodes.len());
        let goes_home = area.start() < self.0.apart_end || id >= nodes;
        let owner = if goes_home { home.owner_node().map(|owner| owner % nodes) } else { None };
        owner.or(Some(id)).filter(|&id| id < nodes && SizeStacks::takes(area.len()))
    }

    /// Counts areas of node `id`, or of none, that leave a purger. `absent` is how many pages of
    /// those that it still has are without memory: these are counted off first.
    fn count_given(&self, id: usize, areas: &[PageRange], absent: &mut u64) {
        let lazy = &self.0.cache.lazy;
        let pages: u64 = areas.iter().map(PageRange::len).sum();
        let without = pages.min(*absent);
        if without != 0 {
            *absent -= without;
            lazy.sub_absent(without);
        }
        lazy.of(id).sub(pages - without);
        self.0.counts.taken_areas.fetch_sub(areas.len() as u64, Relaxed);
    }
}
