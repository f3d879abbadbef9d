//! What is known of an area beyond its pages: most areas have no annotation.
//!
//! Annotations lie in as many tables as there are nodes, by the address of the area: 16 pages to each in turn, as Linux
//! sorts its busy areas (2024). Each leaf has a bit for every 8 pages in which areas with annotations start, so that who frees where there
//! are none needs no look.

use super::Kind;
use super::node::Padded;
use crate::addr::PageRange;
use crate::area_map::ANNOTATION_PAGES;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;
use lock_api::{Mutex, MutexGuard, RawMutex};

/// What is not in the area map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Annotation {
    pub(super) kind: Kind,
    pub(super) guard_pages: u64,
    pub(super) slack: u64,
    pub(super) tag: Option<&'static str>,
}

impl Annotation {
    /// Of an area without one.
    #[inline]
    pub(super) fn plain(guards: bool) -> Self {
        Self { kind: Kind::Vmalloc, guard_pages: u64::from(guards), slack: 0, tag: None }
    }

    /// Whether an area without an annotation says the same.
    #[inline]
    pub(super) fn is_plain(&self, guards: bool) -> bool {
        self.slack == 0
            && self.tag.is_none()
            && self.kind == Kind::Vmalloc
            && self.guard_pages == u64::from(guards)
    }
}

/// log2 of the pages of a zone, whose annotations lie in one table.
const ZONE_SHIFT: u32 = 4;

/// All areas that share a bit have their annotations in one table.
const _: () = assert!(1 << ZONE_SHIFT >= ANNOTATION_PAGES);

pub(super) type Table = HashMap<u64, Annotation>;

/// All annotations, by the first page of the area.
pub(super) struct Annotations<L> {
    tables: Box<[Padded<Mutex<L, Table>>]>,
}

impl<L: RawMutex> Annotations<L> {
    /// Tables for `count` nodes; `None` when memory is short.
    pub(super) fn new(count: usize) -> Option<Self> {
        let mut tables = Vec::new();
        tables.try_reserve_exact(count).ok()?;
        tables.resize_with(count, || Padded(Mutex::new(Table::new())));
        Some(Self { tables: tables.into_boxed_slice() })
    }

    fn home(&self, page: u64) -> &Mutex<L, Table> {
        let table = (page >> ZONE_SHIFT) % self.tables.len() as u64;
        &self.tables[table as usize].0
    }

    /// The table that holds the annotation of the area at `page`.
    pub(super) fn lock(&self, page: u64) -> MutexGuard<'_, L, Table> {
        self.home(page).lock()
    }

    /// The same, unless somebody has it.
    pub(super) fn try_lock(&self, page: u64) -> Option<MutexGuard<'_, L, Table>> {
        self.home(page).try_lock()
    }

    /// Enters an annotation, and calls `mark` while its table is held; `false` when memory is short.
    pub(super) fn enter(&self, area: PageRange, annotation: Annotation, mark: impl FnOnce()) -> bool {
        let mut table = self.lock(area.start());
        let fits = table.try_reserve(1).is_ok();
        if fits {
            table.insert(area.start(), annotation);
            mark();
        }
        fits
    }

    /// Takes an annotation out of its table; whether that leaves none for the bit that stands for it.
    pub(super) fn remove(&self, table: &mut Table, page: u64) -> bool {
        let removed = table.remove(&page).is_some();
        let first = page & !(ANNOTATION_PAGES - 1);
        removed && !(first..first + ANNOTATION_PAGES).any(|page| table.contains_key(&page))
    }

    /// Every table, in order.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Mutex<L, Table>> {
        self.tables.iter().map(|table| &table.0)
    }
}
