//! Areas: which addresses are busy, what each area is for, and looking it up by any address inside.
//!
//! - [`map`]: the [`AreaMap`] under its lock. An area's range and state are bits
//!   there.
//! - [`annotations`]: everything else that is known of an area: its kind, a missing guard, the
//!   owner's record and tag, and a placement of its own. Plain areas have no annotation.
//! - [`states`]: claimed, busy, retired.
//! - [`lookup`]: from an address to its area, mostly without a lock.
//! - [`kind`]: what areas are for. [`tag`]: names that callers give them.
//!
//! Whether an area is busy is a bit that its owner flips without any lock
//! ([`Bitmaps`]): of two that free it, one is told that it came second.
//!
//! # Locks
//! A table of annotations comes before the map. Nothing here takes any other lock.
//!
//! # Invariants
//! - **AREA-1** A busy area's annotation, if it has one, is in its note or in its table: areas
//!   become busy last, and where a table has it under the table's lock.
//! - **AREA-2** Neither a note nor a table has an annotation of an area that is free.
//! - **AREA-3** No memory is taken or given back with a lock held.

pub(crate) mod annotations;
mod kind;
mod lookup;
mod map;
mod states;
mod tag;

pub(crate) use annotations::{Annotation, Entry, Placement, Table};
pub(crate) use kind::FreedBy;
pub use kind::Kind;
pub(crate) use lookup::Blocking;
pub use lookup::{AreaInfo, Contended};
pub(crate) use map::HeldMap;
pub(crate) use states::{Disposition, Retired};
pub use tag::Tag;

use crate::SpaceError;
use crate::platform::Geometry;
use crate::wait::{Apart, Padded, list, places};
use alloc::boxed::Box;
use core::sync::atomic::AtomicBool;
use lock_api::{Mutex, RawMutex};
use vmalloc_map::parts::{Bitmaps, Leaf, Lent, Shared};

/// The areas of a space.
pub(crate) struct Areas<L> {
    shift: u32,
    /// True if areas have guard pages by default.
    guard: bool,
    pub(crate) bitmaps: Shared<'static, Bitmaps<'static>>,
    /// Annotations: by the address of the area.
    tables: Box<[Padded<Mutex<L, Table>>]>,
    map: Apart<Mutex<L, map::Mapped>>,
    /// True if a change of the map lacked memory under other locks.
    is_short: AtomicBool,
}

impl<L: RawMutex> Areas<L> {
    /// Returns a map over the machine's span, all of it free, with as many tables of annotations.
    pub(crate) fn new(
        geometry: &Geometry,
        guard: bool,
        tables: usize,
        flat: Option<Lent<'static, Leaf>>,
    ) -> Result<Self, SpaceError> {
        let (span, shift) = (geometry.span, geometry.page_shift);
        let map = map::Mapped::new(span, flat, tables)?;
        Ok(Self {
            shift,
            guard,
            // SAFETY: the map is dropped with these areas, and nothing reads the bitmaps then.
            bitmaps: unsafe { map.lock().areas.bitmaps().reader() },
            tables: list(tables, || Padded(Mutex::new(Table::default())))?,
            map,
            is_short: AtomicBool::new(false),
        })
    }

    /// Returns the annotation that stands for none.
    pub(crate) fn plain(&self) -> Annotation {
        Annotation::plain(self.guard)
    }

    /// Returns the address of the first table, how many there are, the bytes from each to the next,
    /// and the place of the table in that: for an outline.
    pub(crate) fn table_places(&self) -> [usize; 4] {
        places(&self.tables)
    }

    /// Returns the bytes of the tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.0.lock().bytes()).sum()
    }

    /// Locks the tables, for a fork. [`lock_map`](Self::lock_map) comes after them.
    pub(crate) fn lock_tables(&self) {
        self.tables.iter().for_each(|table| core::mem::forget(table.0.lock()));
    }

    pub(crate) fn lock_map(&self) {
        core::mem::forget(self.map.lock());
    }

    /// Releases the map and the tables.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has locked all.
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise all are held.
        unsafe {
            self.map.force_unlock();
            self.tables.iter().for_each(|table| table.0.force_unlock());
        }
    }
}
