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
        Self { sets: Mutex::new(Sets::new()) }
    }

    /// Locks the sets, with room for one more, or for one more share of one. `None` when memory is
    /// short. The heap is called without the lock.
    pub(crate) fn lock_with_room(&self) -> Option<MutexGuard<'_, L, Sets<P>>> {
        let mut sets = self.lock();
        while !sets.has_room(&sets) {
            let [shown, own, shares] = [sets.shown.len(), sets.sets.len(), sets.shares()];
            let mut more = MutexGuard::unlocked(&mut sets, || Sets::with_room(shown, own, shares))?;
            if sets.has_room(&more) {
                sets.move_to(&mut more);
            }
            MutexGuard::unlocked(&mut sets, || drop(more));
        }
        Some(sets)
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
        let Some(mut sets) = self.lock_with_room() else {
            give(platform, &frames);
            return None;
        };
        Some(sets.enter(frames, give))
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
    fn new() -> Self {
        let (shown, sets) = (HashMap::new(), HashMap::new());
        let (released, returned) = (VecDeque::new(), VecDeque::new());
        Self { shown, sets, released, returned, handles: 0, next: 0 }
    }

    /// Makes lists with room for twice as much, or for a few.
    fn with_room(shown: usize, sets: usize, shares: usize) -> Option<Self> {
        let [shown, sets, shares] = [shown, sets, shares].map(|count| (2 * count).max(4));
        let mut new = Self::new();
        new.shown.try_reserve(shown).ok()?;
        new.sets.try_reserve(sets).ok()?;
        new.released.try_reserve(shares).ok()?;
        new.returned.try_reserve(shares).ok()?;
        Some(new)
    }

    /// Returns how many places either list of shares has to have for those that wait there, for all
    /// others, and for one more.
    fn shares(&self) -> usize {
        self.released.len().max(self.returned.len()) + self.shown.len() + self.handles + 1
    }

    /// Returns whether the lists of `other` are long enough for these, and for one more.
    fn has_room(&self, other: &Self) -> bool {
        other.shown.capacity() > self.shown.len()
            && other.sets.capacity() > self.sets.len()
            && other.released.capacity().min(other.returned.capacity()) >= self.shares()
    }

    /// Goes on in longer lists, which become those that were.
    fn move_to(&mut self, longer: &mut Self) {
        longer.shown.extend(self.shown.drain());
        longer.sets.extend(self.sets.drain());
        longer.released.append(&mut self.released);
        longer.returned.append(&mut self.returned);
        (longer.handles, longer.next) = (self.handles, self.next);
        core::mem::swap(self, longer);
    }

    /// Enters a set with one share, that of its handle. There is room for it.
    fn enter(&mut self, frames: Box<[Frame]>, give: fn(&P, &[Frame])) -> FrameShare {
        self.handles += 1;
        let set = self.next;
        self.next += 1;
        self.sets.insert(set, FrameSet { frames, shares: 1, give });
        FrameShare { page: 0, set }
    }

    /// Returns one more share without an area, for which there is room.
    pub(crate) fn again(&mut self, share: &FrameShare) -> Option<FrameShare> {
        self.sets.get_mut(&share.set)?.shares += 1;
        self.handles += 1;
        Some(FrameShare { page: 0, set: share.set })
    }

    /// Returns the frames that the area at `page` shows.
    pub(crate) fn frames(&self, page: u64) -> Option<&[Frame]> {
        Some(&self.sets.get(self.shown.get(&page)?)?.frames)
    }

    /// Has the area at `page` show the set of `share` as well. There is room for that.
    pub(crate) fn show(&mut self, share: &FrameShare, page: u64) {
        self.show_set(share.set, page);
    }

    /// Has the area at `other` show the set that the area at `page` shows. There is room for that.
    pub(crate) fn share(&mut self, page: u64, other: u64) {
        if let Some(&set) = self.shown.get(&page) {
            self.show_set(set, other);
        }
    }

    fn show_set(&mut self, set: u64, page: u64) {
        if let Some(known) = self.sets.get_mut(&set) {
            known.shares += 1;
            self.shown.insert(page, set);
        }
    }

    /// Takes the share of the area at `page` out, if it has one.
    pub(crate) fn leave(&mut self, page: u64) -> Option<FrameShare> {
        self.shown.remove(&page).map(|set| FrameShare { page, set })
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

    /// Takes the share back that the area at `page` has just left with: it was not freed. There is
    /// room for it.
    pub(crate) fn stay(&mut self, share: FrameShare) {
        self.shown.insert(share.page, share.set);
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
