//! The blocks as a tenant of their space.

use super::{BlockState, Blocks};
use alloc::sync::Arc;
use core::any::Any;
use lock_api::RawMutex;
use vmalloc::PageRange;
use vmalloc::area_map::Violation;
use vmalloc::tenant::{Part, Parts, Sweep, Tally, Tenant, TenantCounts};

impl<L: RawMutex + Send + Sync + 'static> Tenant for Blocks<L> {
    fn collect(&self, sweep: Sweep, parts: &mut Parts, tally: &mut Tally<'_>) {
        self.collect_blocks(sweep, parts, tally);
    }

    fn flushed(&self, part: &Part, ranges: &[PageRange], tally: &mut Tally<'_>) {
        self.put_flushed(part, ranges, tally);
    }

    fn put_off(&self, part: &Part) {
        if let Some(block) = self.get(part.area) {
            let is_spent = part.lazy_pages != 0;
            block.set_state(if is_spent { BlockState::Spent } else { BlockState::Closed });
        }
    }

    fn spare(&self, most: u64, release: &mut dyn FnMut(PageRange)) {
        self.release_ready(most, release);
    }

    fn counts(&self) -> TenantCounts {
        let lists = self.lists.lock();
        TenantCounts {
            areas: lists.all.len() as u64,
            made: lists.made,
            freed: lists.freed,
            lazy_areas: lists.spent,
            spare_areas: lists.ready.len(),
            spare_pages: lists.ready.len() * self.slots(),
        }
    }

    fn metadata_bytes(&self) -> u64 {
        (self.records.bytes() + size_of_val(&*self.queues) + self.linear.bytes()) as u64
    }

    fn has(&self, page: u64) -> bool {
        let lists = self.lists.lock();
        self.get(page).is_some_and(|block| lists.has(page, block))
    }

    fn live(&self, area: PageRange, see: &mut dyn FnMut(PageRange)) {
        self.live_ranges(area.start()).for_each(see);
    }

    fn lock(&self) {
        self.queues.iter().for_each(|queue| core::mem::forget(queue.0.state.lock()));
        core::mem::forget(self.lists.lock());
    }

    unsafe fn unlock(&self) {
        // SAFETY: by the caller's promise all are held.
        unsafe {
            self.lists.force_unlock();
            self.queues.iter().for_each(|queue| queue.0.state.force_unlock());
        }
    }

    fn repair(&self, tally: &mut Tally<'_>) {
        self.repair_blocks(tally);
    }

    fn verify(&self) -> Result<(), Violation> {
        self.check()
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
