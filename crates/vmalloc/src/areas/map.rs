//! The area map under its lock: the state that all nodes share.

use super::Areas;
use crate::PageRange;
use crate::cache::Borders;
use core::ops::{Deref, DerefMut};
use lock_api::{MutexGuard, RawMutex};
use vmalloc_map::parts::Bitmaps;
use vmalloc_map::{AreaMap, NoArea, State};

/// The area map, held. A thread that reads the bitmaps meanwhile without it can tell that they may
/// be changing.
pub(crate) struct HeldMap<'a, L: RawMutex> {
    map: MutexGuard<'a, L, AreaMap<'static>>,
    bitmaps: &'a Bitmaps<'static>,
}

impl<L: RawMutex> Areas<L> {
    /// Locks the map.
    pub(crate) fn map(&self) -> HeldMap<'_, L> {
        HeldMap::of(self.map.0.lock(), &self.bitmaps)
    }

    /// Locks the map unless it is held.
    pub(crate) fn try_map(&self) -> Option<HeldMap<'_, L>> {
        self.map.0.try_lock().map(|map| HeldMap::of(map, &self.bitmaps))
    }
}

impl<L: RawMutex> Borders for Areas<L> {
    fn cut(&self, whole: PageRange, part: PageRange) -> bool {
        self.map().cut_retired(whole, part)
    }

    fn join(&self, page: u64) {
        self.map().join_area(page);
    }
}

impl<'a, L: RawMutex> HeldMap<'a, L> {
    fn of(map: MutexGuard<'a, L, AreaMap<'static>>, bitmaps: &'a Bitmaps<'static>) -> Self {
        bitmaps.begin_change();
        Self { map, bitmaps }
    }
}

impl<L: RawMutex> HeldMap<'_, L> {
    /// Takes the busy area that starts at `page` out of use if it `is_right`, or tells why there is
    /// none. An area that was freed there may have been joined with others since.
    pub(crate) fn retire_area(
        &mut self,
        page: u64,
        is_right: impl FnOnce(PageRange) -> bool,
    ) -> Result<PageRange, NoArea> {
        if self.find(page).is_some_and(|area| area.start() == page && !is_right(area)) {
            return Err(NoArea::Busy { page });
        }
        let is_freed = |map: &Self| map.segment(page).is_some_and(|found| found.state == State::Retired);
        self.map.retire(page).map_err(|error| match error {
            NoArea::Interior { .. } if is_freed(self) => NoArea::Retired { page },
            error => error,
        })
    }
}

impl<L: RawMutex> Drop for HeldMap<'_, L> {
    fn drop(&mut self) {
        // Before the lock is released, which is dropped after this.
        self.bitmaps.end_change();
    }
}

impl<L: RawMutex> Deref for HeldMap<'_, L> {
    type Target = AreaMap<'static>;
    fn deref(&self) -> &AreaMap<'static> {
        &self.map
    }
}

impl<L: RawMutex> DerefMut for HeldMap<'_, L> {
    fn deref_mut(&mut self) -> &mut AreaMap<'static> {
        &mut self.map
    }
}
