//! Annotations: what is known of an area beyond its pages.
//!
//! An annotation is the kind of an area, its guard, its owner's record and tag, and its
//! [`Placement`]. A [`Note`] holds it where that has room: two words for the area's first page,
//! without a lock. A tag or a placement needs an entry in a table.
//!
//! ```text
//!   plain                 nothing at all: memory of its own with the usual guard
//!   record, kind, guard   note    │ record │ facts │
//!   tag, placement        note    │        │ TABLED│  ──►  table, by page: 16 pages to each in turn
//!   far out               no note, for there is no row    ──►  the same
//!
//!      table 0   table 1 …              as many as nodes, each with a lock, as Linux sorts its busy
//!         ┌─ entry ─┐                   areas (2024)
//!       entry     entry                 a trie of four by the hash of the page: an entry is made
//!      ┌──┴──┐                          before the lock is taken, and dropped after it, and no
//!    entry  entry                       table is ever copied
//! ```
//!
//! # Cost
//! A note takes 16 bytes a page, in rows of 4 KiB for 256 pages; an entry 152 bytes.

use super::{Blocking, Kind, Tag};
use crate::Policy;
use alloc::boxed::Box;
use core::mem::offset_of;
use vmalloc_map::parts::{Note, OutOfMemory, try_box};

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
    /// A word of the owner's, or 0.
    pub(crate) record: u64,
    pub(crate) placement: Placement,
}

/// The bit of facts that differ from the usual ones. Above are the kind and the guard pages.
const UNUSUAL: u64 = 2;
const KIND_SHIFT: u32 = 8;
const GUARD_SHIFT: u32 = 16;

impl Annotation {
    /// The facts of a note whose annotation is in a table.
    pub(super) const TABLED: u64 = 1;

    /// Returns the facts of an area without a record, placed as the space places.
    #[inline]
    pub(crate) fn new(kind: Kind, guard_pages: u64, tag: Option<Tag>) -> Self {
        Self { kind, guard_pages, tag, record: 0, placement: Placement::USUAL }
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
        is_usual && self.tag.is_none() && self.record == 0 && self.placement.is_usual()
    }

    /// Returns the note that holds all of it, or stands for an entry in a table.
    #[inline(always)]
    pub(crate) fn note(&self, guards: bool) -> Note {
        if self.tag.is_some() || !self.placement.is_usual() {
            return Note { record: 0, facts: Self::TABLED };
        }
        let is_usual = self.kind == Kind::Vmalloc && self.guard_pages == u64::from(guards);
        let facts = UNUSUAL | (self.kind as u64) << KIND_SHIFT | self.guard_pages << GUARD_SHIFT;
        Note { record: self.record, facts: if is_usual { 0 } else { facts } }
    }

    /// Returns what a note holds; `None` where a table does.
    #[inline]
    pub(crate) fn of_note(note: Note, guards: bool) -> Option<Self> {
        let Note { record, facts } = note;
        match facts {
            0 => Some(Self { record, ..Self::plain(guards) }),
            Self::TABLED => None,
            _ => {
                let guard_pages = facts >> GUARD_SHIFT;
                Some(Self { record, ..Self::new(Kind::of(facts >> KIND_SHIFT & 0xff), guard_pages, None) })
            }
        }
    }
}

/// An annotation as it lies in a table.
pub(crate) struct Entry {
    /// The first page of the area.
    page: u64,
    record: u64,
    tag: Tag,
    has_tag: bool,
    placement: Placement,
    kind: Kind,
    guard_pages: u64,
    /// Entries whose hash begins as this one's: by the next two bits of it.
    below: [Link; 4],
}

type Link = Option<Box<Entry>>;

impl Entry {
    /// Makes an entry for the area at `page`, to be put into a table. Takes memory.
    pub(crate) fn new(page: u64, annotation: &Annotation) -> Result<Box<Self>, OutOfMemory> {
        let Annotation { kind, guard_pages, tag, record, placement } = *annotation;
        let (has_tag, tag) = (tag.is_some(), tag.unwrap_or(const { Tag::new("") }));
        let below = [const { None }; 4];
        try_box(|| Self { page, record, tag, has_tag, placement, kind, guard_pages, below })
    }

    pub(super) fn annotation(&self) -> Annotation {
        let Self { record, tag, has_tag, placement, kind, guard_pages, .. } = *self;
        Annotation { kind, guard_pages, tag: has_tag.then_some(tag), record, placement }
    }
}

/// Takes an entry below, with none below itself.
fn take_last(below: &mut [Link; 4]) -> Link {
    let link = below.iter_mut().find(|link| link.is_some())?;
    let last = link.as_mut().and_then(|entry| take_last(&mut entry.below));
    last.or_else(|| link.take())
}

/// A part of the annotations, behind a lock of its own.
#[derive(Default)]
pub(crate) struct Table {
    root: Link,
    len: usize,
    /// Entries that were removed where no memory may be given back: they are used again.
    spare: Link,
}

/// Goes from link to link by the hash of a page: a product with the golden ratio, which is another
/// one for each page, from its high bits on.
struct Path(u64);

impl Path {
    fn to(page: u64) -> Self {
        Self(page.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> usize {
        self.0 = self.0.rotate_left(2);
        self.0 as usize & 3
    }
}

impl Table {
    /// The size of an entry, and the places in it: of the page, kind, guard pages and record, of
    /// whether there is a tag, of the length and the bytes of that, and of the links: for an
    /// outline.
    pub(crate) const FIELDS: [usize; 9] = [
        size_of::<Entry>(),
        offset_of!(Entry, page),
        offset_of!(Entry, kind),
        offset_of!(Entry, guard_pages),
        offset_of!(Entry, record),
        offset_of!(Entry, has_tag),
        offset_of!(Entry, tag) + Tag::FIELDS[0],
        offset_of!(Entry, tag) + Tag::FIELDS[1],
        offset_of!(Entry, below),
    ];

    /// The place of the first link: for an outline.
    pub(crate) const ROOT: usize = offset_of!(Self, root);

    /// Returns the link to the entry of the area at `page`, or the empty one where it would be.
    fn link(&mut self, page: u64) -> &mut Link {
        let (mut link, mut path) = (&mut self.root, Path::to(page));
        while link.as_ref().is_some_and(|entry| entry.page != page) {
            link = match link {
                Some(entry) => &mut entry.below[path.next()],
                None => break,
            };
        }
        link
    }

    /// Returns the annotation of the area at `page`.
    pub(crate) fn get(&self, page: u64) -> Option<Annotation> {
        let (mut link, mut path) = (&self.root, Path::to(page));
        while let Some(entry) = link {
            if entry.page == page {
                return Some(entry.annotation());
            }
            link = &entry.below[path.next()];
        }
        None
    }

    /// Enters the annotation of an area that has none. Returns an entry to be dropped once the lock
    /// is released, if one was spare.
    #[must_use]
    pub(crate) fn enter(&mut self, mut entry: Box<Entry>) -> Link {
        let spare = self.spare.take();
        let unused = spare.map(|mut spare| {
            self.spare = spare.below[0].take();
            core::mem::swap(&mut *spare, &mut *entry);
            core::mem::replace(&mut entry, spare)
        });
        self.len += 1;
        let link = self.link(entry.page);
        *link = Some(entry);
        unused
    }

    /// Changes the record of an annotation. Returns false if there is none.
    pub(super) fn set_record(&mut self, page: u64, record: u64) -> bool {
        self.link(page).as_mut().map(|entry| entry.record = record).is_some()
    }

    /// Takes the entry of the area at `page` out. One from below takes its place, where any of
    /// these may stand.
    pub(super) fn remove(&mut self, page: u64) -> Link {
        let link = self.link(page);
        let mut removed = link.take()?;
        *link = take_last(&mut removed.below);
        if let Some(entry) = link {
            entry.below = core::mem::take(&mut removed.below);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Takes the entry of the area at `page` out, and keeps it for later where the caller may not
    /// give memory back: there the heap may be locked.
    pub(super) fn take_out(&mut self, page: u64, blocking: Blocking) -> Link {
        let mut entry = self.remove(page)?;
        if blocking == Blocking::Allowed {
            return Some(entry);
        }
        entry.below[0] = self.spare.take();
        self.spare = Some(entry);
        None
    }

    /// Returns the first result of `find` for an annotation and the first page of its area.
    pub(crate) fn find<T>(&self, find: &mut dyn FnMut(u64, Annotation) -> Option<T>) -> Option<T> {
        find_below(&self.root, find)
    }

    /// Returns the bytes that it takes beside itself, but for spare entries.
    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<Entry>()
    }
}

/// Goes down to 32 links deep, for a hash has 64 bits, and one or two beyond log4 of all entries in
/// most cases.
fn find_below<T>(link: &Link, find: &mut dyn FnMut(u64, Annotation) -> Option<T>) -> Option<T> {
    let entry = link.as_ref()?;
    find(entry.page, entry.annotation())
        .or_else(|| entry.below.iter().find_map(|link| find_below(link, find)))
}

/// log2 of the pages of a zone, whose annotations lie in one table.
pub(super) const ZONE_SHIFT: u32 = 4;
