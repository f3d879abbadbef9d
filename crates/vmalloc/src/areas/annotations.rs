//! Annotations: what is known of an area beyond its pages.
//!
//! An annotation is the kind of an area, its guard, the caller's tag, the caller's cookie, and its
//! [`Placement`]. A plain area (memory of its own with the usual guard, placed as the space places,
//! with neither tag nor cookie) has none, and costs nothing here.
//!
//! ```text
//!   leaf of the map  │ a mark for each 8 pages │     a free, or a look-up, where none is set needs no table
//!                             │ by page: 16 pages to each table in turn
//!        table 0     table 1  ▼  table 2 …           as many as nodes, each with a lock, as Linux sorts its
//!      ┌─────────┐ ┌─────────────────────┐           busy areas (2024)
//!      │         │ │ page ─► kind, guard,│
//!      │         │ │         tag, cookie,│           104 bytes an area, and 55 on average for room
//!      └─────────┘ │         placement   │
//!                  └─────────────────────┘
//! ```

use super::{Kind, Tag};
use crate::{PageRange, Policy};
use core::mem::offset_of;
use hashbrown::HashTable;
use vmalloc_map::parts::ANNOTATION_PAGES;

/// Where an area may lie, and on which pages, as its request said: a move goes by it as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// The addresses `[start, end)` inside of which it stays.
    pub(crate) within: Option<(usize, usize)>,
    /// The policy, if it is not the one of the space.
    pub(crate) policy: Option<Policy>,
    /// True if it consists of as many huge pages as there are.
    pub(crate) is_huge: bool,
}

impl Placement {
    /// Where and how the space places by itself.
    pub(crate) const USUAL: Self = Self { within: None, policy: None, is_huge: false };

    /// Returns whether the request said nothing.
    #[inline]
    fn is_usual(&self) -> bool {
        self.within.is_none() && self.policy.is_none() && !self.is_huge
    }
}

/// The facts of an area that are not in the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Annotation {
    pub(crate) kind: Kind,
    pub(crate) guard_pages: u64,
    pub(crate) tag: Option<Tag>,
    /// A number of the caller's, or 0.
    pub(crate) cookie: u64,
    pub(crate) placement: Placement,
}

impl Annotation {
    /// Returns the facts of an area without a cookie, placed as the space places.
    #[inline]
    pub(crate) fn new(kind: Kind, guard_pages: u64, tag: Option<Tag>) -> Self {
        Self { kind, guard_pages, tag, cookie: 0, placement: Placement::USUAL }
    }

    /// Returns the facts of an area without an annotation.
    #[inline]
    pub(crate) fn plain(guards: bool) -> Self {
        Self::new(Kind::Vmalloc, u64::from(guards), None)
    }

    /// Returns whether an area without an annotation is the same.
    #[inline]
    pub(crate) fn is_plain(&self, guards: bool) -> bool {
        let is_usual = self.kind == Kind::Vmalloc && self.guard_pages == u64::from(guards);
        is_usual && self.tag.is_none() && self.cookie == 0 && self.placement.is_usual()
    }
}

/// An annotation as it lies in a table.
#[derive(Clone, Copy)]
struct Entry {
    /// The first page of the area.
    page: u64,
    cookie: u64,
    tag: Tag,
    has_tag: bool,
    placement: Placement,
    kind: Kind,
    guard_pages: u8,
}

impl Entry {
    /// Returns the hash of the area at `page`: by the golden ratio, and the high bits, which are
    /// the better ones, also as low ones.
    #[inline]
    fn hash(page: u64) -> u64 {
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }

    fn annotation(&self) -> Annotation {
        let Self { cookie, tag, has_tag, placement, kind, guard_pages, .. } = *self;
        Annotation { kind, guard_pages: guard_pages.into(), tag: has_tag.then_some(tag), cookie, placement }
    }
}

/// A part of the annotations, behind a lock of its own.
#[derive(Default)]
pub(crate) struct Table(HashTable<Entry>);

impl Table {
    /// The size of an entry, and the places in it: of the page, kind, guard pages and cookie, of
    /// whether there is a tag, and of the length and the bytes of that: for an outline.
    pub(crate) const FIELDS: [usize; 8] = [
        size_of::<Entry>(),
        offset_of!(Entry, page),
        offset_of!(Entry, kind),
        offset_of!(Entry, guard_pages),
        offset_of!(Entry, cookie),
        offset_of!(Entry, has_tag),
        offset_of!(Entry, tag) + Tag::FIELDS[0],
        offset_of!(Entry, tag) + Tag::FIELDS[1],
    ];

    fn entry(&self, page: u64) -> Option<&Entry> {
        self.0.find(Entry::hash(page), |entry| entry.page == page)
    }

    /// Returns the annotation of the area at `page`.
    #[inline]
    pub(crate) fn get(&self, page: u64) -> Option<Annotation> {
        self.entry(page).map(Entry::annotation)
    }

    /// Enters the annotation of the area at `page`, which has none. Returns false, and changes
    /// nothing, when memory is short.
    pub(crate) fn enter(&mut self, page: u64, annotation: &Annotation) -> bool {
        let Annotation { kind, guard_pages, tag, cookie, placement } = *annotation;
        let (has_tag, tag) = (tag.is_some(), tag.unwrap_or(const { Tag::new("") }));
        let entry = Entry { page, cookie, tag, has_tag, placement, kind, guard_pages: guard_pages as u8 };
        let has_room = self.0.try_reserve(1, |entry| Entry::hash(entry.page)).is_ok();
        if has_room {
            self.0.insert_unique(Entry::hash(page), entry, |entry| Entry::hash(entry.page));
        }
        has_room
    }

    /// Changes the cookie of an annotation. Returns false if there is none.
    pub(super) fn set_cookie(&mut self, page: u64, cookie: u64) -> bool {
        let found = self.0.find_mut(Entry::hash(page), |entry| entry.page == page);
        found.map(|entry| entry.cookie = cookie).is_some()
    }

    /// Takes the annotation of `area` out. Returns whether that leaves none for the mark that
    /// stands for it.
    pub(super) fn remove(&mut self, area: PageRange) -> bool {
        let page = area.start();
        let found = self.0.find_entry(Entry::hash(page), |entry| entry.page == page);
        let Ok(found) = found else { return false };
        let _ = found.remove();
        let first = page & !(ANNOTATION_PAGES - 1);
        // No area starts inside of another.
        let mut others = (first..page).chain(area.end()..first + ANNOTATION_PAGES);
        self.0.is_empty() || !others.any(|page| self.entry(page).is_some())
    }

    /// Returns the annotations, each with the first page of its area.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Annotation)> + '_ {
        self.0.iter().map(|entry| (entry.page, entry.annotation()))
    }

    /// Returns the address of the entry of the area at `page`.
    pub(crate) fn place(&self, page: u64) -> Option<usize> {
        self.entry(page).map(|entry| core::ptr::from_ref(entry).addr())
    }

    /// Returns the bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.0.allocation_size()
    }
}

/// log2 of the pages of a zone, whose annotations lie in one table.
pub(super) const ZONE_SHIFT: u32 = 4;

/// All areas that share a mark have their annotations in one table.
const _: () = assert!(1 << ZONE_SHIFT >= ANNOTATION_PAGES);
