//! The states of an area: claimed, busy, retired.
//!
//! ```text
//!   free ── claim ──► claimed ── hand out ──► busy ── retire ──► retired ── release ──► free
//!                        ▲                                          │
//!                        └───────────── taken from a node ◄─────────┘   (claimed and retired are one
//!                                                                        state of the map: not busy)
//! ```

use super::annotations::ZONE_SHIFT;
use super::{Annotation, Areas, Blocking, Entry, FreedBy, HeldMap, Kind, Table};
use crate::PageRange;
use crate::{FitError, FreeError};
use alloc::boxed::Box;
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::NoArea;
use vmalloc_map::parts::{Leaf, Note};

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
    /// Where they were, to be dropped once no lock is held.
    pub(crate) entry: Option<Box<Entry>>,
}

/// An area out of use, its annotation, and where that was.
type Out = (PageRange, Annotation, Option<Box<Entry>>);

impl<L: RawMutex> Areas<L> {
    /// Enters the annotation of a claimed area, if it is not plain, and makes the area busy. Takes no
    /// memory for an area that was just retired, with the entry that it had. Returns `None`, and
    /// changes nothing, when memory is short, and whether the area was claimed otherwise. The caller
    /// holds no lock.
    #[inline]
    pub(crate) fn hand_out(
        &self,
        page: u64,
        annotation: &Annotation,
        entry: Option<Box<Entry>>,
    ) -> Option<bool> {
        if annotation.is_plain(self.guard) {
            return Some(self.make_busy(page));
        }
        self.annotate(page, annotation, entry)
    }

    /// Enters an annotation, as a note or with one, and makes the area busy. Its entry is made here
    /// unless there is one.
    #[inline(never)]
    fn annotate(&self, page: u64, annotation: &Annotation, entry: Option<Box<Entry>>) -> Option<bool> {
        let note = annotation.note(self.guard);
        let home = self.bitmaps.sure_home(page);
        if let Some(leaf) = home {
            self.bitmaps.reach_note(page).ok()?;
            if note.facts != Annotation::TABLED {
                self.bitmaps.enter_note(leaf, page, note);
                return Some(leaf.make_busy(page));
            }
        }
        let entry = if entry.is_some() { entry } else { Some(Entry::new(page, annotation).ok()?) };
        let mut table = self.table(page);
        let unused = entry.and_then(|entry| table.enter(entry));
        match home {
            Some(leaf) => _ = self.bitmaps.enter_note(leaf, page, note),
            None => self.with_leaf(page, Leaf::note_entered),
        }
        let was_claimed = self.make_busy(page);
        drop(table);
        drop(unused);
        Some(was_claimed)
    }

    /// Returns the fate of the memory of an area with this note that `by` frees, if it shows no
    /// frames and is in no table.
    #[inline]
    pub(crate) fn simple(&self, note: Note, by: FreedBy) -> Option<Disposition> {
        if note.facts == 0 {
            return by.frees(Kind::Vmalloc).then_some(Disposition::MayCache);
        }
        let kind = Annotation::of_note(note, self.guard)?.kind;
        (by.frees(kind) && !kind.may_show_frames()).then_some(Disposition::MustUnmap)
    }

    /// Returns the fate of the memory of an area. Only areas with the usual guard are cached: every
    /// area of a size can then stand in for every other.
    fn disposition(&self, known: &Annotation) -> Disposition {
        let is_usual = known.guard_pages == u64::from(self.guard) && known.kind == Kind::Vmalloc;
        if is_usual { Disposition::MayCache } else { Disposition::MustUnmap }
    }

    /// Returns whether there is a note at `page`.
    pub(crate) fn has_note(&self, page: u64) -> bool {
        let home = self.bitmaps.sure_home(page);
        home.is_some_and(|leaf| self.bitmaps.note(leaf, page) != Note::default())
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

    /// Locks the table of the annotation of the area at `page`; if it may not wait, unless that is
    /// held.
    pub(super) fn table_as(&self, page: u64, blocking: Blocking) -> Option<MutexGuard<'_, L, Table>> {
        match blocking {
            Blocking::Allowed => Some(self.table(page)),
            Blocking::Forbidden => self.table_of(page).try_lock(),
        }
    }

    /// Locks the map in the same way.
    pub(super) fn map_as(&self, blocking: Blocking) -> Option<HeldMap<'_, L>> {
        match blocking {
            Blocking::Allowed => Some(self.map()),
            Blocking::Forbidden => self.try_map(),
        }
    }

    fn table_of(&self, page: u64) -> &Mutex<L, Table> {
        &self.tables[((page >> ZONE_SHIFT) % self.tables.len() as u64) as usize].0
    }

    /// Locks all tables, in order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = MutexGuard<'_, L, Table>> {
        self.tables.iter().map(|table| table.0.lock())
    }

    /// Takes an area that `by` frees out of use, and its annotation. Where it would have to wait
    /// for a lock and may not, the answer is [`FreeError::Contended`].
    pub(crate) fn retire(&self, page: u64, by: FreedBy, blocking: Blocking) -> Result<Retired, FreeError> {
        let (retired, home) = match self.bitmaps.sure_home(page) {
            Some(leaf) => (self.retire_near(leaf, page, by, blocking), leaf.owner_node()),
            None => (self.retire_far(page, by, blocking), None),
        };
        let (area, annotation, entry) = retired.map_err(|error| match error {
            Some(error) => FreeError::of(error, self.shift),
            None => FreeError::Contended { addr: (page << self.shift) as usize },
        })?;
        let disposition = self.disposition(&annotation);
        Ok(Retired { area, owner_node: home, disposition, annotation, entry })
    }

    /// Retires an area in a dense leaf. A table is locked where the note says so. No error stands
    /// for a lock that is held.
    fn retire_near(
        &self,
        leaf: &Leaf,
        page: u64,
        by: FreedBy,
        blocking: Blocking,
    ) -> Result<Out, Option<NoArea>> {
        let note = self.bitmaps.note(leaf, page);
        let known = Annotation::of_note(note, self.guard);
        let mut table = if known.is_none() { Some(self.table_as(page, blocking).ok_or(None)?) } else { None };
        let tabled = || table.as_ref().and_then(|table| table.get(page));
        let known = known.or_else(tabled).unwrap_or(self.plain());
        if !self.bitmaps.is_busy(leaf, page) {
            let map = self.map_as(blocking).ok_or(None)?;
            // Busy now, of which another thread made an area meanwhile.
            return Err(Some(map.retire_area(page, |_| false).err().unwrap_or(NoArea::Retired { page })));
        }
        if !by.frees(known.kind) {
            return Err(Some(NoArea::Busy { page }));
        }
        let area = self.bitmaps.retire(leaf, page).ok_or(Some(NoArea::Retired { page }))?;
        let note = self.bitmaps.take_note(leaf, page);
        let entry = table.as_mut().and_then(|table| table.take_out(page, blocking));
        Ok((area, Annotation::of_note(note, self.guard).unwrap_or(known), entry))
    }

    /// Retires an area that is found by the map alone.
    fn retire_far(&self, page: u64, by: FreedBy, blocking: Blocking) -> Result<Out, Option<NoArea>> {
        let mut table = self.table_as(page, blocking).ok_or(None)?;
        let annotation = table.get(page).unwrap_or(self.plain());
        let map = self.map_as(blocking).ok_or(None)?;
        let area = map.retire_area(page, |_| by.frees(annotation.kind)).map_err(Some)?;
        Ok((area, annotation, table.take_out(page, blocking)))
    }

    /// Frees a busy area that got no memory, and its annotation. Nothing was mapped, so there is
    /// nothing to flush.
    #[cold]
    pub(crate) fn give_up(&self, area: PageRange, by: FreedBy) -> Result<(), FreeError> {
        self.retire(area.start(), by, Blocking::Allowed)?;
        self.release(&[area]).map_err(|error| FreeError::of(error, self.shift))
    }

    /// Releases claimed or retired areas.
    pub(crate) fn release(&self, areas: &[PageRange]) -> Result<(), NoArea> {
        let mut map = self.map();
        for area in areas {
            map.release(area.start())?;
        }
        Ok(())
    }

    /// Claims free pages: an area of its own, or what a busy area in front of them grows by when it
    /// is [joined](crate::wait::Borders::join).
    pub(crate) fn claim_at(&self, pages: PageRange) -> Result<(), FitError> {
        self.change(|map| {
            map.alloc_at(pages)?;
            map.leaf(pages.start()).withhold(pages.start());
            Ok(())
        })
    }

    /// Removes the annotation of an area that is busy no more, and is in no list yet.
    pub(crate) fn forget_annotation(&self, page: u64) {
        let note = self.bitmaps.sure_home(page).map(|leaf| self.bitmaps.take_note(leaf, page));
        if note.is_none_or(|note| Annotation::of_note(note, self.guard).is_none()) {
            let entry = self.table(page).remove(page);
            drop(entry);
        }
    }

    /// Sets the record of a busy area, whose owner asks for it. Returns false, and changes nothing,
    /// when memory is short. The caller holds no lock.
    pub(crate) fn set_record(&self, page: u64, record: u64) -> bool {
        if let Some(leaf) = self.bitmaps.sure_home(page) {
            let note = self.bitmaps.note(leaf, page);
            if Annotation::of_note(note, self.guard).is_some() {
                let has_place = self.bitmaps.reach_note(page).is_ok();
                return has_place && self.bitmaps.enter_note(leaf, page, Note { record, ..note });
            }
        }
        if self.table(page).set_record(page, record) {
            return true;
        }
        let Ok(entry) = Entry::new(page, &Annotation { record, ..self.plain() }) else { return false };
        let unused = self.table(page).enter(entry);
        drop(unused);
        self.with_leaf(page, Leaf::note_entered);
        true
    }

    /// Does something with the leaf in which the area at `page` starts.
    pub(crate) fn with_leaf<T>(&self, page: u64, change: impl FnOnce(&Leaf) -> T) -> T {
        match self.bitmaps.sure_home(page) {
            Some(leaf) => change(leaf),
            None => change(self.map().leaf(page)),
        }
    }
}
