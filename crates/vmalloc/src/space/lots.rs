//! Frames that areas own: taken from the supply for them, and given back after the flush of the last area that shows them.
//!
//! A *lot* is the frames of one [`vmalloc_user`](super::Space::vmalloc_user). It has as many shares as areas show it. When an area is
//! freed its share is *buried*. A purge annotations how many are buried before it takes the freed areas, and ends so many when these
//! are flushed, but for those of areas that the platform refuses. The lot goes back with its last share. An area is on a
//! list before its share is buried, so the flush is of that area, or was.

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

/// What a freed area has in a lot.
pub(super) struct Share {
    /// The first page of the area.
    page: u64,
    lot: u64,
}

pub(super) struct Table<P> {
    /// Which lot the area at a page shows.
    shown: HashMap<u64, u64>,
    lots: HashMap<u64, Lot<P>>,
    /// Shares of areas that were freed and may not be flushed yet. Has room for all shares.
    buried: VecDeque<Share>,
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
        if !self.has_room() || self.lots.try_reserve(1).is_err() {
            return Err(frames);
        }
        let id = self.next;
        self.next += 1;
        self.shown.insert(page, id);
        self.lots.insert(id, Lot { frames, shares: 1, give });
        Ok(())
    }

    /// Makes room for one more share; `false` when memory is short.
    fn has_room(&mut self) -> bool {
        self.shown.try_reserve(1).is_ok() && self.buried.try_reserve(self.shown.len() + 1).is_ok()
    }

    /// The frames that the area at `page` shows.
    pub(super) fn frames(&self, page: u64) -> Option<&[Frame]> {
        Some(&self.lots.get(self.shown.get(&page)?)?.frames)
    }

    /// Has the area at `other` show what that at `page` does; `false` when memory is short.
    pub(super) fn share(&mut self, page: u64, other: u64) -> bool {
        let Some(&id) = self.shown.get(&page) else { return false };
        let fits = self.has_room();
        if let Some(lot) = self.lots.get_mut(&id).filter(|_| fits) {
            lot.shares += 1;
            self.shown.insert(other, id);
        }
        fits
    }

    /// Takes the share of the area at `page` out, if it has one. It has to be [buried](Self::bury) or [ended](Self::end).
    #[must_use]
    pub(super) fn leave(&mut self, page: u64) -> Option<Share> {
        self.shown.remove(&page).map(|lot| Share { page, lot })
    }

    /// Lets a purge end a share that comes later.
    pub(super) fn bury(&mut self, share: Share) {
        self.buried.push_back(share);
    }

    /// How many shares are buried.
    pub(super) fn left(&self) -> usize {
        self.buried.len()
    }

    /// Ends the share that was buried first, unless its area is refused; the lot, if that was its last.
    #[must_use]
    pub(super) fn settle(&mut self, is_refused: impl Fn(u64) -> bool) -> Option<Lot<P>> {
        let share = self.buried.pop_front()?;
        if is_refused(share.page) {
            self.buried.push_back(share);
            return None;
        }
        self.end(share)
    }

    /// Ends a share; the lot, if it was its last.
    #[must_use]
    pub(super) fn end(&mut self, share: Share) -> Option<Lot<P>> {
        let lot = self.lots.get_mut(&share.lot)?;
        lot.shares -= 1;
        if lot.shares > 0 { None } else { self.lots.remove(&share.lot) }
    }

    pub(super) fn bytes(&self) -> usize {
        let frames: usize = self.lots.values().map(|lot| size_of_val(&*lot.frames)).sum();
        self.shown.allocation_size()
            + self.lots.allocation_size()
            + frames
            + self.buried.capacity() * size_of::<Share>()
    }
}
