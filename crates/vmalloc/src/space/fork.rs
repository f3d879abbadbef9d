//! Forks: all locks held over one, and a child that ends what other threads were in the middle of.

use super::Space;
use crate::PageRange;
use crate::areas::Kind;
use crate::platform::Platform;
use crate::sync::{Mutant, is};
use core::sync::atomic::Ordering::Relaxed;

impl<P: Platform> Space<P> {
    /// Holds all locks of the space, for a `fork`, until [`resume`](Self::resume). Waits for a
    /// purge under way; a thread that calls it twice, or allocates in between, waits for itself.
    ///
    /// It is safe to call, for it only takes locks: memory is never handed out twice, but threads
    /// may wait for ever. The locks of what the platform stands on are not among them.
    pub fn quiesce(&self) {
        if is(Mutant::ForkOutOfOrder) {
            self.areas.lock_map();
        }
        core::mem::forget(self.purger.lock());
        self.cache.lock_all();
        self.tenants.iter().for_each(|tenant| tenant.lock());
        self.areas.lock_tables();
        self.notifiers.lock_all();
        self.frame_sets.lock_all();
        if !is(Mutant::ForkOutOfOrder) {
            self.areas.lock_map();
        }
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
        if !is(Mutant::ForkAsItIs) {
            if !is(Mutant::ForkInNeed) {
                self.need.start_anew();
                self.notifiers.start_anew();
            }
            self.repair_retired();
            self.repair_tenants();
            self.cache.rest_all();
            self.told.store(0, Relaxed);
        }
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
            self.purger.force_unlock();
        }
    }

    /// Ends what threads of the parent were doing with areas of tenants. An area that was being
    /// made or given back is given back.
    fn repair_tenants(&self) {
        let mut purger = self.purger.lock();
        let super::Purger { parts, refused, .. } = &mut *purger;
        let (areas, pages) = refused.parts.lazy();
        self.unmapper().move_from_refused(areas, pages);
        for parts in [parts, &mut refused.parts] {
            parts.take(&self.tenants, |tenant, part, _| tenant.put_off(part));
        }
        self.counts.refused_parts.store(0, Relaxed);
        drop(purger);
        while let Some(area) = self.unfinished_area() {
            self.give_up_tenants(area);
        }
        self.tally(|tally| self.tenants.iter().for_each(|tenant| tenant.repair(tally)));
    }

    /// Returns an area that is annotated as a tenant's, and is none's.
    fn unfinished_area(&self) -> Option<PageRange> {
        let has = |page: u64| self.tenants.iter().any(|tenant| tenant.has(page));
        let page = self.areas.tables().find_map(|table| {
            let mut areas = table.iter().filter(|(_, known)| known.kind == Kind::Tenant);
            areas.find_map(|(page, _)| (!has(page)).then_some(page))
        })?;
        self.areas.map().find(page)
    }
}
