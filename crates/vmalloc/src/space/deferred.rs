//! Freeing where nothing may be waited for: in an interrupt, in a signal handler, under somebody else's spin lock.
//!
//! ```text
//!   vfree_atomic ── retire ──► deferred ──► │ area │──►│ area │──►│ area │      a stack through the areas' own first words
//!                                                                   │
//!                        the next purge takes it whole ◄────────────┘
//! ```
//!
//! Retiring is one atomic operation, and so is entering the stack; neither takes a lock or memory. (Linux's `vfree_atomic`
//! does the same with a list of its own and a work queue.)
//!
//! # Who drains
//! The platform is only woken ([`Platform::wake_drain`]): to ask it for a drain could mean to
//! create a thread. That something was freed here is remembered ([`Deferred::unseen`]) until a
//! purge begins. The next call of the space that goes the long way sees it and asks: an allocation
//! that is not served from its CPU's node, or a free that has much to tell. So where a drain takes
//! something that is not there yet, or not there any more in the child of a fork, no request is
//! lost; but nobody asks before such a call comes.

use super::Space;
use super::kind::FreedBy;
use super::node::has_room;
use super::purge::Purger;
use crate::addr::PageRange;
use crate::area_map::State;
use crate::error::FreeError;
use crate::platform::{DirectMemory, DrainReason, Platform};
use crate::sync::{AtomicU8, AtomicU64, AtomicUsize, set_word_at, word_at};
use core::sync::atomic::Ordering;

/// Areas that were retired and are in no list of a node. Their memory is still there.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// The address of the last; 0 = none. The first word of each area holds the address of the one before.
    last: AtomicUsize,
    areas: AtomicU64,
    pages: AtomicU64,
    /// 1 if something was freed here, or in a node by [`Space::try_free`], that no purge has begun
    /// with.
    unseen: AtomicU8,
}

impl Deferred {
    /// Whether nobody may know yet that something was freed.
    #[inline]
    pub(super) fn is_unseen(&self) -> bool {
        // Relaxed: a hint; what it leads to takes locks.
        self.unseen.load(Ordering::Relaxed) != 0
    }

    /// Called after an area was put where a purge finds it.
    fn tell(&self) {
        // Release: pairs with the Acquire in `see`.
        self.unseen.store(1, Ordering::Release);
    }

    /// Called by a purge before it looks for areas.
    pub(super) fn see(&self) {
        if self.is_unseen() {
            // Acquire: pairs with the Release in `tell`: the purge finds what was told of. What is
            // told of later stays unseen.
            let _ = self.unseen.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed);
        }
    }

    pub(super) fn areas(&self) -> u64 {
        self.areas.load(Ordering::Relaxed)
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

impl<P: DirectMemory> Space<P> {
    /// Frees as [`vfree`](Self::vfree) does, but never waits, takes no memory, and creates nothing:
    /// for interrupts, signal handlers, and wherever a lock is held that the heap or this space may
    /// want. O(1).
    ///
    /// This and [`try_find`](Self::try_find) are the only calls of a space that a signal handler
    /// may make. All others, [`vfree`](Self::vfree) and what drops a [`Buffer`](crate::Buffer)
    /// among them, take locks that the interrupted thread may hold.
    ///
    /// The memory is unmapped by the next purge. Whoever drains this space in the background is
    /// woken for that. Where nobody is there to be woken, the next allocation or free that goes the
    /// long way asks the platform for a drain; until such a call comes, the memory stays. A program
    /// that makes none calls [`drain`](Self::drain) or [`purge`](Self::purge) where it may wait.
    ///
    /// # Safety
    /// As for `vfree`.
    ///
    /// # Errors
    /// [`FreeError`]; nothing is changed. [`FreeError::Contended`] when it would take a lock that is held to say whether this
    /// is an area that can be freed: where areas with tags, odd sizes or no guard start within the same 8 pages, or far out in a
    /// sparse span; or when the list for such areas is full. Then it has to be tried again, after a purge.
    pub unsafe fn vfree_atomic(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let area = match self.bitmaps.sure_home(page).filter(|record| !record.may_be_annotated(page)) {
            Some(record) => self.bitmaps.retire(record, page),
            None => None,
        };
        let Some(area) = area else { return self.try_free(page) };
        self.deferred.areas.fetch_add(1, Ordering::Relaxed);
        self.deferred.pages.fetch_add(area.len(), Ordering::Relaxed);
        // SAFETY: a plain area has memory from its first page on (`DirectMemory`), aligned to a page. It was just retired, so
        // nobody else frees it or hands it out, and its owner has given it up.
        unsafe { self.deferred.enter(addr) };
        self.deferred.tell();
        self.platform.wake_drain();
        Ok(())
    }
}

impl<P: Platform> Space<P> {
    /// Asks for a drain of what was freed where nobody could ask. Purges if it is much and nobody
    /// drains, or very much.
    #[cold]
    #[inline(never)]
    pub(super) fn see_to_deferred(&self) {
        let most =
            if self.platform.drain_later(DrainReason::Threshold) { self.lazy_most } else { self.lazy_max };
        // Relaxed: numbers that start work.
        if self.lazy_pages.0.load(Ordering::Relaxed) + self.deferred.pages() > most {
            self.purge_if_idle();
        }
    }

    /// Takes all deferred areas over. Without memory for them they stay.
    pub(super) fn take_deferred(&self, purger: &mut Purger) {
        if self.deferred.last.load(Ordering::Relaxed) == 0 {
            return;
        }
        let remote = purger.remote();
        let mut addr = self.deferred.take();
        while addr != 0 {
            let page = (addr >> self.shift) as u64;
            // SAFETY: only `vfree_atomic` enters areas, so this platform's memory is direct, and the area begins with the word
            // that was written there. It is mapped until the purge that holds the purger has unmapped it.
            let before = unsafe { word_at(addr) };
            let Some(area) = self.map().retired(page) else {
                self.platform.fatal(&"a deferred area is gone")
            };
            if has_room(remote) {
                remote.push(area);
                self.deferred.areas.fetch_sub(1, Ordering::Relaxed);
                self.deferred.pages.fetch_sub(area.len(), Ordering::Relaxed);
                self.count_taken(1, area.len());
            } else {
                // SAFETY: as when it was entered first; it has just been taken out, and nobody else has it.
                unsafe { self.deferred.enter(addr) };
                self.deferred.tell();
            }
            addr = before;
        }
    }

    /// In a child of a fork, where nobody purges: makes areas lazy that are neither busy nor in a list.
    /// Another thread had claimed them and not yet handed them out, or had retired them and not yet
    /// entered them. O(leaves), and O(areas) if there are such areas.
    pub(super) fn mend_retired(&self) {
        let (mut areas, mut pages) = (0, 0);
        self.each_deferred(|area| (areas, pages) = (areas + 1, pages + area.len()));
        self.deferred.pages.store(pages, Ordering::Relaxed);
        self.deferred.areas.store(areas, Ordering::Relaxed);
        let listed = self.purger.0.lock().iter().count() as u64 + areas;
        let nodes = self.nodes.iter().map(|node| node.0.lock().areas()).sum::<u64>();
        if self.map().idle_areas() != listed + nodes {
            self.find_retired();
        }
    }

    /// Makes all areas that are retired and in no list lazy. It takes memory for them alone: those in a
    /// list are busy meanwhile, so the areas that are still retired then are in none.
    fn find_retired(&self) {
        self.each_listed(|area| {
            self.sure(self.map().revive(area.start()));
        });
        for lost in self.segments().filter(|segment| segment.state == State::Retired) {
            let mut node = self.nodes[0].0.lock();
            if has_room(&mut node.lazy.remote) {
                node.lazy.remote.push(lost.range);
                node.unpublished += lost.range.len();
            }
        }
        self.each_listed(|area| {
            // A stray that was just found is retired.
            let _ = self.map().retire(area.start());
        });
    }

    /// Calls `act` for all areas that wait in a list.
    fn each_listed(&self, mut act: impl FnMut(PageRange)) {
        self.purger.0.lock().iter().copied().for_each(&mut act);
        for node in &self.nodes {
            node.0.lock().lazy.iter().copied().for_each(&mut act);
        }
        self.kept().for_each(|(area, _)| act(area));
        self.each_deferred(act);
    }

    fn each_deferred(&self, mut act: impl FnMut(PageRange)) {
        let mut addr = self.deferred.last.load(Ordering::Acquire);
        while addr != 0 {
            let segment = self.map().segments_from((addr >> self.shift) as u64).next();
            segment.into_iter().for_each(|area| act(area.range));
            // SAFETY: as in `take_deferred`: nobody purges.
            addr = unsafe { word_at(addr) };
        }
    }

    /// Frees by locks, if all of them are free, and only as far as that takes no memory.
    fn try_free(&self, page: u64) -> Result<(), FreeError> {
        let contended = FreeError::Contended { page };
        let mut node = self.nodes.iter().find_map(|node| node.0.try_lock()).ok_or(contended)?;
        let table = self.annotations.try_lock(page).ok_or(contended)?;
        let has_room = node.lazy.remote.len() < node.lazy.remote.capacity();
        if !has_room {
            let found = self.try_map().ok_or(contended)?.find(page);
            if found.is_some_and(|area| area.start() == page) {
                return Err(contended);
            }
        }
        let mut lots = self.lots.try_lock().ok_or(contended)?;
        let retired = self.retire_annotated(table, page, FreedBy::Vfree, || self.try_map())?;
        node.lazy.remote.push(retired.area);
        node.unpublished += retired.area.len();
        if let Some(share) = lots.leave(page) {
            lots.bury(share);
        }
        drop(node);
        self.deferred.tell();
        self.platform.wake_drain();
        Ok(())
    }
}

impl Deferred {
    /// Takes the whole stack: the address of the area entered last, or 0.
    fn take(&self) -> usize {
        // Acquire: pairs with the Release in `enter`.
        self.last.swap(0, Ordering::Acquire)
    }

    /// Pushes the area at `addr`.
    ///
    /// # Safety
    /// A word can be written there, and the caller owns it.
    unsafe fn enter(&self, addr: usize) {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise.
            unsafe { set_word_at(addr, last) };
            // Release: who takes the stack sees the word just written.
            match self.last.compare_exchange_weak(last, addr, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => last = other,
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
