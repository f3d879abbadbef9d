//! Annotations: what is known of an area beyond its pages.
//!
//! They lie in as many tables as there are nodes, by the address of the area: 16 pages to each in
//! turn, as Linux sorts its busy areas (2024). Each leaf of the map has a bit for every 8 pages in
//! which areas with annotations start. So a free where there are none needs no table.

use super::{Kind, Tag};
use crate::PageRange;
use crate::cache::{Padded, places};
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;
use lock_api::{Mutex, MutexGuard, RawMutex};
use vmalloc_map::parts::ANNOTATION_PAGES;

/// The facts of an area that are not in the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Annotation {
    pub(crate) kind: Kind,
    pub(crate) guard_pages: u64,
    pub(crate) tag: Option<Tag>,
}

impl Annotation {
    /// Returns the facts of an area without an annotation.
    #[inline]
    pub(crate) fn plain(guards: bool) -> Self {
        Self { kind: Kind::Vmalloc, guard_pages: u64::from(guards), tag: None }
    }

    /// Returns whether an area without an annotation is the same.
    #[inline]
    pub(crate) fn is_plain(&self, guards: bool) -> bool {
        self.tag.is_none() && self.kind == Kind::Vmalloc && self.guard_pages == u64::from(guards)
    }
}

/// log2 of the pages of a zone, whose annotations lie in one table.
const ZONE_SHIFT: u32 = 4;

/// All areas that share a bit have their annotations in one table.
const _: () = assert!(1 << ZONE_SHIFT >= ANNOTATION_PAGES);

/// Annotations by the first page of the area.
pub(crate) type Table = HashMap<u64, Annotation>;

/// All tables of annotations.
pub(super) struct Annotations<L> {
    tables: Box<[Padded<Mutex<L, Table>>]>,
}

impl<L: RawMutex> Annotations<L> {
    /// Returns `count` empty tables; `None` when memory is short.
    pub(super) fn new(count: usize) -> Option<Self> {
        let mut tables = Vec::new();
        tables.try_reserve_exact(count).ok()?;
        tables.resize_with(count, || Padded(Mutex::new(Table::new())));
        Some(Self { tables: tables.into_boxed_slice() })
    }

    fn table(&self, page: u64) -> &Mutex<L, Table> {
        let table = (page >> ZONE_SHIFT) % self.tables.len() as u64;
        &self.tables[table as usize].0
    }

    /// Locks the table that has the annotation of the area at `page`.
    pub(super) fn lock(&self, page: u64) -> MutexGuard<'_, L, Table> {
        self.table(page).lock()
    }

    /// Locks that table unless it is held.
    pub(super) fn try_lock(&self, page: u64) -> Option<MutexGuard<'_, L, Table>> {
        self.table(page).try_lock()
    }

    /// Enters an annotation, and calls `mark` while its table is held. Returns false when memory is
    /// short.
    pub(super) fn enter(&self, area: PageRange, annotation: Annotation, mark: impl FnOnce()) -> bool {
        let mut table = self.lock(area.start());
        let fits = table.try_reserve(1).is_ok();
        if fits {
            table.insert(area.start(), annotation);
            mark();
        }
        fits
    }

    /// Returns where the tables lie: see [`Areas::table_places`](super::Areas::table_places).
    pub(super) fn places(&self) -> [usize; 4] {
        places(&self.tables)
    }

    /// Returns every table, in order.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Mutex<L, Table>> {
        self.tables.iter().map(|table| &table.0)
    }
}

/// Takes an annotation out of its table. Returns whether that leaves none for the bit that stands
/// for it.
pub(super) fn remove(table: &mut Table, page: u64) -> bool {
    let first = page & !(ANNOTATION_PAGES - 1);
    table.remove(&page).is_some() && !(first..first + ANNOTATION_PAGES).any(|page| table.contains_key(&page))
}
