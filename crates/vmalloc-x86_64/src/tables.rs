//! Page tables of the span.
//!
//! ```text
//!   level   entry stands for   index                        table
//!     4         512 GiB        bits 39–47   root ──►  ┌───┬───┬───┐
//!     3           1 GiB        bits 30–38             │   │ ┬ │   │  a leaf of 1 GiB, or a table
//!     2           2 MiB        bits 21–29             └───┴─│─┴───┘  a leaf of 2 MiB, or a table
//!     1           4 KiB        bits 12–20                   ▼        a page
//! ```
//!
//! - **X1** An entry above level 1 is none, a leaf, or a table; a table stays until a leaf takes its place.
//! - **X2** The entry of a page belongs to whoever owns the page: nobody else writes it. Those of tables belong to all, and go from none to a table by
//!   one exchange: who loses gives his frame back.
//! - **X3** A frame that a page owned is in exactly one place: in its present entry, in its stale one, or back in the supply.

use crate::entry::{Bits, ENTRIES, Entry, PAGE_SHIFT, TABLE_SHIFT};
use crate::machine::Machine;
use core::sync::atomic::{AtomicU64, Ordering};
use vmalloc::{Frame, PageRange};

/// Where a page's entry was found.
pub(crate) struct Slot<'a> {
    table: Table<'a>,
    index: usize,
    /// log2 of the pages it stands for.
    pub(crate) order: u32,
}

impl<'a> Slot<'a> {
    fn new(table: Table<'a>, page: u64, level: u32) -> Self {
        Self { table, index: index(page, level), order: order_of(level) }
    }

    #[inline]
    fn cell(&self) -> &'a AtomicU64 {
        &self.table[self.index]
    }

    #[inline]
    pub(crate) fn get(&self) -> Entry {
        // Acquire: pairs with the Release in `new_table`. Entries of pages need no order: who owns a page got it through a lock. The
        // processor may set bits 5 and 6 meanwhile, which nobody reads.
        Entry(self.cell().load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn set(&self, entry: Entry) {
        // Release: what the entry leads to was prepared before.
        self.cell().store(entry.0, Ordering::Release);
    }
}

/// No frame for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoTable;

/// The entries of a table.
type Table<'a> = &'a [AtomicU64; ENTRIES as usize];

/// log2 of the pages that an entry of `level` stands for.
#[inline]
pub(crate) const fn order_of(level: u32) -> u32 {
    (level - 1) * TABLE_SHIFT
}

#[inline]
fn index(page: u64, level: u32) -> usize {
    (page >> order_of(level) & (ENTRIES - 1)) as usize
}

/// The tables of `machine`.
pub(crate) struct Tables<'m, M>(pub(crate) &'m M);

impl<M> Clone for Tables<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Tables<'_, M> {}

impl<'m, M: Machine> Tables<'m, M> {
    fn table(self, frame: Frame) -> Table<'m> {
        let addr = self.0.direct_map() + (frame.0 << PAGE_SHIFT) as usize;
        // SAFETY: a frame that holds a table: the root, or one that `new_table` made. Through the direct map it is 512 aligned words
        // that are only read and written as atomics, and it stays a table as long as the machine lives (X1), or until no CPU can
        // come to it any more (`X86::put_leaf`).
        unsafe { &*core::ptr::with_exposed_provenance(addr) }
    }

    /// The entry of `page` at `level`, or that of a leaf above; tables that are missing are made.
    pub(crate) fn make(self, page: u64, level: u32) -> Result<Slot<'m>, NoTable> {
        let mut table = self.table(self.0.root());
        for above in (level + 1..=4).rev() {
            let slot = Slot::new(table, page, above);
            let mut entry = slot.get();
            if entry == Entry::NONE {
                entry = self.new_table(slot.cell())?;
            }
            if entry.is_leaf() {
                return Ok(slot);
            }
            table = self.table(entry.frame());
        }
        Ok(Slot::new(table, page, level))
    }

    /// Puts a new table into `cell`, unless somebody else is quicker.
    #[cold]
    fn new_table(self, cell: &AtomicU64) -> Result<Entry, NoTable> {
        let mut frame = [Frame(0)];
        if !self.0.take_frames(&mut frame) {
            return Err(NoTable);
        }
        let table = self.table(frame[0]);
        table.iter().for_each(|cell| cell.store(Entry::NONE.0, Ordering::Relaxed));
        let entry = Entry::table(frame[0]);
        // Release: the zeros come first. Acquire, here and in `make`: pairs with it.
        let put = cell.compare_exchange(Entry::NONE.0, entry.0, Ordering::AcqRel, Ordering::Acquire);
        match put {
            Ok(_) => Ok(entry),
            Err(theirs) => {
                // SAFETY: taken above, and never put anywhere.
                unsafe { self.0.give_frames(&frame) };
                Ok(Entry(theirs))
            }
        }
    }

    /// The entry of `page` or of a leaf that holds it; `Err` with the order of what is missing when there is no table for it.
    pub(crate) fn find(self, page: u64) -> Result<Slot<'m>, u32> {
        let mut table = self.table(self.0.root());
        for level in (2..=4).rev() {
            let slot = Slot::new(table, page, level);
            let entry = slot.get();
            if entry.is_leaf() {
                return Ok(slot);
            }
            if entry == Entry::NONE {
                return Err(order_of(level));
            }
            table = self.table(entry.frame());
        }
        Ok(Slot::new(table, page, 1))
    }

    /// Calls `act` for the entries of `range`, in order; for leaves above the lowest level with the part of the range that they hold.
    /// What has no table is passed over.
    #[inline]
    pub(crate) fn each<E>(
        self,
        range: PageRange,
        mut act: impl FnMut(&Slot<'m>, PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut page = range.start();
        while page < range.end() {
            let order = match self.find(page) {
                Err(order) => order,
                Ok(slot) if slot.order > 0 => {
                    act(&slot, self.part(page, slot.order, range))?;
                    slot.order
                }
                Ok(slot) => {
                    self.each_in_table(&slot, self.part(page, TABLE_SHIFT, range), &mut act)?;
                    TABLE_SHIFT
                }
            };
            page = ((page >> order) + 1) << order;
        }
        Ok(())
    }

    /// The same in one table of the lowest level, whose entry for the first page of `part` is known.
    #[inline]
    fn each_in_table<E>(
        self,
        first: &Slot<'m>,
        part: PageRange,
        act: &mut impl FnMut(&Slot<'m>, PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        for (nth, page) in (part.start()..part.end()).enumerate() {
            let slot = Slot { table: first.table, index: first.index + nth, order: 0 };
            act(&slot, PageRange::from_len(page, 1).unwrap_or(part))?;
        }
        Ok(())
    }

    /// Makes the leaf in `slot` a table of leaves one level below, with the same pages and bits.
    #[cold]
    pub(crate) fn split(self, slot: &Slot<'m>) -> Result<(), NoTable> {
        let mut frame = [Frame(0)];
        if !self.0.take_frames(&mut frame) {
            return Err(NoTable);
        }
        let (leaf, order) = (slot.get(), slot.order - TABLE_SHIFT);
        let leaf = if order == 0 { leaf.without(Bits::LARGE) } else { leaf };
        for (cell, nth) in self.table(frame[0]).iter().zip(0..) {
            cell.store(leaf.plus(nth << order).0, Ordering::Relaxed);
        }
        slot.set(Entry::table(frame[0]));
        Ok(())
    }

    /// What of `range` from `page` on lies in the same block of 2^order pages.
    fn part(self, page: u64, order: u32, range: PageRange) -> PageRange {
        let end = (((page >> order) + 1) << order).min(range.end());
        PageRange::new(page, end).unwrap_or(range)
    }
}
