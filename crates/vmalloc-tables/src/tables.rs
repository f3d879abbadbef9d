//! Page tables of the span.
//!
//! ```text
//!   level   an entry of the usual four levels of 4 KiB      table
//!     4         512 GiB        bits 39–47   root ──►  ┌───┬───┬───┐
//!     3           1 GiB        bits 30–38             │   │ ┬ │   │  a leaf of 1 GiB, or a table
//!     2           2 MiB        bits 21–29             └───┴─│─┴───┘  a leaf of 2 MiB, or a table
//!     1           4 KiB        bits 12–20                   ▼        a page
//! ```
//!
//! - **X1** An entry above level 1 is none, a leaf, or a table; a table stays until a leaf takes
//!   its place.
//! - **X2** The entry of a page belongs to the owner of the page: no other CPU writes it. Entries
//!   of tables belong to all, and go from none to a table by one exchange: the loser gives its
//!   frame back.
//! - **X3** A frame that a page owned is in exactly one place: in its present entry, in its stale
//!   one, or back in the supply.
//! - **X4** A table of the lowest level goes back to the supply when a leaf has taken its place and
//!   every CPU has acknowledged a shootdown. So a CPU that looks for a page of any owner keeps
//!   interrupts off from the root to the entry ([`pinned`](crate::machine::pinned)): it acknowledges
//!   nothing on the way. The owner of a page needs none of that, for the table of its page stays.

use crate::entry::{Entry, entries};
use crate::format::Format;
use crate::machine::{FormatOf, Machine};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use vmalloc::{Frame, PageRange};

/// Entries that are written without a branch between them.
pub(crate) const AT_ONCE: usize = 64;

/// The place of a page's entry.
pub(crate) struct EntryRef<'a, F> {
    cell: &'a AtomicU64,
    /// log2 of the pages it stands for.
    pub(crate) order: u32,
    format: PhantomData<F>,
}

impl<'a, F: Format> EntryRef<'a, F> {
    #[inline]
    fn new(cell: &'a AtomicU64, order: u32) -> Self {
        Self { cell, order, format: PhantomData }
    }

    #[inline]
    pub(crate) fn get(&self) -> Entry<F> {
        // Acquire: pairs with the Release in `new_table`. Entries of pages need no order: the owner
        // of a page got it through a lock. The processor may set bits meanwhile that are never
        // read: accessed, written.
        Entry::of(self.cell.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn set(&self, entry: Entry<F>) {
        // Release: the table or page that the entry leads to was prepared before.
        self.cell.store(entry.0, Ordering::Release);
    }
}

/// Entries of one table that follow each other, or one leaf above the lowest level.
#[derive(Clone, Copy)]
pub(crate) struct EntryRun<'a, F> {
    cells: &'a [AtomicU64],
    /// log2 of the pages that each stands for.
    pub(crate) order: u32,
    format: PhantomData<F>,
}

impl<'a, F: Format> EntryRun<'a, F> {
    #[inline]
    fn new(cells: &'a [AtomicU64], order: u32) -> Self {
        Self { cells, order, format: PhantomData }
    }

    /// Returns its entries, in order.
    #[inline]
    pub(crate) fn slots(self) -> impl Iterator<Item = EntryRef<'a, F>> {
        self.cells.iter().map(move |cell| EntryRef::new(cell, self.order))
    }

    /// Writes `frames` into its entries, of which there are as many, `N` without a branch between
    /// them.
    #[inline]
    pub(crate) fn put<const N: usize>(self, frames: &[Frame], bits: u64) {
        let put = |(cell, &frame): (&AtomicU64, &Frame)| {
            EntryRef::<F>::new(cell, self.order).set(Entry::page(frame, bits));
        };
        let (chunks, frame_chunks) = (self.cells.chunks_exact(N), frames.chunks_exact(N));
        let (rest, frame_rest) = (chunks.remainder(), frame_chunks.remainder());
        for (chunk, frames) in chunks.zip(frame_chunks) {
            chunk.iter().zip(frames).for_each(put);
        }
        rest.iter().zip(frame_rest).for_each(put);
    }

    /// Writes the frames from `first` on into its entries.
    #[inline]
    pub(crate) fn put_run(self, first: Frame, bits: u64) {
        let mut entry = Entry::<F>::page(first, bits);
        let mut put = |cell: &'a AtomicU64| {
            EntryRef::new(cell, self.order).set(entry);
            entry = entry.plus(1);
        };
        let chunks = self.cells.chunks_exact(AT_ONCE);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| chunk.iter().for_each(&mut put));
        rest.iter().for_each(put);
    }

    /// Returns the entries of `pages`, which lie in it, of a run that is a whole table.
    #[inline]
    pub(crate) fn of(self, pages: PageRange) -> Self {
        let start = index::<F>(pages.start(), 1);
        Self::new(&self.cells[start..start + pages.len() as usize], self.order)
    }

    /// Returns the first entry: of a leaf, the only one.
    pub(crate) fn first(self) -> Option<EntryRef<'a, F>> {
        self.slots().next()
    }
}

/// No frame for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoTable;

/// The entries of a table of `M`.
type Table<'a, M> = &'a <FormatOf<M> as Format>::Table;
/// The entries of `M`, and their places.
type EntryOf<M> = Entry<FormatOf<M>>;
pub(crate) type RefOf<'a, M> = EntryRef<'a, FormatOf<M>>;
pub(crate) type RunOf<'a, M> = EntryRun<'a, FormatOf<M>>;

/// Returns log2 of the pages that an entry of `level` stands for.
#[inline]
pub(crate) const fn order_of<F: Format>(level: u32) -> u32 {
    (level - 1) * F::TABLE_SHIFT
}

/// Returns the number of `page`'s entry in a table of `level`.
#[inline]
fn index<F: Format>(page: u64, level: u32) -> usize {
    (page >> order_of::<F>(level) & (entries::<F>() - 1)) as usize
}

/// Returns the entry of `page` in a table of `level`.
#[inline]
fn slot<F: Format>(table: &F::Table, page: u64, level: u32) -> EntryRef<'_, F> {
    EntryRef::new(&table.as_ref()[index::<F>(page, level)], order_of::<F>(level))
}

/// The end of a descent.
enum Place<'a, M: Machine> {
    /// At a leaf above the lowest level.
    Leaf(RefOf<'a, M>),
    /// In the table of the level that was asked for.
    Table(Table<'a, M>),
}

/// A walk over entries of the second level, which remembers the table that it is in.
pub(crate) struct Walk<'m, M: Machine> {
    tables: Tables<'m, M>,
    at: Option<(u64, Table<'m, M>)>,
}

impl<'m, M: Machine> Walk<'m, M> {
    const LEVEL: u32 = 2;

    pub(crate) fn new(tables: Tables<'m, M>) -> Self {
        Self { tables, at: None }
    }

    /// Returns the entry of the second level for `page`, or a leaf above. Missing tables are made.
    #[inline]
    pub(crate) fn slot(&mut self, page: u64) -> Result<RefOf<'m, M>, NoTable> {
        let number = page >> order_of::<FormatOf<M>>(Self::LEVEL + 1);
        match self.at {
            Some((at, table)) if at == number => return Ok(slot(table, page, Self::LEVEL)),
            _ => {}
        }
        match self.tables.reach(page, Self::LEVEL)? {
            Place::Leaf(slot) => Ok(slot),
            Place::Table(table) => {
                self.at = Some((number, table));
                Ok(slot(table, page, Self::LEVEL))
            }
        }
    }
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
    fn table(self, frame: Frame) -> Table<'m, M> {
        let addr = self.0.direct_map() + (frame.0 << FormatOf::<M>::PAGE_SHIFT) as usize;
        // SAFETY: a frame that holds a table: the root, or one that `new_table` made. Through the
        // direct map it is a page of aligned words that are only read and written as atomics. It
        // stays a table as long as the machine lives (X1), or until no CPU can reach it any more:
        // not before the owner of its pages or a CPU with interrupts off has done with it (X4).
        unsafe { &*core::ptr::with_exposed_provenance(addr) }
    }

    /// Returns the entry of `page` at `level`, or that of a leaf above. Missing tables are made.
    pub(crate) fn make(self, page: u64, level: u32) -> Result<RefOf<'m, M>, NoTable> {
        Ok(match self.reach(page, level)? {
            Place::Leaf(slot) => slot,
            Place::Table(table) => slot(table, page, level),
        })
    }

    /// Returns the entries of `range`, if one table of the lowest level has them all, as it has
    /// those of most short areas. A missing table is made.
    #[inline]
    pub(crate) fn make_run(self, range: PageRange) -> Result<Option<RunOf<'m, M>>, NoTable> {
        let start = index::<FormatOf<M>>(range.start(), 1);
        if range.len() > entries::<FormatOf<M>>() - start as u64 {
            return Ok(None);
        }
        // Most tables are there: no call on that way.
        let place = match self.descend(range.start()) {
            Ok(place) => place,
            Err(_) => self.reach(range.start(), 1)?,
        };
        Ok(match place {
            Place::Leaf(_) => None,
            Place::Table(table) => {
                Some(EntryRun::new(&table.as_ref()[start..start + range.len() as usize], 0))
            }
        })
    }

    /// Returns the entries below `slot`, of the second level, if it leads to a table.
    #[inline]
    pub(crate) fn below(self, slot: &RefOf<'m, M>) -> Option<RunOf<'m, M>> {
        let entry = slot.get();
        let is_table = entry != Entry::NONE && !entry.is_leaf();
        is_table.then(|| EntryRun::new(self.table(entry.frame()).as_ref(), 0))
    }

    /// Makes sure that a table is below `slot`, of the second level.
    #[inline]
    pub(crate) fn make_below(self, slot: &RefOf<'m, M>) -> Result<(), NoTable> {
        if slot.get() == Entry::NONE {
            self.new_table(slot.cell)?;
        }
        Ok(())
    }

    /// Returns the table of `level` for `page`, or a leaf above. Missing tables are made.
    fn reach(self, page: u64, level: u32) -> Result<Place<'m, M>, NoTable> {
        let mut table = self.table(self.0.root());
        for above in (level + 1..=FormatOf::<M>::LEVELS).rev() {
            let slot = slot(table, page, above);
            let mut entry = slot.get();
            if entry == Entry::NONE {
                entry = self.new_table(slot.cell)?;
            }
            if entry.is_leaf() {
                return Ok(Place::Leaf(slot));
            }
            table = self.table(entry.frame());
        }
        Ok(Place::Table(table))
    }

    /// Puts a new table into `cell`, unless another CPU is quicker.
    #[cold]
    fn new_table(self, cell: &AtomicU64) -> Result<EntryOf<M>, NoTable> {
        let mut frame = [Frame(0)];
        self.0.take_frames(&mut frame, M::Context::default()).map_err(|_| NoTable)?;
        let table = self.table(frame[0]);
        table.as_ref().iter().for_each(|cell| cell.store(EntryOf::<M>::NONE.0, Ordering::Relaxed));
        let entry = EntryOf::<M>::table(frame[0]);
        // Release: the zeros come first. Acquire, here and in `make`: pairs with it.
        let put = cell.compare_exchange(EntryOf::<M>::NONE.0, entry.0, Ordering::AcqRel, Ordering::Acquire);
        match put {
            Ok(_) => Ok(entry),
            Err(theirs) => {
                // SAFETY: taken above, and never put anywhere, so nothing uses it.
                unsafe { self.0.give_frames(&frame) };
                Ok(Entry::of(theirs))
            }
        }
    }

    /// Returns the entry of `page` or of a leaf that holds it. Without a table for it, `Err` with
    /// the order of the missing part.
    #[inline]
    pub(crate) fn find(self, page: u64) -> Result<RefOf<'m, M>, u32> {
        match self.descend(page)? {
            Place::Leaf(slot) => Ok(slot),
            Place::Table(table) => Ok(slot(table, page, 1)),
        }
    }

    /// Returns the table of the lowest level for `page`, or a leaf above.
    #[inline]
    fn descend(self, page: u64) -> Result<Place<'m, M>, u32> {
        let mut table = self.table(self.0.root());
        for level in (2..=FormatOf::<M>::LEVELS).rev() {
            let slot = slot(table, page, level);
            let entry = slot.get();
            if entry.is_leaf() {
                return Ok(Place::Leaf(slot));
            }
            if entry == Entry::NONE {
                return Err(order_of::<FormatOf<M>>(level));
            }
            table = self.table(entry.frame());
        }
        Ok(Place::Table(table))
    }

    /// Calls `act` for the entries of `range`, in order, as many at a time as one table has. For a
    /// leaf above the lowest level it gets the part of the range that the leaf holds. Parts without
    /// a table are passed over.
    #[inline]
    pub(crate) fn each<E>(
        self,
        range: PageRange,
        mut act: impl FnMut(RunOf<'m, M>, PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut page = range.start();
        while page < range.end() {
            let (found, next) = self.part_from(page, range);
            if let Some((run, part)) = found {
                act(run, part)?;
            }
            page = next;
        }
        Ok(())
    }

    /// Returns the entries of `range` from `page` on that one table has, or a leaf, with the part
    /// that they stand for; none where there is no table. And the page behind them.
    #[inline]
    pub(crate) fn part_from(self, page: u64, range: PageRange) -> (Option<(RunOf<'m, M>, PageRange)>, u64) {
        let table_shift = FormatOf::<M>::TABLE_SHIFT;
        let (found, order) = match self.descend(page) {
            Err(order) => (None, order),
            Ok(Place::Leaf(EntryRef { cell, order, .. })) => {
                let run = EntryRun::new(core::slice::from_ref(cell), order);
                (Some((run, self.part(page, order, range))), order)
            }
            Ok(Place::Table(table)) => {
                let (part, start) = (self.part(page, table_shift, range), index::<FormatOf<M>>(page, 1));
                let cells = &table.as_ref()[start..start + part.len() as usize];
                (Some((EntryRun::new(cells, 0), part)), table_shift)
            }
        };
        (found, ((page >> order) + 1) << order)
    }

    /// Returns a new table of leaves one level below `slot`, with the pages and bits of the leaf
    /// there. No CPU sees it yet.
    #[cold]
    pub(crate) fn split(self, slot: &RefOf<'m, M>) -> Result<EntryOf<M>, NoTable> {
        let mut frame = [Frame(0)];
        self.0.take_frames(&mut frame, M::Context::default()).map_err(|_| NoTable)?;
        let (mut leaf, order) = (slot.get(), slot.order - FormatOf::<M>::TABLE_SHIFT);
        if order == 0 {
            leaf = leaf.without(FormatOf::<M>::LEAF).with(FormatOf::<M>::PAGE);
        }
        for (cell, nth) in self.table(frame[0]).as_ref().iter().zip(0..) {
            cell.store(leaf.plus(nth << order).0, Ordering::Relaxed);
        }
        Ok(Entry::table(frame[0]))
    }

    /// Returns the part of `range` from `page` on that lies in the same block of 2^order pages.
    fn part(self, page: u64, order: u32, range: PageRange) -> PageRange {
        let end = (((page >> order) + 1) << order).min(range.end());
        PageRange::new(page, end).unwrap_or(range)
    }
}
