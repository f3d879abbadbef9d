//! Annotations: what is known of an area beyond its pages.
//!
//! An annotation is the kind of an area, its guard, the caller's tag, and the caller's cookie. A
//! plain area (memory of its own with the usual guard, and neither tag nor cookie) has none, and
//! costs nothing here.
//!
//! ```text
//!   leaf of the map  │ a mark for each 8 pages │     a free, or a look-up, where none is set needs no table
//!                             │ by page: 16 pages to each table in turn
//!        table 0     table 1  ▼  table 2 …           as many as nodes, each with a lock, as Linux sorts its
//!      ┌─────────┐ ┌─────────────────────────┐       busy areas (2024)
//!      │         │ │ page ─► kind, guard,    │
//!      │         │ │         cookie, name ─┐ │       24 bytes an area, and 17 on average for room
//!      │         │ │ names:  tag, users  ◄─┘ │       each tag of the table's areas once
//!      └─────────┘ └─────────────────────────┘
//! ```
//!
//! A tag lies once in each table, however many of the areas there have it, so that an annotation is
//! small. [`names`](super::names) says what becomes of tags that no area has any more. A program
//! whose areas all have different tags takes 64 bytes more for each.

use super::names::Names;
use super::{Kind, Tag};
use crate::PageRange;
use core::mem::offset_of;
use hashbrown::HashTable;
use vmalloc_map::parts::ANNOTATION_PAGES;

/// The facts of an area that are not in the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Annotation {
    pub(crate) kind: Kind,
    pub(crate) guard_pages: u64,
    pub(crate) tag: Option<Tag>,
    /// A number of the caller's, or 0.
    pub(crate) cookie: u64,
}

impl Annotation {
    /// Returns the facts of an area without a cookie.
    #[inline]
    pub(crate) fn new(kind: Kind, guard_pages: u64, tag: Option<Tag>) -> Self {
        Self { kind, guard_pages, tag, cookie: 0 }
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
        is_usual && self.tag.is_none() && self.cookie == 0
    }
}

/// An annotation as it lies in a table.
#[derive(Clone, Copy)]
struct Entry {
    /// The first page of the area.
    page: u64,
    cookie: u64,
    /// The name of the tag, or 0.
    name: u32,
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
}

/// A part of the annotations, behind a lock of its own.
#[derive(Default)]
pub(crate) struct Table {
    entries: HashTable<Entry>,
    names: Names,
}

impl Table {
    /// Places for an outline: of the entries and the names in a table; of the page, kind, guard
    /// pages, name and cookie in an entry of so many bytes.
    pub(crate) const FIELDS: [usize; 8] = [
        offset_of!(Self, entries),
        offset_of!(Self, names) + Names::LIST,
        size_of::<Entry>(),
        offset_of!(Entry, page),
        offset_of!(Entry, kind),
        offset_of!(Entry, guard_pages),
        offset_of!(Entry, name),
        offset_of!(Entry, cookie),
    ];
    /// Bytes of the record of the entries.
    pub(crate) const ENTRIES: usize = size_of::<HashTable<Entry>>();

    fn entry(&self, page: u64) -> Option<&Entry> {
        self.entries.find(Entry::hash(page), |entry| entry.page == page)
    }

    /// Returns the annotation of the area at `page`.
    #[inline]
    pub(crate) fn get(&self, page: u64) -> Option<Annotation> {
        self.entry(page).map(|entry| self.unpack(entry))
    }

    fn unpack(&self, entry: &Entry) -> Annotation {
        let Entry { cookie, name, kind, guard_pages, .. } = *entry;
        Annotation { kind, guard_pages: guard_pages.into(), tag: self.names.tag(name), cookie }
    }

    /// Enters the annotation of the area at `page`, which has none. Returns false, and changes
    /// nothing, when memory is short.
    pub(crate) fn enter(&mut self, page: u64, annotation: &Annotation) -> bool {
        let Annotation { kind, guard_pages, tag, cookie } = annotation;
        let has_room = self.entries.try_reserve(1, |entry| Entry::hash(entry.page)).is_ok();
        let name = if has_room { self.names.enter(tag.as_ref()) } else { None };
        let Some(name) = name else { return false };
        let entry = Entry { page, cookie: *cookie, name, kind: *kind, guard_pages: *guard_pages as u8 };
        self.entries.insert_unique(Entry::hash(page), entry, |entry| Entry::hash(entry.page));
        true
    }

    /// Changes the cookie of an annotation. Returns false if there is none.
    pub(super) fn set_cookie(&mut self, page: u64, cookie: u64) -> bool {
        let found = self.entries.find_mut(Entry::hash(page), |entry| entry.page == page);
        found.map(|entry| entry.cookie = cookie).is_some()
    }

    /// Takes the annotation of `area` out. Returns whether that leaves none for the mark that
    /// stands for it.
    pub(super) fn remove(&mut self, area: PageRange) -> bool {
        let page = area.start();
        let found = self.entries.find_entry(Entry::hash(page), |entry| entry.page == page);
        let Ok(found) = found else { return false };
        self.names.leave(found.remove().0.name);
        let first = page & !(ANNOTATION_PAGES - 1);
        // No area starts inside of another.
        let mut others = (first..page).chain(area.end()..first + ANNOTATION_PAGES);
        self.entries.is_empty() || !others.any(|page| self.entry(page).is_some())
    }

    /// Returns the annotations, each with the first page of its area.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Annotation)> + '_ {
        self.entries.iter().map(|entry| (entry.page, self.unpack(entry)))
    }

    /// Returns the address of the entry of the area at `page`.
    pub(crate) fn place(&self, page: u64) -> Option<usize> {
        self.entry(page).map(|entry| core::ptr::from_ref(entry).addr())
    }

    /// Returns the bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.entries.allocation_size() + self.names.bytes()
    }
}

/// log2 of the pages of a zone, whose annotations lie in one table.
pub(super) const ZONE_SHIFT: u32 = 4;

/// All areas that share a mark have their annotations in one table.
const _: () = assert!(1 << ZONE_SHIFT >= ANNOTATION_PAGES);
