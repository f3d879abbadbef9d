//! Freeing where nothing may be waited for.

use super::Raw;
use super::purging::Purge;
use super::told::URGENT;
use crate::FreeError;
use crate::PageRange;
use crate::areas::{Blocking, FreedBy};
use crate::platform::{DirectMemory, Platform};
use crate::sync::word_at;
use crate::wait::make_lazy_room;
use core::sync::atomic::Ordering::Relaxed;
use vmalloc_map::State;
use vmalloc_map::parts::Leaf;

impl<P: DirectMemory> Raw<'_, P> {
    /// Frees memory as [`free`](Self::free) does, but never waits, takes no memory, and creates
    /// nothing: for interrupts, signal handlers, and wherever a lock is held that the heap or this
    /// space may want. O(1).
    ///
    /// This and [`try_find`](super::Space::try_find) are the only calls of a space that a signal handler may make.
    /// All others, [`free`](Self::free) and the drop of a [`Buffer`](crate::Buffer) among them,
    /// take locks that the interrupted thread may hold.
    ///
    /// The memory is unmapped by the next purge, and the background drain of this space is woken
    /// for that. Where there is none to be woken, the next allocation or free on the slow path asks
    /// the platform for a drain; until such a call comes, the memory stays. A program that makes
    /// none calls [`drain`](super::Space::drain) or [`purge`](super::Space::purge) where it may wait.
    ///
    /// # Safety
    /// As for `free`.
    ///
    /// # Errors
    /// [`FreeError`]; nothing is changed. [`FreeError::Contended`] when it would take a lock that
    /// is held: for an area with a tag, limits, no guard or frames, or far out in a sparse span; or
    /// when the list for such areas is full. Then it has to be tried again, after a purge.
    #[doc(alias = "vfree_atomic")]
    pub unsafe fn free_atomic(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.space.page(addr)?;
        let bitmaps = &self.space.areas.bitmaps;
        let plain = |leaf: &&Leaf| bitmaps.note(leaf, page).facts == 0;
        let area = match bitmaps.sure_home(page).filter(plain) {
            Some(leaf) => bitmaps.retire(leaf, page).inspect(|_| _ = bitmaps.take_note(leaf, page)),
            None => None,
        };
        let Some(area) = area else { return self.try_free(page) };
        self.space.deferred.count(area.len());
        // SAFETY: a plain area has memory from its first page on (`DirectMemory`), aligned to a
        // page. It was just retired, so no other caller frees it or hands it out, and its owner has
        // given it up.
        unsafe { self.space.deferred.enter(addr) };
        self.space.tell_later();
        Ok(())
    }
}

impl<P: Platform> Purge<'_, P> {
    /// Takes all deferred areas. Without memory for them they stay.
    pub(super) fn take_deferred(&mut self) {
        let (space, list) = (self.space, self.purger.list());
        if space.deferred.last() == 0 {
            return;
        }
        let mut addr = space.deferred.take();
        while addr != 0 {
            let page = (addr >> space.shift()) as u64;
            // SAFETY: only `free_atomic` enters areas, so this platform's memory is direct, and the
            // area begins with the word that was written there. It is mapped until the holder of
            // the purger has unmapped it.
            let before = unsafe { word_at(addr) };
            let Some(area) = space.areas.map().retired(page) else {
                space.platform.fatal(&"a deferred area is gone")
            };
            if list.try_reserve(1).is_ok() {
                list.push(area);
                space.deferred.count_off(area.len());
                space.count_taken(usize::MAX, 1, area.len());
            } else {
                // SAFETY: as when it was entered first; it has just been taken out, and has no
                // other owner.
                unsafe { space.deferred.enter(addr) };
                space.told.store(URGENT, Relaxed);
            }
            addr = before;
        }
    }

    /// Makes areas lazy that are neither busy nor in a list, in a child of a fork. Another thread
    /// had claimed them and not yet handed them out, or had retired them and not yet entered them.
    /// O(leaves), and O(areas) if there are such areas.
    pub(super) fn repair_retired(&self) {
        let (space, mut areas, mut pages) = (self.space, 0, 0);
        self.each_deferred(|area| (areas, pages) = (areas + 1, pages + area.len()));
        space.deferred.set_counts(areas, pages);
        let mut listed = areas;
        self.each_taken(|_| listed += 1);
        let nodes = space.cache.each().map(|node| node.areas()).sum::<u64>()
            + space.cache.stock.lock().iter().len() as u64;
        if space.areas.map().idle_areas() != listed + nodes {
            self.find_retired();
        }
    }

    /// Makes all areas that are retired and in no list lazy. It takes memory for them alone: the
    /// areas in a list are busy meanwhile, so the areas that are still retired then are in none.
    fn find_retired(&self) {
        let space = self.space;
        self.each_listed(|area| {
            space.sure(space.areas.map().revive(area.start()));
        });
        for lost in space.segments().filter(|segment| segment.state == State::Retired) {
            // Its owner had entered its note, or not yet taken it.
            space.areas.forget_annotation(lost.range.start());
            let mut node = space.cache.nodes[0].lock();
            if make_lazy_room(&mut node) {
                node.enter_lazy(lost.range, lost.range.len());
            }
        }
        self.each_listed(|area| {
            // An area that was just found is retired.
            let _ = space.areas.map().retire(area.start());
        });
    }

    /// Calls `act` for all areas that wait in a list.
    fn each_listed(&self, mut act: impl FnMut(PageRange)) {
        self.each_taken(&mut act);
        self.space.cache.each().for_each(|node| node.lazy.iter().copied().for_each(&mut act));
        self.space.cached().for_each(|(area, _)| act(area));
        self.each_deferred(act);
    }

    fn each_deferred(&self, mut act: impl FnMut(PageRange)) {
        let (space, mut addr) = (self.space, self.space.deferred.last());
        while addr != 0 {
            let page = (addr >> space.shift()) as u64;
            let segment = space.areas.map().segments_from(page).next();
            segment.into_iter().for_each(|area| act(area.range));
            // SAFETY: as in `take_deferred`.
            addr = unsafe { word_at(addr) };
        }
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Frees by locks, if all of them are free, and only as far as that takes no memory.
    fn try_free(&self, page: u64) -> Result<(), FreeError> {
        let contended = FreeError::Contended { addr: self.space.addr(page) };
        let mut nodes = self.space.cache.nodes.iter();
        let mut node = nodes.find_map(|node| node.try_lock()).ok_or(contended)?;
        if node.lazy.is_full() {
            let found = self.space.areas.try_map().ok_or(contended)?.find(page);
            if found.is_some_and(|area| area.start() == page) {
                return Err(contended);
            }
        }
        let mut sets = self.space.frame_sets.try_lock().ok_or(contended)?;
        let retired = self.space.areas.retire(page, FreedBy::Free, Blocking::Forbidden)?;
        node.enter_lazy(retired.area, retired.area.len());
        if let Some(share) = sets.leave(page) {
            sets.release(share, page);
        }
        drop(node);
        self.space.tell_later();
        Ok(())
    }
}
