//! The states of an area: claimed, busy, retired.
//!
//! ```text
//!   free ── claim ──► claimed ── hand out ──► busy ── retire ──► retired ── release ──► free
//!                        ▲                                          │
//!                        └───────────── taken from a node ◄─────────┘   (claimed and retired are one
//!                                                                        state of the map: not busy)
//! ```

use super::annotations::ZONE_SHIFT;
use super::{Annotation, Areas, FreedBy, HeldMap, Kind, Table};
use crate::PageRange;
use crate::sync::{Mutant, is};
use crate::{FitError, FreeError};
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::NoArea;
use vmalloc_map::parts::Leaf;

/// The fate of the memory of a freed area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// It may be cached for reuse.
    MayCache,
    /// It has to be unmapped, or there is none.
    MustUnmap,
}

/// An area out of use, on its way to a list.
pub(crate) struct Retired {
    pub(crate) area: PageRange,
    /// The node that owns it, if its leaf is dense enough for a pool.
    pub(crate) owner_node: Option<usize>,
    pub(crate) disposition: Disposition,
    /// The facts that were known of it.
    pub(crate) annotation: Annotation,
}

impl<L: RawMutex> Areas<L> {
    /// Enters the annotation of a claimed area, if it is not plain, and makes the area busy, under
    /// the lock of the annotation's table. Returns `None`, and changes nothing, when memory is
    /// short, and whether the area was claimed otherwise.
    pub(crate) fn hand_out(&self, area: PageRange, annotation: Annotation) -> Option<bool> {
        if annotation.is_plain(self.guard) {
            return Some(self.make_busy(area.start()));
        }
        self.annotate(area, annotation)
    }

    /// Enters the annotation of a claimed area and makes the area busy. See
    /// [`hand_out`](Self::hand_out).
    #[inline(never)]
    pub(crate) fn annotate(&self, area: PageRange, annotation: Annotation) -> Option<bool> {
        let start = area.start();
        let mut was_claimed = true;
        if is(Mutant::LateNote) {
            was_claimed = self.make_busy(start);
        }
        let mut table = self.table(start);
        if !table.enter(start, &annotation) {
            return None;
        }
        // The mark changes under the table's lock, as when the last annotation beside it goes.
        self.with_leaf(start, |leaf| {
            leaf.annotation_entered(start);
            if !is(Mutant::LateNote) {
                was_claimed = leaf.make_busy(start);
            }
        });
        Some(was_claimed)
    }

    /// Makes a claimed area busy. Returns whether it was claimed.
    pub(crate) fn make_busy(&self, start: u64) -> bool {
        self.with_leaf(start, |leaf| leaf.make_busy(start))
    }

    /// Makes a retired area of a dense leaf busy. Returns whether it was one.
    #[inline(always)]
    pub(crate) fn revive(&self, start: u64) -> bool {
        match self.bitmaps.home(start) {
            Some(leaf) => self.bitmaps.revive(leaf, start),
            None => self.revive_slow(start),
        }
    }

    /// Makes a retired area busy that is not among the first leaves.
    #[inline(never)]
    fn revive_slow(&self, start: u64) -> bool {
        self.bitmaps.sure_home(start).is_some_and(|leaf| self.bitmaps.revive(leaf, start))
    }

    /// Locks the table of the annotation of the area at `page`.
    pub(crate) fn table(&self, page: u64) -> MutexGuard<'_, L, Table> {
        self.table_of(page).lock()
    }

    /// Locks the table of the annotation of the area at `page`, unless it is held.
    pub(crate) fn try_table(&self, page: u64) -> Option<MutexGuard<'_, L, Table>> {
        self.table_of(page).try_lock()
    }

    fn table_of(&self, page: u64) -> &Mutex<L, Table> {
        &self.tables[((page >> ZONE_SHIFT) % self.tables.len() as u64) as usize].0
    }

    /// Locks all tables, in order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = MutexGuard<'_, L, Table>> {
        self.tables.iter().map(|table| table.0.lock())
    }

    /// Takes an area that `by` frees out of use, and its annotation. It locks the map by `map`
    /// where it has to, once. If that is not to be had, the answer is [`FreeError::Contended`]. No
    /// lock is waited for here.
    pub(crate) fn retire<'a>(
        &'a self,
        mut table: MutexGuard<'_, L, Table>,
        page: u64,
        by: FreedBy,
        map: impl FnOnce() -> Option<HeldMap<'a, L>>,
    ) -> Result<Retired, FreeError> {
        let annotation = table.get(page).unwrap_or(self.plain());
        let home = self.bitmaps.sure_home(page);
        let mut held = None;
        let area = match home.filter(|leaf| self.bitmaps.is_busy(leaf, page)) {
            Some(_) if annotation.kind.freed() != by => Err(NoArea::Busy { page }),
            Some(leaf) => self.bitmaps.retire(leaf, page).ok_or(NoArea::Retired { page }),
            None => {
                let contended = FreeError::Contended { addr: (page << self.shift) as usize };
                let map = held.insert(map().ok_or(contended)?);
                map.retire_area(page, |_| annotation.kind.freed() == by)
            }
        };
        let area = area.map_err(|error| FreeError::of(error, self.shift))?;
        if table.remove(area) {
            // Without a home it took the map.
            let leaf = home.or_else(|| held.as_ref().map(|map| map.leaf(page)));
            leaf.into_iter().for_each(|leaf| leaf.annotations_left(page));
        }
        // Only areas with the usual guard are cached: every area of a size can then stand in for
        // every other.
        let is_usual = annotation.guard_pages == u64::from(self.guard) && annotation.kind == Kind::Vmalloc;
        let disposition = if is_usual { Disposition::MayCache } else { Disposition::MustUnmap };
        let owner_node = home.and_then(Leaf::owner_node);
        Ok(Retired { area, owner_node, disposition, annotation })
    }

    /// Frees a busy area that got no memory, and its annotation. Nothing was mapped, so there is
    /// nothing to flush.
    #[cold]
    pub(crate) fn give_up(&self, area: PageRange, annotation: Annotation) -> Result<(), NoArea> {
        let page = area.start();
        let mut table = (!annotation.is_plain(self.guard)).then(|| self.table(page));
        let mut map = self.map();
        map.retire(page)?;
        if table.as_mut().is_some_and(|table| table.remove(area)) {
            map.leaf(page).annotations_left(page);
        }
        map.release(page)?;
        Ok(())
    }

    /// Releases claimed or retired areas.
    pub(crate) fn release(&self, areas: &[PageRange]) -> Result<(), NoArea> {
        let mut map = self.map();
        for area in areas {
            map.release(area.start())?;
        }
        Ok(())
    }

    /// Makes the free pages of `area` a busy area with this annotation.
    pub(crate) fn make_at(&self, area: PageRange, annotation: &Annotation) -> Result<(), FitError> {
        let (page, mut table) = (area.start(), self.table(area.start()));
        let mut map = self.map();
        map.alloc_at(area)?;
        if !table.enter(page, annotation) {
            // It was just made.
            let _ = map.free(page);
            return Err(FitError::Metadata);
        }
        map.leaf(page).annotation_entered(page);
        Ok(())
    }

    /// Claims the pages behind a busy area, which grows by them when they are
    /// [joined](crate::wait::Borders::join) to it.
    pub(crate) fn claim_behind(&self, pages: PageRange) -> Result<(), FitError> {
        let mut map = self.map();
        map.alloc_at(pages)?;
        map.leaf(pages.start()).withhold(pages.start());
        Ok(())
    }

    /// Removes the annotation of an area that is busy no more, and is in no list yet.
    pub(crate) fn forget_annotation(&self, area: PageRange) {
        let page = area.start();
        if self.table(page).remove(area) {
            self.with_leaf(page, |leaf| leaf.annotations_left(page));
        }
    }

    /// Sets the cookie of a busy area, whose owner asks for it. Returns false, and changes nothing,
    /// when memory is short.
    pub(crate) fn set_cookie(&self, page: u64, cookie: u64) -> bool {
        let mut table = self.table(page);
        if table.set_cookie(page, cookie) {
            return true;
        }
        let is_entered = table.enter(page, &Annotation { cookie, ..self.plain() });
        if is_entered {
            self.with_leaf(page, |leaf| leaf.annotation_entered(page));
        }
        is_entered
    }

    /// Does something with the leaf in which the area at `page` starts.
    pub(crate) fn with_leaf<T>(&self, page: u64, change: impl FnOnce(&Leaf) -> T) -> T {
        match self.bitmaps.sure_home(page) {
            Some(leaf) => change(leaf),
            None => change(self.map().leaf(page)),
        }
    }
}
