//! Frame sets: frames that the space took, and gives back after the flush of the last area that
//! shows them.
//!
//! A set has a share for its handle, and one for each area that shows it. When an area is freed,
//! its share is *released*. A purge counts the released shares before it takes the freed areas. It
//! ends so many when these are flushed, but for those of areas that the platform refuses, and for
//! those of parts of tenants where it [leaves](super::Sweep::Due) returned parts mapped. The
//! frames go back with the last share. An area is on a list before its share is released, so the
//! flush covers it.

use crate::platform::Frame;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use lock_api::{Mutex, MutexGuard, RawMutex};

/// The frames of one or more areas.
#[must_use = "its frames have to be given back"]
pub(crate) struct FrameSet<P> {
    frames: Box<[Frame]>,
    shares: u64,
    /// Gives them back. Here, because only some platforms have frames.
    give: fn(&P, &[Frame]),
}

impl<P> FrameSet<P> {
    pub(crate) fn give_back(&self, platform: &P) {
        (self.give)(platform, &self.frames);
    }
}

/// The share of an area, or of a handle, in a set.
#[derive(Debug)]
#[must_use = "it has to be released or ended"]
pub(crate) struct FrameShare {
    /// The first page of the area; 0 for a handle.
    page: u64,
    set: u64,
}

/// The sets of a space.
pub(crate) struct Sets<P> {
    /// The set that the area at a page shows.
    shown: HashMap<u64, u64>,
    sets: HashMap<u64, FrameSet<P>>,
    /// Shares of areas that were freed and may not be flushed yet, each with the first page of its
    /// area. Has room for all shares.
    released: VecDeque<(FrameShare, u64)>,
    /// Shares of parts of tenants that were returned and may not be flushed yet. Has room for all.
    returned: VecDeque<FrameShare>,
    /// Shares without an area.
    handles: usize,
    next: u64,
}

/// The sets of a space, under their lock.
pub(crate) struct FrameSets<P, L> {
    sets: Mutex<L, Sets<P>>,
}

impl<P, L: RawMutex> FrameSets<P, L> {
    pub(crate) fn new() -> Self {
        let (shown, sets) = (HashMap::new(), HashMap::new());
        let (released, returned) = (VecDeque::new(), VecDeque::new());
        Self { sets: Mutex::new(Sets { shown, sets, released, returned, handles: 0, next: 0 }) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, L, Sets<P>> {
        self.sets.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, L, Sets<P>>> {
        self.sets.try_lock()
    }

    /// Returns the sets, of which the caller has the only reference.
    pub(crate) fn get_mut(&mut self) -> &mut Sets<P> {
        self.sets.get_mut()
    }

    /// Enters `frames`, which were taken from the supply, as a set. When memory is short, `give`
    /// gives them back.
    pub(crate) fn enter(
        &self,
        frames: Box<[Frame]>,
        give: fn(&P, &[Frame]),
        platform: &P,
    ) -> Option<FrameShare> {
        let entered = self.lock().enter(frames, give);
        entered.map_err(|frames| give(platform, &frames)).ok()
    }

    /// Ends the share of a handle. With the last share the frames go back.
    pub(crate) fn end(&self, share: FrameShare, platform: &P) {
        let set = self.lock().end(share);
        if let Some(set) = set {
            set.give_back(platform);
        }
    }

    /// Ends the share of the area at `page`: nothing was mapped there.
    pub(crate) fn end_shown(&self, page: u64, platform: &P) {
        let share = self.lock().leave(page);
        if let Some(share) = share {
            self.end(share, platform);
        }
    }

    pub(crate) fn lock_all(&self) {
        core::mem::forget(self.sets.lock());
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has called `lock_all`.
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise it is held.
        unsafe { self.sets.force_unlock() };
    }
}

impl<P> Sets<P> {
    /// Enters a set with one share, that of its handle. The frames come back when memory is short.
    pub(crate) fn enter(
        &mut self,
        frames: Box<[Frame]>,
        give: fn(&P, &[Frame]),
    ) -> Result<FrameShare, Box<[Frame]>> {
        if self.sets.try_reserve(1).is_err() || !self.make_room() {
            return Err(frames);
        }
        self.handles += 1;
        let set = self.next;
        self.next += 1;
        self.sets.insert(set, FrameSet { frames, shares: 1, give });
        Ok(FrameShare { page: 0, set })
    }

    /// Returns one more share without an area; `None` when memory is short.
    pub(crate) fn again(&mut self, share: &FrameShare) -> Option<FrameShare> {
        if !self.make_room() {
            return None;
        }
        self.sets.get_mut(&share.set)?.shares += 1;
        self.handles += 1;
        Some(FrameShare { page: 0, set: share.set })
    }

    /// Returns the frames that the area at `page` shows.
    pub(crate) fn frames(&self, page: u64) -> Option<&[Frame]> {
        Some(&self.sets.get(self.shown.get(&page)?)?.frames)
    }

    /// Returns a copy of the frames that the area at `page` shows; `None` when memory is short.
    pub(crate) fn copy(&self, page: u64) -> Option<Vec<Frame>> {
        copy(self.frames(page)?)
    }

    /// Has the area at `page` show the set of `share` as well. Returns false when memory is short.
    pub(crate) fn show(&mut self, share: &FrameShare, page: u64) -> bool {
        self.show_set(share.set, page)
    }

    /// Has the area at `other` show the set that the area at `page` shows. Returns false when
    /// memory is short.
    pub(crate) fn share(&mut self, page: u64, other: u64) -> bool {
        self.shown.get(&page).copied().is_some_and(|set| self.show_set(set, other))
    }

    fn show_set(&mut self, set: u64, page: u64) -> bool {
        let fits = self.shown.try_reserve(1).is_ok() && self.make_room();
        if let Some(known) = self.sets.get_mut(&set).filter(|_| fits) {
            known.shares += 1;
            self.shown.insert(page, set);
        }
        fits
    }

    /// Takes the share of the area at `page` out, if it has one.
    pub(crate) fn leave(&mut self, page: u64) -> Option<FrameShare> {
        self.shown.remove(&page).map(|set| FrameShare { page, set })
    }

    /// Makes room for one more share on either list. Returns false when memory is short.
    fn make_room(&mut self) -> bool {
        let room = self.shown.len() + self.handles + 1;
        self.released.try_reserve(room).is_ok() && self.returned.try_reserve(room).is_ok()
    }

    /// Lets a purge end a share that flushes the area which was freed at `page`.
    pub(crate) fn release(&mut self, share: FrameShare, page: u64) {
        self.released.push_back((share, page));
    }

    /// Lets a purge end the share of a part of a tenant that flushes all returned parts.
    pub(crate) fn release_returned(&mut self, share: FrameShare) {
        self.returned.push_back(share);
    }

    /// Returns how many shares wait for a flush: those of areas, and of parts of tenants.
    pub(crate) fn waiting(&self) -> [usize; 2] {
        [self.released.len(), self.returned.len()]
    }

    /// Ends the share that was released first, unless its area is refused. Returns the set, if that
    /// was its last.
    pub(crate) fn settle(&mut self, is_refused: impl Fn(u64) -> bool) -> Option<FrameSet<P>> {
        let (share, page) = self.released.pop_front()?;
        if is_refused(page) {
            self.released.push_back((share, page));
            return None;
        }
        self.end(share)
    }

    /// Ends the share of the part that was returned first. Returns the set, if that was its last.
    pub(crate) fn settle_returned(&mut self) -> Option<FrameSet<P>> {
        let share = self.returned.pop_front()?;
        self.end(share)
    }

    /// Takes the share back that the area at `page` has just left with: it was not freed. Another
    /// area may have taken the room that it left. Without memory for more, its frames stay taken.
    pub(crate) fn stay(&mut self, share: FrameShare) {
        if self.shown.try_reserve(1).is_ok() {
            self.shown.insert(share.page, share.set);
        }
    }

    /// Ends a share. Returns the set, if that was its last.
    pub(crate) fn end(&mut self, share: FrameShare) -> Option<FrameSet<P>> {
        self.handles -= usize::from(share.page == 0);
        let set = self.sets.get_mut(&share.set)?;
        set.shares -= 1;
        if set.shares > 0 { None } else { self.sets.remove(&share.set) }
    }

    pub(crate) fn bytes(&self) -> usize {
        let frames: usize = self.sets.values().map(|set| size_of_val(&*set.frames)).sum();
        self.shown.allocation_size()
            + self.sets.allocation_size()
            + frames
            + self.released.capacity() * size_of::<(FrameShare, u64)>()
            + self.returned.capacity() * size_of::<FrameShare>()
    }
}

/// Returns a copy of `frames`; `None` when memory is short.
pub(crate) fn copy(frames: &[Frame]) -> Option<Vec<Frame>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(frames.len()).ok()?;
    copy.extend_from_slice(frames);
    Some(copy)
}
