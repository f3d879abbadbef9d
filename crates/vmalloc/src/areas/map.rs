//! The area map under its lock: the state that all nodes share.

use super::Areas;
use crate::wait::{Apart, Borders, list};
use crate::{PageRange, SpaceError};
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::Relaxed;
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::parts::{Bitmaps, Lack, Leaf, Lent};
use vmalloc_map::{AreaMap, NoArea, State};

/// The area map under its lock. Its first use by `&mut` begins a change, which lasts until the lock
/// is released: threads that read the bitmaps without the lock learn of that, and of nothing else.
pub(crate) struct HeldMap<'a, L: RawMutex> {
    map: MutexGuard<'a, L, Mapped>,
    bitmaps: &'a Bitmaps<'static>,
    is_changing: bool,
}

/// The area map, and what is known of those that take areas of it.
pub(super) struct Mapped {
    pub(super) areas: AreaMap<'static>,
    takers: Box<[Taker]>,
    /// Areas that were placed so far.
    placed: u64,
    /// The most pages that were not free then.
    peak: u64,
}

/// A node as the map sees it.
#[derive(Default)]
pub(crate) struct Taker {
    /// The leaf that this node got when it would have had to share another's.
    pub(crate) own_leaf: Option<PageRange>,
    /// Pages that it takes in one go.
    pub(crate) run: u64,
}

impl Mapped {
    /// Returns a map of `span` for so many nodes, with its lock.
    pub(super) fn new<L: RawMutex>(
        span: PageRange,
        flat: Option<Lent<'static, Leaf>>,
        nodes: usize,
    ) -> Result<Apart<Mutex<L, Self>>, SpaceError> {
        let takers = list(nodes, Taker::default)?;
        let mut areas = AreaMap::on_heap(span, flat).map_err(|_| SpaceError::Metadata)?;
        areas.ask_for_memory();
        Apart::new(|| Mutex::new(Self { areas, takers, placed: 0, peak: 0 }))
    }
}

impl<L: RawMutex> Areas<L> {
    /// Locks the map.
    pub(crate) fn map(&self) -> HeldMap<'_, L> {
        HeldMap { map: self.map.lock(), bitmaps: &self.bitmaps, is_changing: false }
    }

    /// Locks the map unless it is held.
    pub(crate) fn try_map(&self) -> Option<HeldMap<'_, L>> {
        self.map.try_lock().map(|map| HeldMap { map, bitmaps: &self.bitmaps, is_changing: false })
    }

    /// Changes the map, and where that lacks memory, again with more. The caller holds no raw lock.
    pub(crate) fn change<T, E>(
        &self,
        mut act: impl FnMut(&mut HeldMap<'_, L>) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let mut map = self.map();
            let result = act(&mut map);
            // While the map is held: else another thread might take it.
            let lack = result.as_ref().err().and_then(|_| map.take_lack());
            drop(map);
            if !self.supply(lack) {
                return result;
            }
        }
    }

    /// Takes memory for the map that a change has lacked. Returns whether it has some more.
    pub(crate) fn supply(&self, lack: Option<Lack>) -> bool {
        let Some(Ok(mut nodes)) = lack.map(|lack| lack.take(&self.bitmaps)) else { return false };
        self.map().map.areas.supply(&mut nodes);
        true
    }

    /// Takes the memory that a change has lacked whose caller held other locks. Returns whether the
    /// map has some more.
    pub(crate) fn supply_late(&self) -> bool {
        let is_due = self.is_short.load(Relaxed) && self.is_short.swap(false, Relaxed);
        let lack = if is_due { self.map().take_lack() } else { None };
        self.supply(lack)
    }
}

impl<L: RawMutex> Borders for Areas<L> {
    fn cut(&self, whole: PageRange, part: PageRange) -> bool {
        let is_cut = self.map().cut_retired(whole, part);
        if !is_cut {
            self.is_short.store(true, Relaxed);
        }
        is_cut
    }

    fn join(&self, page: u64) {
        self.map().join_area(page);
    }
}

impl<L: RawMutex> HeldMap<'_, L> {
    /// Returns the map to take areas of, and what it knows of node `id`.
    pub(crate) fn taker(&mut self, id: usize) -> (&mut AreaMap<'static>, &mut Taker) {
        self.begin_change();
        let Mapped { areas, takers, .. } = &mut *self.map;
        (areas, &mut takers[id])
    }

    /// Takes the note of the memory that a change has lacked.
    #[inline(always)]
    pub(crate) fn take_lack(&mut self) -> Option<Lack> {
        self.map.areas.take_lack()
    }

    fn begin_change(&mut self) {
        if !core::mem::replace(&mut self.is_changing, true) {
            self.bitmaps.begin_change();
        }
    }

    /// Counts an area that was placed. Returns the pages that are not free.
    pub(crate) fn count_placed(&mut self) -> u64 {
        let used = self.span().len() - self.free_pages();
        (self.map.placed, self.map.peak) = (self.map.placed + 1, self.map.peak.max(used));
        used
    }

    /// Returns how many areas were placed so far, and the most pages that were not free then.
    pub(crate) fn placed(&self) -> (u64, u64) {
        (self.map.placed, self.map.peak)
    }

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
        &self.map.areas
    }
}

impl<L: RawMutex> DerefMut for HeldMap<'_, L> {
    fn deref_mut(&mut self) -> &mut AreaMap<'static> {
        self.begin_change();
        &mut self.map.areas
    }
}
