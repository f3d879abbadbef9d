//! From an address to its area.

use super::{Annotation, Areas, Kind, Placement, Tag};
use crate::PageRange;
use crate::sync::size;
use core::fmt;
use lock_api::RawMutex;
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
    /// The caller's cookie, or 0: see [`Request::cookie`](crate::Request::cookie).
    pub cookie: u64,
}

impl fmt::Debug for AreaInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, bytes, pages, guard, kind, tag, cookie } = self;
        f.debug_struct("AreaInfo")
            .field("addr", &format_args!("{addr:#x}"))
            .field("bytes", bytes)
            .field("pages", pages)
            .field("guard", guard)
            .field("kind", kind)
            .field("tag", tag)
            .field("cookie", cookie)
            .finish()
    }
}

/// The call would have to wait for a lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contended;

impl fmt::Display for Contended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lock of the space is held")
    }
}

impl core::error::Error for Contended {}

/// The right of a call to wait: for locks, for a purge, or for notifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocking {
    Allowed,
    Forbidden,
}

/// How often a look without locks is repeated when the bitmaps were changing: a change takes less
/// than a microsecond.
const LOOKS: usize = size(16, 2) as usize;

impl<L: RawMutex> Areas<L> {
    /// Returns the facts of `area`, whose annotation this is, or which has none. `shift` is the
    /// page shift, which the caller may know as a constant.
    #[inline(always)]
    fn info(&self, area: PageRange, annotation: Option<Annotation>, shift: u32) -> AreaInfo {
        let Annotation { kind, guard_pages, tag, cookie, .. } = annotation.unwrap_or(self.plain());
        let pages = area.len() - guard_pages;
        let [addr, bytes] = [area.start(), pages].map(|pages| (pages << shift) as usize);
        AreaInfo { addr, bytes, pages, guard: guard_pages != 0, kind, tag, cookie }
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
        match self.bitmaps.look(page) {
            Ok(Look::Nothing) => None,
            Ok(Look::Plain(area)) => Some(self.info(area, None, self.shift)),
            Ok(Look::Annotated(_)) | Err(_) => self.find_slow(page),
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

    /// Returns the area that holds `page`, without waiting for a lock.
    pub(crate) fn try_find(&self, page: u64) -> Result<Option<AreaInfo>, Contended> {
        match self.look(page) {
            Some(Look::Nothing) => Ok(None),
            Some(Look::Plain(area)) => Ok(Some(self.info(area, None, self.shift))),
            Some(Look::Annotated(_)) | None => self.find_by_locks(page, Blocking::Forbidden),
        }
    }

    /// Finds the area that holds `page` with its annotation's table locked: by AREA-1, area and
    /// annotation belong together then.
    fn find_by_locks(&self, page: u64, blocking: Blocking) -> Result<Option<AreaInfo>, Contended> {
        for _ in 0..LOOKS {
            let Some(seen) = self.area_at(page, blocking)? else { return Ok(None) };
            let table = match blocking {
                Blocking::Allowed => self.table(seen.start()),
                Blocking::Forbidden => self.try_table(seen.start()).ok_or(Contended)?,
            };
            match self.area_at(page, blocking)? {
                None => return Ok(None),
                Some(area) if area.start() == seen.start() => {
                    return Ok(Some(self.info(area, table.get(area.start()), self.shift)));
                }
                // Another area is there now, whose annotation may be in another table.
                Some(_) => {}
            }
        }
        Err(Contended)
    }

    /// Returns the placement of the busy area at `page`, whose owner asks for it.
    pub(crate) fn placement(&self, page: u64) -> Placement {
        let is_plain = self.bitmaps.sure_home(page).is_some_and(|leaf| !leaf.may_be_annotated(page));
        let annotation = if is_plain { None } else { self.table(page).get(page) };
        annotation.map_or(Placement::USUAL, |annotation| annotation.placement)
    }

    /// Returns the range of the busy area that holds `page`.
    fn area_at(&self, page: u64, blocking: Blocking) -> Result<Option<PageRange>, Contended> {
        match (self.look(page), blocking) {
            (Some(Look::Nothing), _) => Ok(None),
            (Some(Look::Plain(area) | Look::Annotated(area)), _) => Ok(Some(area)),
            (None, Blocking::Allowed) => Ok(self.map().find(page)),
            (None, Blocking::Forbidden) => Ok(self.try_map().ok_or(Contended)?.find(page)),
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
