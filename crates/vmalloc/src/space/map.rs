//! The area map under its lock: what all nodes share.

use super::Space;
use crate::area_map::{AreaMap, Bitmaps};
use crate::platform::Platform;
use core::ops::{Deref, DerefMut};

/// The area map, held. Who reads the bitmaps meanwhile without it can tell that they may be changing.
pub(super) struct HeldMap<'a, L: lock_api::RawMutex> {
    map: lock_api::MutexGuard<'a, L, AreaMap<'static>>,
    bitmaps: &'a Bitmaps<'static>,
}

impl<P: Platform> Space<P> {
    pub(super) fn map(&self) -> HeldMap<'_, P::RawLock> {
        HeldMap::of(self.map.0.lock(), &self.bitmaps)
    }

    pub(super) fn try_map(&self) -> Option<HeldMap<'_, P::RawLock>> {
        self.map.0.try_lock().map(|map| HeldMap::of(map, &self.bitmaps))
    }
}

impl<'a, L: lock_api::RawMutex> HeldMap<'a, L> {
    fn of(map: lock_api::MutexGuard<'a, L, AreaMap<'static>>, bitmaps: &'a Bitmaps<'static>) -> Self {
        bitmaps.begin_change();
        Self { map, bitmaps }
    }
}

impl<L: lock_api::RawMutex> Drop for HeldMap<'_, L> {
    fn drop(&mut self) {
        // Before the lock is released, which is dropped after this.
        self.bitmaps.end_change();
    }
}

impl<L: lock_api::RawMutex> Deref for HeldMap<'_, L> {
    type Target = AreaMap<'static>;
    fn deref(&self) -> &AreaMap<'static> {
        &self.map
    }
}

impl<L: lock_api::RawMutex> DerefMut for HeldMap<'_, L> {
    fn deref_mut(&mut self) -> &mut AreaMap<'static> {
        &mut self.map
    }
}
