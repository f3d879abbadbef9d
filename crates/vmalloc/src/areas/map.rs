//! The area map under its lock: the state that all nodes share.

use super::Areas;
use crate::PageRange;
use crate::cache::Borders;
use core::ops::{Deref, DerefMut};
use lock_api::{MutexGuard, RawMutex};
use vmalloc_map::parts::Bitmaps;
use vmalloc_map::{AreaMap, NoArea, State};

/// The area map under its lock. Its first use by `&mut` begins a change, which lasts until the lock
/// is released: threads that read the bitmaps without the lock learn of that, and of nothing else.
pub(crate) struct HeldMap<'a, L: RawMutex> {
    map: MutexGuard<'a, L, AreaMap<'static>>,
    bitmaps: &'a Bitmaps<'static>,
    is_changing: bool,
}

impl<L: RawMutex> Areas<L> {
    /// Locks the map.
    pub(crate) fn map(&self) -> HeldMap<'_, L> {
        HeldMap { map: self.map.0.lock(), bitmaps: &self.bitmaps, is_changing: false }
    }

    /// Locks the map unless it is held.
    pub(crate) fn try_map(&self) -> Option<HeldMap<'_, L>> {
        self.map.0.try_lock().map(|map| HeldMap { map, bitmaps: &self.bitmaps, is_changing: false })
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

impl<L: RawMutex> HeldMap<'_, L> {
    /// Takes the busy area that starts at `page` out of use if it `is_right`, or tells why there is
    /// none. An area that was freed there may have been joined with others since.
    pub(crate) fn retire_area(
        &self,
        page: u64,
        is_right: impl FnOnce(PageRange) -> bool,
    ) -> Result<PageRange, NoArea> {
        let state = || self.segment(page).map(|found| found.state);
        match self.retire_if(page, is_right) {
            Ok(area) => area.ok_or(NoArea::Busy { page }),
            Err(NoArea::Interior { .. }) if state() == Some(State::Retired) => Err(NoArea::Retired { page }),
            Err(error) => Err(error),
        }
    }
}

impl<L: RawMutex> Drop for HeldMap<'_, L> {
    fn drop(&mut self) {
        // Before the lock is released, which is dropped after this.
        if self.is_changing {
            self.bitmaps.end_change();
        }
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
        if !core::mem::replace(&mut self.is_changing, true) {
            self.bitmaps.begin_change();
        }
        &mut self.map
    }
}
