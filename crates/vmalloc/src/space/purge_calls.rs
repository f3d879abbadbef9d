//! The calls that purge: how much, and whether they wait.

use super::Space;
use super::purging::{Purge, Ways};
use super::told::ASKED;
use crate::PageRange;
use crate::error::PurgeError;
use crate::platform::{Platform, PlatformError};
use crate::purge::{Done, DrainStatus, PurgePlan, Purger, Unmapper};
use crate::sync::fence;
use crate::wait::policy::BEHIND;
use crate::wait::{GROUP, LazyPages};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

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
    /// `pending_ranges` is not 0. [`PurgeError::Metadata`] where there is no memory to note the
    /// parts that are to be unmapped.
    pub fn purge(&self) -> Result<(), PurgeError> {
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
    pub fn flush(&self) -> Result<(), PurgeError> {
        self.purge_with(PurgePlan::UNMAP)?.complete()
    }

    /// Unmaps everything lazy and gives back a quarter of the cached and pooled areas, the longest
    /// unused, but none that was needed since the last decay; waits for a purge under way. What a
    /// group of CPUs begins to purge meanwhile may take longer: [`flush`](Self::flush) waits for
    /// that as well. Before, it lets [notifiers](super::Notifier::decay) give back what they keep.
    /// Call it now and then where nothing else frees: repeated, it reaches zero. Cost as
    /// [`purge`](Self::purge), for the areas given back.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn decay(&self) -> Result<(), PlatformError> {
        self.notifiers.decay(self);
        self.purge_with(PurgePlan::DECAY)?.refused()
    }

    /// Drains in the background: a platform calls this that was asked to
    /// [`drain later`](Platform::drain_later), or that lets areas decay by age. Above the threshold
    /// it purges the groups of CPUs that are. Else it is [`decay`](Self::decay). Then it lets
    /// [notifiers](super::Notifier::decay) give back what they keep. Says whether there is a reason
    /// to come again. It may block. Allocations do not wait for it unless addresses or memory are
    /// exhausted.
    ///
    /// # Errors
    /// The platform's, if it refuses areas and there is no memory to set these aside: then nothing
    /// else is purged before them. Otherwise areas that are refused are a reason to come again, and
    /// no error.
    pub fn drain(&self) -> Result<DrainStatus, PlatformError> {
        let lazy = &self.cache.lazy;
        let is_much = |id: &usize| lazy.is_much(lazy.of(*id).level()) || lazy.is_absent_much();
        let groups = (0..self.cache.nodes.len()).step_by(GROUP).chain([usize::MAX]);
        let mut done = None;
        for id in groups.filter(is_much) {
            // What a platform keeps of unmapped areas decays by age.
            done = Some(Done { keeps_memory: true, ..Done::default() });
            if !self.purge_group(id, true) {
                self.purge_with(PurgePlan::LAZY)?;
            }
        }
        let done = done.map_or_else(|| self.purge_with(PurgePlan::DECAY), Ok)?;
        // Before the look: a free that the look misses, behind it under the same lock, tells again.
        let was_told = self.told.swap(0, Relaxed);
        let do_notifiers_keep = self.notifiers.decay(self);
        let mut is_idle = self.cache.rest();
        if is_idle {
            // A purge may have had what the nodes had not, and areas may have been brought to a
            // node that was passed already: once more, while neither can be.
            let mut purge = self.hold_purger();
            let _whole = self.whole.enter();
            purge.take_over();
            is_idle = self.cache.rest() && purge.purger.is_empty();
        }
        let tenants = self.tenants.counts();
        let left = tenants.lazy_areas + tenants.spare_areas + self.deferred.areas();
        let is_kept = done.keeps_memory || do_notifiers_keep || self.counts.is_anything_refused();
        let is_done = is_idle && left == 0 && !is_kept;
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

    /// Runs one purge, after the one under way; none where another has done its work, which began
    /// after this call.
    pub(super) fn purge_with(&self, plan: PurgePlan) -> Result<Done, PlatformError> {
        // Here and where a purge begins: either this reads that it has begun, or the purge sees
        // what was freed before this call.
        fence(SeqCst);
        let begun = self.begun.load(Relaxed);
        let mut purge = self.hold_purger();
        if let Some(done) = purge.purger.done_since(begun, &plan) {
            return Ok(done);
        }
        let number = self.begun.fetch_add(1, Relaxed) + 1;
        fence(SeqCst);
        let done = purge.run(plan)?;
        purge.purger.note(number, &plan, &done);
        Ok(done)
    }

    /// Holds the purger, after the purge under way.
    pub(super) fn hold_purger(&self) -> Purge<'_, P> {
        Purge { space: self, purger: self.purger.lock() }
    }

    /// Holds the purger, unless another thread does.
    pub(super) fn try_hold_purger(&self) -> Option<Purge<'_, P>> {
        self.purger.try_lock().map(|purger| Purge { space: self, purger })
    }

    /// Purges the lazy areas of the group of node `id`, and `waits` for a purge of them under way
    /// if that is wanted. Returns false where it is for a purge of the whole space.
    fn purge_group(&self, id: usize, waits: bool) -> bool {
        let number = id / LazyPages::nodes_of(0).end;
        let (lazy, Some(group)) = (&self.cache.lazy, self.groups.get(number)) else { return false };
        let group = if waits { Some(group.lock()) } else { group.try_lock() };
        let Some(mut group) = group else { return true };
        let of_none = lazy.of_none().level() + self.deferred.pages();
        let is_for_all = || lazy.is_much(of_none) || lazy.is_absent_much();
        let has_frames = || self.frame_sets.lock().waiting() != [0; 2];
        if self.whole.is_any() || !group.is_empty() || is_for_all() || has_frames() {
            return false;
        }
        // The purge that was waited for may have been enough.
        if !lazy.is_much(lazy.of(id).level()) {
            return true;
        }
        let first = LazyPages::nodes_of(number).start;
        Ways(self).take_lazy(first, group.of_nodes());
        let means = Unmapper { platform: &self.platform, counts: &self.counts, lazy };
        // REFUSED-3
        let is_done = !self.counts.is_anything_pending() && group.unmap_all(&means);
        let Purger { taken, batch, .. } = &mut *group;
        if !is_done {
            return false;
        }
        (first..).zip(taken).for_each(|(id, taken)| _ = Ways(self).give_set(id, taken, true, batch));
        self.counts.purges.fetch_add(1, Relaxed);
        true
    }

    /// Purges because many pages of the group of node `id` are lazy, unless another thread is at
    /// it.
    #[cold]
    pub(super) fn purge_if_idle(&self, id: usize) {
        if self.purge_group(id, false) {
            return;
        }
        if let Some(mut purge) = self.try_hold_purger() {
            // A failure stays with the purger; the next allocation in need reports it.
            let _ = purge.run(PurgePlan::LAZY);
        }
    }

    /// Purges because an allocation found more lazy pages in its group than the limit, and where
    /// they are far more, waits for the purge under way.
    ///
    /// While the purging thread runs they seldom become as many. Where threads are more than CPUs
    /// it may not run for a long time. All others would then free into the lazy sets, which hold
    /// memory, and allocate addresses that no cache knows: 64 threads on two CPUs make twice as
    /// many pairs of `alloc` and `free` where they wait.
    #[cold]
    pub(super) fn purge_behind(&self, id: usize) {
        let (lazy, count) = (&self.cache.lazy, self.cache.lazy.of(id));
        let is_far = count.level() > BEHIND * lazy.limit();
        if self.purge_group(id, is_far) {
            return;
        }
        let purge = if is_far { Some(self.hold_purger()) } else { self.try_hold_purger() };
        // The purge that was waited for may have been enough.
        if let Some(mut purge) = purge.filter(|_| count.level() > lazy.limit()) {
            // A failure stays with the purger, as above.
            let _ = purge.run(PurgePlan::LAZY);
        }
    }

    /// Unmaps and flushes what is lazy and what [tenants](crate::tenant) have to have flushed, unless
    /// another thread is at it. Returns whether that worked.
    #[doc(hidden)]
    pub fn flush_if_idle(&self) -> bool {
        self.try_hold_purger().is_some_and(|mut purge| purge.run(PurgePlan::LAZY).is_ok())
    }

    /// Counts areas of node `id`, or of none, that go to a purger, and pages of theirs that were
    /// not counted as lazy yet.
    pub(super) fn count_taken(&self, id: usize, areas: u64, pages: u64) {
        self.counts.taken_areas.fetch_add(areas, Relaxed);
        self.cache.lazy.of(id).add(pages);
    }

    /// Gives at most [`BATCH`](crate::wait::BATCH) areas to the map. Returns how many.
    pub(super) fn release(&self, areas: &[PageRange]) -> u64 {
        if areas.is_empty() {
            return 0;
        }
        self.sure(self.areas.release(areas));
        self.counts.held(areas.len());
        areas.len() as u64
    }
}
