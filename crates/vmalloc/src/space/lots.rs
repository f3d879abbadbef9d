//! Frames that areas own: taken from the supply for them, and given back after the flush of the last area that shows them.
//!
//! A *lot* is the frames of one [`vmalloc_user`](super::Space::vmalloc_user). It has as many shares as areas show it. When the last
//! one is freed the lot is *buried*; a purge notes how many are buried before it takes the freed areas, and gives so many back when
//! these are flushed. An area is on a list before its lot is buried, so the flush is of that area, or was.

use crate::platform::Frame;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use hashbrown::HashMap;
use lock_api::{Mutex, MutexGuard, RawMutex};

/// The frames of one or more areas.
pub(super) struct Lot<P> {
    frames: Box<[Frame]>,
    shares: u64,
    /// Gives them back. Here, because only some platforms have frames.
    give: fn(&P, &[Frame]),
}

impl<P> Lot<P> {
    pub(super) fn give_back(&self, platform: &P) {
        (self.give)(platform, &self.frames);
    }
}

pub(super) struct Table<P> {
    /// Which lot the area at a page shows.
    shown: HashMap<u64, u64>,
    lots: HashMap<u64, Lot<P>>,
    /// Has room for all lots.
    buried: VecDeque<Lot<P>>,
    next: u64,
}

/// All lots of a space.
pub(super) struct Lots<P, L> {
    table: Mutex<L, Table<P>>,
}

impl<P, L: RawMutex> Lots<P, L> {
    pub(super) fn new() -> Self {
        let (shown, lots, buried) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self { table: Mutex::new(Table { shown, lots, buried, next: 0 }) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, L, Table<P>> {
        self.table.lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, L, Table<P>>> {
        self.table.try_lock()
    }

    pub(super) fn quiesce(&self) {
        core::mem::forget(self.table.lock());
    }

    /// # Safety
    /// The calling thread, or the one it was forked from, has called `quiesce`.
    pub(super) unsafe fn resume(&self) {
        // SAFETY: by the caller's promise it is held.
        unsafe { self.table.force_unlock() };
    }
}

impl<P> Table<P> {
    /// Enters the frames of the area at `page`; they come back when memory is short.
    pub(super) fn enter(
        &mut self,
        page: u64,
        frames: Box<[Frame]>,
        give: fn(&P, &[Frame]),
    ) -> Result<(), Box<[Frame]>> {
        let room = self.shown.try_reserve(1).is_ok() && self.lots.try_reserve(1).is_ok();
        if !room || self.buried.try_reserve(self.lots.len() + 1).is_err() {
            return Err(frames);
        }
        let id = self.next;
        self.next += 1;
        self.shown.insert(page, id);
        self.lots.insert(id, Lot { frames, shares: 1, give });
        Ok(())
    }

    /// The frames that the area at `page` shows.
    pub(super) fn frames(&self, page: u64) -> Option<&[Frame]> {
        Some(&self.lots.get(self.shown.get(&page)?)?.frames)
    }

    /// Has the area at `other` show what that at `page` does; `false` when memory is short.
    pub(super) fn share(&mut self, page: u64, other: u64) -> bool {
        let Some(&id) = self.shown.get(&page) else { return false };
        let fits = self.shown.try_reserve(1).is_ok();
        if let Some(lot) = self.lots.get_mut(&id).filter(|_| fits) {
            lot.shares += 1;
            self.shown.insert(other, id);
        }
        fits
    }

    /// The area at `page` shows nothing any more; the lot, if it was the last that did. It has to be [buried](Self::bury).
    #[must_use]
    pub(super) fn leave(&mut self, page: u64) -> Option<Lot<P>> {
        let id = self.shown.remove(&page)?;
        let lot = self.lots.get_mut(&id)?;
        lot.shares -= 1;
        if lot.shares > 0 { None } else { self.lots.remove(&id) }
    }

    /// Lets the next purge give a lot back.
    pub(super) fn bury(&mut self, lot: Lot<P>) {
        self.buried.push_back(lot);
    }

    pub(super) fn buried(&self) -> usize {
        self.buried.len()
    }

    pub(super) fn exhume(&mut self) -> Option<Lot<P>> {
        self.buried.pop_front()
    }

    pub(super) fn bytes(&self) -> usize {
        let frames: usize = self.lots.values().chain(&self.buried).map(|lot| size_of_val(&*lot.frames)).sum();
        self.shown.allocation_size()
            + self.lots.allocation_size()
            + frames
            + self.buried.capacity() * size_of::<Lot<P>>()
    }
}
