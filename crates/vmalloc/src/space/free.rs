//! Taking areas back: out of use at once, unmapped later.

use super::state::State;
use super::{Kind, Space};
use crate::addr::PageRange;
use crate::error::FreeError;
use crate::platform::Platform;

impl<P: Platform> Space<P> {
    /// Frees the memory that [`alloc`](Self::alloc) or a relative returned at `addr`. O(1), and now and then a
    /// purge, which nobody else waits for.
    ///
    /// # Safety
    /// Nothing may use the memory any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[inline]
    pub unsafe fn vfree(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let mut state = self.state.lock();
        let (area, guard_pages) = state.retire(page, Kind::Vmalloc, self.config.guard)?;
        // Only areas with the usual guard are kept: every area of a size can then stand in for every other.
        if guard_pages == u64::from(self.config.guard) && state.retained.keep(area) {
            return Ok(());
        }
        self.make_lazy(state, area);
        Ok(())
    }

    /// Frees the addresses that [`reserve`](Self::reserve) returned at `addr`. They are flushed before reuse, like
    /// any others.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub fn unreserve(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let mut state = self.state.lock();
        let (area, _) = state.retire(page, Kind::Reserved, self.config.guard)?;
        self.make_lazy(state, area);
        Ok(())
    }

    /// Enters a retired area in the lazy set.
    fn make_lazy(&self, mut state: lock_api::MutexGuard<'_, P::RawLock, State>, area: PageRange) {
        state.lazy_pages += area.len();
        state.lazy_areas += 1;
        if state.lazy.try_reserve(1).is_err() {
            drop(state);
            return self.purge_one(area);
        }
        state.lazy.push(area);
        let lazy_pages = state.lazy_pages;
        drop(state);
        if lazy_pages > self.lazy_max {
            self.drain_due(lazy_pages);
        }
    }
}
