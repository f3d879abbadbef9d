//! Forks: all locks held over one, and a child that ends what other threads were in the middle of.

use super::Space;
use super::purging::Purge;
use crate::PageRange;
use crate::areas::Kind;
use crate::platform::Platform;
use crate::purge::Purger;
use core::sync::atomic::Ordering::Relaxed;

impl<P: Platform> Space<P> {
    /// Holds all locks of the space, for a `fork`, until [`resume`](Self::resume). Waits for a
    /// purge under way; a thread that calls it twice, or allocates in between, waits for itself.
    ///
    /// It is safe to call, for it only takes locks: memory is never handed out twice, but threads
    /// may wait for ever. The locks of what the platform stands on are not among them.
    pub fn quiesce(&self) {
        core::mem::forget(self.purger.lock());
        self.groups.iter().for_each(|group| core::mem::forget(group.lock()));
        self.cache.lock_all();
        self.tenants.iter().for_each(|tenant| tenant.lock());
        self.areas.lock_tables();
        self.notifiers.lock_all();
        self.frame_sets.lock_all();
        self.areas.lock_map();
    }

    /// Ends what [`quiesce`](Self::quiesce) began, in the child of a fork. It also ends what
    /// threads of the parent, which the child does not have, were doing without locks.
    ///
    /// # Safety
    /// The thread that this one was forked from has called `quiesce`; this one has not yet called
    /// this, or [`resume`](Self::resume), and is the only one.
    pub unsafe fn resume_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.resume() };
        self.need.start_anew();
        self.whole.start_anew();
        self.notifiers.calling.start_anew();
        let purge = self.hold_purger();
        purge.repair_retired();
        purge.repair_tenants();
        self.cache.rest_all();
        self.told.store(0, Relaxed);
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet
    /// `resume`.
    pub unsafe fn resume(&self) {
        // SAFETY: by the caller's promise this thread holds all locks.
        unsafe {
            self.areas.unlock_all();
            self.frame_sets.unlock_all();
            self.notifiers.unlock_all();
            self.tenants.iter().for_each(|tenant| tenant.unlock());
            self.cache.unlock_all();
            self.groups.iter().for_each(|group| group.force_unlock());
            self.purger.force_unlock();
        }
    }
}

impl<P: Platform> Purge<'_, P> {
    /// Ends what threads of the parent were doing with areas of tenants. An area that was being
    /// made or given back is given back.
    fn repair_tenants(mut self) {
        let (space, means) = (self.space, self.means());
        let Purger { parts, refused, .. } = &mut *self.purger;
        let (areas, pages) = refused.parts.lazy();
        means.move_from_refused(areas, pages);
        for parts in [parts, &mut refused.parts] {
            parts.take(&space.tenants, |tenant, part, _| tenant.put_off(part));
        }
        space.counts.refused_parts.store(0, Relaxed);
        drop(self);
        while let Some(area) = unfinished_area(space) {
            space.give_up_tenants(area);
        }
        space.tally(|tally| space.tenants.iter().for_each(|tenant| tenant.repair(tally)));
    }
}

/// Returns an area that is annotated as a tenant's, and is none's.
fn unfinished_area<P: Platform>(space: &Space<P>) -> Option<PageRange> {
    let has = |page: u64| space.tenants.iter().any(|tenant| tenant.has(page));
    let page = space.areas.tables().find_map(|table| {
        table.find(&mut |page, known| (known.kind == Kind::Tenant && !has(page)).then_some(page))
    })?;
    space.areas.map().find(page)
}
