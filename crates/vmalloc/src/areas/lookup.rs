//! From an address to its area.

use super::{Annotation, Areas, Kind, Placement, Tag};
use crate::PageRange;
use crate::sync::size;
use core::fmt;
use lock_api::RawMutex;
use thiserror::Error;
use vmalloc_map::parts::Look;

/// The facts of a busy area.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AreaInfo {
    /// Its first address.
    pub addr: usize,
    /// Bytes of its pages: as many as were asked for, or up to a page more. A larger area may also
    /// have been given for them.
    pub bytes: usize,
    /// Pages, the guard not counted.
    pub pages: u64,
    /// True if a guard page follows.
    pub guard: bool,
    /// The purpose of the area.
    pub kind: Kind,
    /// The caller's tag.
    pub tag: Option<Tag>,
    /// The owner's record, or 0: see [`Request::record`](crate::Request::record).
    pub record: u64,
}

impl fmt::Debug for AreaInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, bytes, pages, guard, kind, tag, record } = self;
        f.debug_struct("AreaInfo")
            .field("addr", &format_args!("{addr:#x}"))
            .field("bytes", bytes)
            .field("pages", pages)
            .field("guard", guard)
            .field("kind", kind)
            .field("tag", tag)
            .field("record", record)
            .finish()
    }
}

/// The call would have to wait for a lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a lock of the space is held")]
pub struct Contended;

/// The right of a call to wait: for locks, for a purge, or for notifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocking {
    Allowed,
    Forbidden,
}

/// The facts of a page that are known without its table.
enum Told {
    /// All of it.
    All(Option<AreaInfo>),
    /// The range of its area.
    Range(PageRange),
}

/// How often a look without locks is repeated when the bitmaps were changing: a change takes less
/// than a microsecond.
const LOOKS: usize = size(16, 2) as usize;

impl<L: RawMutex> Areas<L> {
    /// Returns the facts of `area`, whose annotation this is, or which has none. `shift` is the
    /// page shift, which the caller may know as a constant.
    #[inline(always)]
    pub(crate) fn info(&self, area: PageRange, annotation: Option<Annotation>, shift: u32) -> AreaInfo {
        let Annotation { kind, guard_pages, tag, record, .. } = annotation.unwrap_or(self.plain());
        let pages = area.len() - guard_pages;
        let [addr, bytes] = [area.start(), pages].map(|pages| (pages << shift) as usize);
        AreaInfo { addr, bytes, pages, guard: guard_pages != 0, kind, tag, record }
    }

    /// Returns the area that holds `page`. All of the answer was true at one moment during the
    /// call. `shift` is the page shift, which the caller may know as a constant.
    #[inline(always)]
    pub(crate) fn find(&self, page: u64, shift: u32) -> Option<AreaInfo> {
        match self.bitmaps.look_near(page) {
            Some(area) => Some(self.info(area, None, shift)),
            None => self.find_far(page),
        }
    }

    #[inline(never)]
    fn find_far(&self, page: u64) -> Option<AreaInfo> {
        match self.bitmaps.look(page).map(|look| self.told(look)) {
            Ok(Told::All(found)) => found,
            Ok(Told::Range(_)) | Err(_) => self.find_slow(page),
        }
    }

    #[inline(never)]
    fn find_slow(&self, page: u64) -> Option<AreaInfo> {
        loop {
            // It gives up only after other threads have put areas there and freed them again.
            if let Ok(found) = self.find_by_locks(page, Blocking::Allowed) {
                return found;
            }
        }
    }

    /// Returns what a look at the bitmaps tells.
    #[inline]
    fn told(&self, look: Look) -> Told {
        match look {
            Look::Nothing => Told::All(None),
            Look::Plain(area) => Told::All(Some(self.info(area, None, self.shift))),
            Look::Noted(area, note) => match Annotation::of_note(note, self.guard) {
                Some(annotation) => Told::All(Some(self.info(area, Some(annotation), self.shift))),
                None => Told::Range(area),
            },
        }
    }

    /// Returns the area that holds `page`, without waiting for a lock.
    pub(crate) fn try_find(&self, page: u64) -> Result<Option<AreaInfo>, Contended> {
        self.find_by_locks(page, Blocking::Forbidden)
    }

    /// Finds the area that holds `page` with its annotation's table locked, if a table has that: by
    /// AREA-1, area and annotation belong together then.
    fn find_by_locks(&self, page: u64, blocking: Blocking) -> Result<Option<AreaInfo>, Contended> {
        for _ in 0..LOOKS {
            let seen = match self.area_at(page, blocking)? {
                Told::All(found) => return Ok(found),
                Told::Range(area) => area,
            };
            let table = self.table_as(seen.start(), blocking).ok_or(Contended)?;
            match self.area_at(page, blocking)? {
                Told::All(found) => return Ok(found),
                Told::Range(area) if area.start() == seen.start() => {
                    return Ok(Some(self.info(area, table.get(area.start()), self.shift)));
                }
                // Another area is there now, whose annotation may be in another table.
                Told::Range(_) => {}
            }
        }
        Err(Contended)
    }

    /// Returns the placement of the busy area at `page`, whose owner asks for it.
    pub(crate) fn placement(&self, page: u64) -> Placement {
        let note = self.bitmaps.sure_home(page).map(|leaf| self.bitmaps.note(leaf, page));
        let noted = note.and_then(|note| Annotation::of_note(note, self.guard));
        let annotation = noted.or_else(|| self.table(page).get(page));
        annotation.map_or(Placement::USUAL, |annotation| annotation.placement)
    }

    /// Returns what is known of the busy area that holds `page`: its range alone, where a table has
    /// its annotation.
    fn area_at(&self, page: u64, blocking: Blocking) -> Result<Told, Contended> {
        if let Some(look) = self.look(page) {
            return Ok(self.told(look));
        }
        let map = self.map_as(blocking).ok_or(Contended)?;
        // Now that the bitmaps don't change, only an owner who frees the area disturbs a look.
        if let Some(look) = self.look(page) {
            return Ok(self.told(look));
        }
        match map.find(page) {
            None => Ok(Told::All(None)),
            Some(area) if self.bitmaps.sure_home(area.start()).is_none() => Ok(Told::Range(area)),
            // The page lies in no leaf, and its area begins in one.
            Some(area) => self.look(area.start()).map(|look| self.told(look)).ok_or(Contended),
        }
    }

    /// Returns what the bitmaps tell of `page` without a lock, if they do.
    #[inline(never)]
    fn look(&self, page: u64) -> Option<Look> {
        // Where there is no leaf, another look finds none either.
        self.bitmaps.sure_home(page)?;
        (0..LOOKS).find_map(|_| self.bitmaps.look(page).ok())
    }
}
