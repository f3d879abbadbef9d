//! What the space's lock protects, and the invariants of its counts.

use super::Kind;
use super::retained::Retained;
use crate::addr::PageRange;
use crate::area_map::{AreaMap, State as SegmentState, Violation};
use crate::error::{AllocError, FreeError};
use alloc::vec::Vec;
use hashbrown::HashMap;

/// What the lock protects.
pub(super) struct State {
    pub(super) map: AreaMap,
    pub(super) notes: HashMap<u64, Note>,
    pub(super) retained: Retained,
    /// Freed, not yet unmapped.
    pub(super) lazy: Vec<PageRange>,
    /// Lazy areas whose purge failed.
    pub(super) stuck: Vec<PageRange>,
    /// Lazy in any of these two or under purge.
    pub(super) lazy_pages: u64,
    pub(super) lazy_areas: u64,
    pub(super) busy_pages: u64,
    pub(super) busy_areas: u64,
    pub(super) purges: u64,
    pub(super) purged_areas: u64,
    /// The most areas that a purge moved or gave back under one hold of the lock.
    pub(super) longest_hold: u64,
}

/// What is not in the area map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Note {
    pub(super) kind: Kind,
    pub(super) guard_pages: u64,
    pub(super) slack: u32,
    pub(super) tag: Option<&'static str>,
}

impl State {
    /// A space with nothing in it yet.
    pub(super) fn new(map: AreaMap, retained_pages: u64) -> Self {
        Self {
            map,
            notes: HashMap::new(),
            retained: Retained::new(retained_pages),
            lazy: Vec::new(),
            stuck: Vec::new(),
            lazy_pages: 0,
            lazy_areas: 0,
            busy_pages: 0,
            busy_areas: 0,
            purges: 0,
            purged_areas: 0,
            longest_hold: 0,
        }
    }

    /// Takes a busy area of `kind` out of use: its pages, and how many of them are guards.
    #[inline]
    pub(super) fn retire(
        &mut self,
        page: u64,
        kind: Kind,
        guards: bool,
    ) -> Result<(PageRange, u64), FreeError> {
        let noted = if self.notes.is_empty() { None } else { self.notes.get(&page).copied() };
        if noted.map_or(Kind::Vmalloc, |note| note.kind) != kind
            && self.map.find(page).is_some_and(|area| area.start() == page)
        {
            return Err(FreeError::WrongKind { page });
        }
        let area = self.map.retire(page)?;
        if noted.is_some() {
            self.notes.remove(&page);
        }
        self.busy_areas -= 1;
        self.busy_pages -= area.len();
        Ok((area, noted.map_or(u64::from(guards), |note| note.guard_pages)))
    }

    /// Makes up to `at_most` retained areas of `pages` pages lazy, those that have lain longest; how many.
    pub(super) fn unretain(&mut self, pages: u64, at_most: usize) -> usize {
        let moved = self.retained.give_up(pages, at_most, &mut self.lazy);
        self.lazy_areas += moved as u64;
        self.lazy_pages += moved as u64 * pages;
        self.longest_hold = self.longest_hold.max(moved as u64);
        moved
    }

    /// Makes sure that a note can be entered, if this one must be.
    #[inline]
    pub(super) fn reserve_note(&mut self, note: &Note, guards: bool) -> Result<(), AllocError> {
        if note.is_plain(guards) || self.notes.try_reserve(1).is_ok() {
            return Ok(());
        }
        Err(AllocError::Metadata)
    }

    #[inline]
    pub(super) fn enter(&mut self, area: PageRange, note: Note, guards: bool) {
        self.busy_areas += 1;
        self.busy_pages += area.len();
        if !note.is_plain(guards) {
            self.notes.insert(area.start(), note);
        }
    }

    pub(super) fn verify_counts(&self) -> Result<(), Violation> {
        let (mut busy, mut retired) = ((0, 0), (0, 0));
        for segment in self.map.segments() {
            let of = match segment.state {
                SegmentState::Free => continue,
                SegmentState::Busy => &mut busy,
                SegmentState::Retired => &mut retired,
            };
            *of = (of.0 + 1, of.1 + segment.range.len());
        }
        let page = self.map.span().start();
        if busy != (self.busy_areas, self.busy_pages) {
            return Err(Violation { invariant: "S1: busy areas are miscounted", page });
        }
        let waiting = (self.lazy_areas + self.retained.areas(), self.lazy_pages + self.retained.pages());
        if retired != waiting {
            return Err(Violation {
                invariant: "S2: an area is neither busy, lazy, retained nor free",
                page,
            });
        }
        let stray = |&&page: &&u64| self.map.find(page).is_none_or(|area| area.start() != page);
        match self.notes.keys().find(stray) {
            Some(&page) => Err(Violation { invariant: "S3: a note without its area", page }),
            None => Ok(()),
        }
    }
}

impl Note {
    /// Whether an area without a note says the same.
    #[inline]
    fn is_plain(&self, guards: bool) -> bool {
        self.slack == 0
            && self.tag.is_none()
            && self.kind == Kind::Vmalloc
            && self.guard_pages == u64::from(guards)
    }
}
