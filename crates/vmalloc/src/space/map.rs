//! The area map under its lock: what all nodes share.

use super::Space;
use crate::area_map::{AreaMap, Heap, Planes};
use crate::platform::Platform;
use core::ops::{Deref, DerefMut};

/// The area map, held. Who reads the planes meanwhile without it can tell that they may be changing.
pub(super) struct HeldMap<'a, L: lock_api::RawMutex> {
    map: lock_api::MutexGuard<'a, L, AreaMap>,
    planes: &'a Planes<Heap>,
}

impl<P: Platform> Space<P> {
    pub(super) fn map(&self) -> HeldMap<'_, P::RawLock> {
        HeldMap::of(self.map.0.lock(), &self.planes)
    }

    pub(super) fn try_map(&self) -> Option<HeldMap<'_, P::RawLock>> {
        self.map.0.try_lock().map(|map| HeldMap::of(map, &self.planes))
    }
}

impl<'a, L: lock_api::RawMutex> HeldMap<'a, L> {
    fn of(map: lock_api::MutexGuard<'a, L, AreaMap>, planes: &'a Planes<Heap>) -> Self {
        planes.begin_change();
        Self { map, planes }
    }
}

impl<L: lock_api::RawMutex> Drop for HeldMap<'_, L> {
    fn drop(&mut self) {
        // Before the lock is released, which is dropped after this.
        self.planes.end_change();
    }
}

impl<L: lock_api::RawMutex> Deref for HeldMap<'_, L> {
    type Target = AreaMap;
    fn deref(&self) -> &AreaMap {
        &self.map
    }
}

impl<L: lock_api::RawMutex> DerefMut for HeldMap<'_, L> {
    fn deref_mut(&mut self) -> &mut AreaMap {
        &mut self.map
    }
}
