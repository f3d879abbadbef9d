//! Purging: the steps, in their order. The sets and the protocol are in [`purge`](crate::purge).

use super::Space;
use super::told::{ASKED, URGENT};
use crate::PageRange;
use crate::cache::{BATCH, Cursor, Fraction, SizeStacks};
use crate::platform::{Platform, PlatformError, PlatformFault};
use crate::purge::{Done, DrainStatus, PurgePlan, Purger, Sweep, Unmapper};
use crate::sync::{Mutant, is, unlocked};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use vmalloc_map::parts::{LEAF_SHIFT, Leaf};

/// So many returned parts of tenants that show owned frames may wait for a flush of them all.
const MOST_RETURNED: usize = 1024;

/// So many times the limit of lazy pages are far too many.
const FAR_BEHIND: u64 = 2;

/// The reason why a part of a tenant could not be noted that was to be unmapped.
const NO_MEMORY: PlatformError =
    PlatformError { call: "the list of parts to unmap", fault: PlatformFault::OutOfMemory, code: 0 };

impl<P: Platform> Space<P> {
    /// Gives back everything that is lazy, cached or pooled, and waits for a purge under way. After
    /// it returns no CPU holds a translation for anything freed before the call, and its addresses
    /// are free.
    ///
    /// O(n log n) in the areas given back, with one flush for all of them: the idea of Linux's lazy
    /// vunmap (Piggin, 2008). Other threads may allocate and free meanwhile.
    ///
    /// # Errors
    /// The platform's, if it refuses some areas. All others are given back all the same. The
    /// refused ones stay lazy, are counted in
    /// [`Stats::refused_areas`](super::Stats::refused_areas), and every later purge tries them
    /// again. So it is for parts of areas in use, and for parts of areas of
    /// [tenants](crate::tenant): this is an error as long as `refused_areas`, `refused_parts` or
    /// `pending_ranges` is not 0. It is one as well where there is no memory to note the parts that
    /// are to be unmapped.
    pub fn purge(&self) -> Result<(), PlatformError> {
        self.purge_with(PurgePlan::ALL)?.complete()
    }

    /// Unmaps everything that is lazy or cached, and waits for a purge under way. After it returns
    /// no CPU holds a translation for anything freed before the call. Its addresses may wait in
    /// pools. Cost as [`purge`](Self::purge).
    ///
    /// One exception: where mapping [replaces](crate::Geometry::remaps_atomically) what was there, a
    /// part of a tenant that another thread was handed, and has not mapped yet, shows what was
    /// there until it maps it. Nothing uses it before that.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge): some CPU may hold a translation for an area
    /// that it refuses.
    #[doc(alias = "vm_unmap_aliases")]
    pub fn flush(&self) -> Result<(), PlatformError> {
        self.purge_with(PurgePlan::UNMAP)?.complete()
    }

    /// Unmaps everything lazy and gives back a quarter of the cached and pooled areas, the longest
    /// unused, but none that was needed since the last decay; waits for a purge under way. Before,
    /// it lets [notifiers](super::Notifier::decay) give back what they keep. Call it now and then where nothing else frees: repeated, it reaches zero. Cost as
    /// [`purge`](Self::purge), for the areas given back.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn decay(&self) -> Result<(), PlatformError> {
        self.decay_notifiers();
        self.purge_with(PurgePlan::DECAY)?.complete()
    }

    /// Drains in the background: a platform calls this that was asked to
    /// [`drain later`](Platform::drain_later), or that lets areas decay by age. Above the threshold
    /// it purges, and gives back the pooled areas that were not needed since the last time, and the
    /// cached ones where memory is cheap. Else it is [`decay`](Self::decay). Then it lets
    /// [notifiers](super::Notifier::decay) give back what they keep. Says whether there is a reason
    /// to come again. It may block. Allocations do not wait for it
    /// unless addresses or memory are exhausted.
    ///
    /// # Errors
    /// The platform's, if it refuses areas and there is no memory to set these aside: then nothing
    /// else is purged before them. Otherwise areas that are refused are a reason to come again, and
    /// no error.
    pub fn drain(&self) -> Result<DrainStatus, PlatformError> {
        let is_much = self.cache.lazy.is_much(self.cache.lazy.level());
        let done = self.purge_with(if is_much { self.make_room() } else { PurgePlan::DECAY })?;
        // Else areas could be brought to a node that was passed already, and none would ask for
        // another drain.
        let _in_need = self.need.enter();
        // Before the look: a free that the look misses, behind it under the same lock, tells again.
        let mut was_told = if is(Mutant::LateForget) { 0 } else { self.told.swap(0, Relaxed) };
        let do_notifiers_keep = self.decay_notifiers();
        let is_idle = self.cache.rest();
        let tenants = self.tenants.counts();
        let left = tenants.lazy_areas + tenants.spare_areas + self.deferred.areas();
        let is_kept = done.keeps_memory || do_notifiers_keep || self.counts.is_anything_refused();
        let is_done = is_idle && left == 0 && !is_kept;
        if is(Mutant::LateForget) {
            was_told = self.told.swap(0, Relaxed);
        }
        if !is_done && was_told != 0 {
            let _ = self.told.compare_exchange(0, ASKED, Relaxed, Relaxed);
        }
        Ok(if is_done { DrainStatus::Done } else { DrainStatus::More })
    }

    /// Returns how many areas [`shrink`](Self::shrink) could give back now: those whose memory is
    /// cached, or whose addresses are pooled. O(nodes).
    #[must_use]
    pub fn shrinkable(&self) -> u64 {
        let kept: u64 = self.cache.each().map(|node| node.cached.areas() + node.pooled.areas()).sum();
        kept + self.cache.stock.lock().iter().len() as u64 + self.tenants.counts().spare_areas
    }

    /// Gives back up to `areas` areas that are kept for reuse, those with memory first. Returns how
    /// many. Lazy areas are purged as well, and not counted. Waits for a purge under way, and costs
    /// what a [`purge`](Self::purge) of as many areas does.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn shrink(&self, areas: u64) -> Result<u64, PlatformError> {
        self.purge_with(PurgePlan::at_most(areas)).map(|done| done.evicted)
    }

    /// Runs one purge, after the one under way.
    pub(super) fn purge_with(&self, plan: PurgePlan) -> Result<Done, PlatformError> {
        if is(Mutant::NoWait) && self.purger.is_locked() {
            return Ok(Done::default());
        }
        let mut purger = self.purger.lock();
        let mut done = self.run(&mut purger, plan)?;
        // Without memory for longer lists, all that has to go does so in several rounds.
        while purger.is_short && plan.cached == Some(Fraction::All) {
            let rest = PurgePlan { most: plan.most - done.evicted, ..plan };
            done = done.and(&self.run(&mut purger, rest)?);
        }
        Ok(done)
    }

    /// Purges because many pages are lazy, unless another thread is at it.
    #[cold]
    pub(super) fn purge_if_idle(&self) {
        if let Some(mut purger) = self.purger.try_lock() {
            // A failure stays with the purger; the next allocation in need reports it.
            let _ = self.run(&mut purger, self.make_room());
        }
    }

    /// Purges because an allocation found more lazy pages than the limit, and where they are far
    /// more, waits for the purge under way.
    ///
    /// While the purging thread runs they seldom become as many. Where threads are more than CPUs
    /// it may not run for a long time. All others would then free into the lazy sets, which hold
    /// memory, and allocate addresses that no cache knows: 64 threads on two CPUs make twice as
    /// many pairs of `alloc` and `free` where they wait.
    #[cold]
    pub(super) fn purge_behind(&self) {
        let lazy = &self.cache.lazy;
        let is_far = lazy.level() > FAR_BEHIND * lazy.limit() && !is(Mutant::NoWait);
        let purger = if is_far { Some(self.purger.lock()) } else { self.purger.try_lock() };
        // The purge that was waited for may have been enough.
        if let Some(mut purger) = purger.filter(|_| lazy.level() > lazy.limit()) {
            // A failure stays with the purger, as above.
            let _ = self.run(&mut purger, self.make_room());
        }
    }

    /// Returns the plan of a purge because many pages are lazy.
    fn make_room(&self) -> PurgePlan {
        if self.max_slack_percent == 0 { PurgePlan::MAKE_ROOM } else { PurgePlan::KEEP_MEMORY }
    }

    /// Unmaps and flushes what is lazy and what [tenants](crate::tenant) have to have flushed, unless
    /// another thread is at it. Returns whether that worked.
    #[doc(hidden)]
    pub fn flush_if_idle(&self) -> bool {
        let purger = self.purger.try_lock();
        purger.is_some_and(|mut purger| self.run(&mut purger, PurgePlan::FLUSH).is_ok())
    }

    /// Returns the means to unmap freed areas, for a caller that holds the purger.
    pub(super) fn unmapper(&self) -> Unmapper<'_, P> {
        Unmapper { platform: &self.platform, counts: &self.counts, lazy: &self.cache.lazy }
    }

    fn run(&self, purger: &mut Purger, plan: PurgePlan) -> Result<Done, PlatformError> {
        purger.is_short = false;
        let means = self.unmapper();
        let mut done = Done { refusal: purger.finish_pending(&means, |_| true), ..Done::default() };
        if !purger.refused.is_empty() {
            let mut room = self.room_for(plan);
            let give = |areas: &[PageRange], rest: &mut Vec<PageRange>| {
                self.give_areas(areas, &mut 0, &mut room, rest)
            };
            purger.retry(&means, plan, &mut done, give);
        }
        if !purger.is_empty() {
            // The set that an earlier purge could not finish comes first.
            purger.unmap_taken(&means, &mut done)?;
            done.given += self.give_back(purger, plan);
        }
        // First the shares in frame sets, then the areas: their lists had them before.
        let waiting = self.frame_sets.lock().waiting();
        // Where nothing decays, frames of returned parts would wait for ever.
        let plan =
            if waiting[1] > MOST_RETURNED { PurgePlan { sweep: Sweep::Everything, ..plan } } else { plan };
        // Acquire: pairs with the Release in `tell_later`. The purge finds what was told of; what
        // is told of later stays so.
        let _ = self.told.compare_exchange(URGENT, 0, Acquire, Relaxed);
        // Before the lazy sets: other threads may make cached areas lazy, and never the reverse.
        if let Some(fraction) = plan.cached {
            done.evicted += self.take_cached_areas(purger, fraction, plan.most);
            done.evicted += self.take_stock(purger, fraction, plan.most - done.evicted);
        }
        self.take(purger);
        self.take_deferred(purger);
        self.tally(|tally| purger.parts.collect(&self.tenants, plan.sweep, tally));
        if plan.insists && purger.parts.is_short() {
            done.refusal = done.refusal.or(Some(NO_MEMORY));
        }
        let is_some = !purger.is_empty();
        if is_some {
            purger.unmap_taken(&means, &mut done)?;
        }
        if let Some(fraction) = plan.pooled {
            let pooled = self.decay_pools(purger, fraction, plan.most - done.evicted);
            (done.given, done.evicted) = (done.given + pooled, done.evicted + pooled);
        }
        if is_some {
            done.given += self.give_back(purger, plan);
            purger.tidy();
            self.counts.purges.fetch_add(1, Relaxed);
            self.counts.list_bytes.store(purger.bytes() as u64, Relaxed);
        }
        self.settle_frames(waiting, purger, plan);
        let spared = self.release_spare(plan.pooled, plan.most - done.evicted);
        let keeps_memory = plan.memory().is_some_and(|part| self.platform.evict_memory(part));
        Ok(Done { given: done.given + spared, evicted: done.evicted + spared, keeps_memory, ..done })
    }

    /// Ends those of the first shares of areas and of parts of tenants that were flushed, and gives
    /// frames back that nothing shows any more.
    fn settle_frames(&self, [released, returned]: [usize; 2], purger: &Purger, plan: PurgePlan) {
        // A part that stays mapped may show frames of any that was returned.
        let is_swept =
            plan.sweep == Sweep::Everything && purger.refused.parts.is_empty() && !purger.parts.is_short();
        for nth in 0..released + if is_swept { returned } else { 0 } {
            let mut sets = self.frame_sets.lock();
            let set = match nth < released {
                true => sets.settle(|page| purger.refused.has(page)),
                false => sets.settle_returned(),
            };
            drop(sets);
            if let Some(set) = set {
                set.give_back(&self.platform);
            }
        }
    }

    /// Takes the lazy sets of all nodes (step 2).
    fn take(&self, purger: &mut Purger) {
        for (node, taken) in self.cache.nodes.iter().zip(&mut purger.taken) {
            let mut node = node.lock();
            if !node.lazy.is_empty() {
                let unpublished = node.take_lazy(taken);
                self.count_taken(taken.areas.len() as u64, unpublished);
                if is(Mutant::EarlyCount) {
                    self.cache.lazy.sub(taken.areas.iter().map(PageRange::len).sum());
                }
            }
        }
    }

    /// Takes a fraction of the cached areas, `most` at most. Returns how many.
    fn take_cached_areas(&self, purger: &mut Purger, fraction: Fraction, most: u64) -> u64 {
        // Else an allocation could bring areas to a node that was passed already.
        let _in_need = self.need.enter();
        let mut count = 0;
        for node in &self.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && count < most && purger.has_room() {
                let batch = &mut purger.batch;
                batch.clear();
                let mut node = node.lock();
                let wanted = batch_of(most - count);
                more = node.evict_cached(fraction, &mut cursor, wanted, batch);
                let pages = batch.iter().map(PageRange::len).sum();
                self.count_taken(batch.len() as u64, pages);
                drop(node);
                count += batch.len() as u64;
                self.counts.held(batch.len());
                purger.enter_batch(0);
            }
        }
        count
    }

    /// Takes a fraction of the stock, `most` areas at most. Returns how many.
    fn take_stock(&self, purger: &mut Purger, fraction: Fraction, most: u64) -> u64 {
        let (mut due, mut count) = (None, 0);
        while count < most && due != Some(0) && purger.has_room() {
            purger.batch.clear();
            let wanted = batch_of(most - count);
            let mut stock = unlocked(Mutant::UnlockedTake, || self.cache.stock.lock());
            let left = due.unwrap_or_else(|| stock.due(fraction));
            let memory = stock.evict(left, wanted, &mut purger.batch, self.borders());
            self.cache.budget.put(memory);
            let areas = purger.batch.len();
            let pages: u64 = purger.batch.iter().map(PageRange::len).sum();
            self.count_taken(areas as u64, memory);
            drop(stock);
            self.cache.lazy.add_absent(pages - memory);
            purger.enter_batch(pages - memory);
            self.counts.held(areas);
            count += areas as u64;
            due = Some(if areas == 0 { 0 } else { left.saturating_sub(pages) });
        }
        count
    }

    /// Counts areas that go to the purger, and pages of theirs that were not counted as lazy yet.
    pub(super) fn count_taken(&self, areas: u64, pages: u64) {
        self.counts.taken_areas.fetch_add(areas, Relaxed);
        self.cache.lazy.add(pages);
    }

    /// Gives a fraction of the pools to the map, `most` areas at most (step 4). Returns how many.
    fn decay_pools(&self, purger: &mut Purger, fraction: Fraction, most: u64) -> u64 {
        // As in `take_cached_areas`.
        let _in_need = self.need.enter();
        let (batch, mut given) = (&mut purger.batch, 0);
        for node in &self.cache.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && given < most {
                batch.clear();
                let wanted = batch_of(most - given);
                more = node.lock().pooled.evict(fraction, &mut cursor, wanted, batch);
                given += self.release(batch);
            }
        }
        given
    }

    /// Gives flushed areas to pools or to the map (step 5). Returns how many went to the map.
    fn give_back(&self, purger: &mut Purger, plan: PurgePlan) -> u64 {
        let Purger { taken, batch, parts, .. } = purger;
        let (mut given, mut purged, mut room) = (0, 0, self.room_for(plan));
        self.tally(|tally| {
            parts.take(&self.tenants, |tenant, part, ranges| {
                self.cache.lazy.sub(part.lazy_pages);
                tenant.flushed(part, ranges, tally);
            });
        });
        for taken in taken {
            purged += taken.areas.len() as u64;
            given += self.give_areas(&taken.areas, &mut taken.absent, &mut room, batch);
            taken.clear();
        }
        self.counts.purged_areas.fetch_add(purged, Relaxed);
        given
    }

    /// Returns how many pages of flushed areas a purge may put into pools.
    fn room_for(&self, plan: PurgePlan) -> u64 {
        if plan.refill { self.cache.room_in_pools() } else { 0 }
    }

    /// Gives areas of any node back, up to `room` pages of them to pools. Returns how many went to
    /// the map.
    fn give_areas(
        &self,
        areas: &[PageRange],
        absent: &mut u64,
        room: &mut u64,
        rest: &mut Vec<PageRange>,
    ) -> u64 {
        let give = |areas: &[PageRange]| {
            let given = match *room {
                0 => self.release(areas),
                _ => self.return_to_owners(areas, room, rest),
            };
            self.count_given(areas, absent);
            given
        };
        areas.chunks(BATCH).map(give).sum()
    }

    /// Counts areas that leave the purger. `absent` is how many pages of those that it still has
    /// are without memory: these are counted off first.
    fn count_given(&self, areas: &[PageRange], absent: &mut u64) {
        let is_early = is(Mutant::EarlyCount);
        let pages: u64 = if is_early { 0 } else { areas.iter().map(PageRange::len).sum() };
        let without = pages.min(*absent);
        if without != 0 {
            *absent -= without;
            self.cache.lazy.sub_absent(without);
        }
        self.cache.lazy.sub(pages - without);
        self.counts.taken_areas.fetch_sub(areas.len() as u64, Relaxed);
    }

    /// Puts areas into the pools of their owner nodes. Those that do not go in go to the map.
    fn return_to_owners(&self, mut areas: &[PageRange], room: &mut u64, rest: &mut Vec<PageRange>) -> u64 {
        let owner_node = |area: &PageRange| {
            let home = self.areas.bitmaps.sure_home(area.start());
            let home = home.filter(|_| SizeStacks::takes(area.len()));
            home.and_then(Leaf::owner_node).map(|owner| owner % self.cache.nodes.len())
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
                    self.cache.pool(id, of_owner, room, rest);
                    self.counts.held(of_owner.len());
                    self.release(rest)
                }
                None => self.release(of_owner),
            };
        }
        given
    }

    /// Gives at most [`BATCH`] areas to the map. Returns how many.
    pub(super) fn release(&self, areas: &[PageRange]) -> u64 {
        if areas.is_empty() {
            return 0;
        }
        self.sure(self.areas.release(areas));
        self.counts.held(areas.len());
        areas.len() as u64
    }
}

/// Returns how many of `wanted` areas are moved under one hold of a lock.
fn batch_of(wanted: u64) -> usize {
    wanted.min(BATCH as u64) as usize
}
