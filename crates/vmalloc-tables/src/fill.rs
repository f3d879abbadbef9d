//! Entries of a span: filling, visiting, splitting and emptying them.

use crate::entry::{BATCH, Entry, entries, no_frames, out_of_memory};
use crate::format::Format;
use crate::machine::{FormatOf, Machine, pinned};
use crate::platform::PageTables;
use crate::tables::{AT_ONCE, NoTable, RefOf, RunOf};
use core::convert::Infallible;
use vmalloc::{Frame, PageRange, PlatformError, Protection};

impl<M: Machine> PageTables<M> {
    /// Makes the tables that base pages of `range` need.
    pub(crate) fn make_tables(&self, range: PageRange) -> Result<(), PlatformError> {
        let mut page = range.start();
        while page < range.end() {
            self.tables().make(page, 1).map_err(|NoTable| out_of_memory("page table"))?;
            page = ((page >> FormatOf::<M>::TABLE_SHIFT) + 1) << FormatOf::<M>::TABLE_SHIFT;
        }
        Ok(())
    }

    /// Returns the entries of `range`, if one table has them all. Otherwise its tables are made
    /// now.
    #[inline]
    pub(crate) fn reach(&self, range: PageRange) -> Result<Option<RunOf<'_, M>>, PlatformError> {
        let run = self.tables().make_run(range).map_err(|NoTable| out_of_memory("page table"))?;
        if run.is_none() {
            self.make_tables(range)?;
        }
        Ok(run)
    }

    /// Puts frames of the supply into the entries of `range`, of `run` if that has them all. One
    /// request, which fails as a whole or not at all.
    #[inline]
    pub(crate) fn fill<const MOST: usize, const N: usize>(
        &self,
        range: PageRange,
        run: Option<RunOf<'_, M>>,
        bits: u64,
        context: M::Context,
    ) -> Result<(), PlatformError> {
        let mut frames = [Frame(0); MOST];
        let frames = &mut frames[..range.len() as usize];
        self.machine.take_frames(frames, context).map_err(no_frames)?;
        match run {
            Some(run) => run.put::<N>(frames, bits),
            None => self.put(range, frames, bits),
        }
        Ok(())
    }

    /// Puts frames of the supply into the entries of any number of pages, whose tables are there.
    /// Frames that were put there before a refusal stay.
    pub(crate) fn fill_many(
        &self,
        range: PageRange,
        bits: u64,
        context: M::Context,
    ) -> Result<(), PlatformError> {
        let mut start = range.start();
        while let Some(part) = PageRange::new(start, range.end().min(start + BATCH as u64)) {
            self.fill::<BATCH, AT_ONCE>(part, None, bits, context)?;
            start = part.end();
        }
        Ok(())
    }

    /// Writes `frames` into the entries of `range`, which has tables and no leaves above them.
    pub(crate) fn put(&self, range: PageRange, frames: &[Frame], bits: u64) {
        let mut rest = frames;
        self.visit_runs(range, |run, part| {
            let Some((these, others)) = rest.split_at_checked(part.len() as usize) else { return };
            run.put::<AT_ONCE>(these, bits);
            rest = others;
        });
    }

    /// Calls `act` for all entries of `range`, as many at a time as one table has.
    #[inline]
    pub(crate) fn visit_runs(&self, range: PageRange, mut act: impl FnMut(RunOf<'_, M>, PageRange)) {
        let act = |run: RunOf<'_, M>, part| {
            act(run, part);
            Ok::<(), Infallible>(())
        };
        match self.tables().each(range, act) {
            Ok(()) => {}
        }
    }

    /// Calls `act` for every entry of `range`.
    #[inline]
    pub(crate) fn visit(&self, range: PageRange, mut act: impl FnMut(&RefOf<'_, M>)) {
        self.visit_runs(range, |run, _| run.slots().for_each(|slot| act(&slot)));
    }

    /// Calls `act` for every entry of `range`, after leaves that lie in it only in part have been
    /// split.
    pub(crate) fn visit_pages(
        &self,
        range: PageRange,
        act: &mut impl FnMut(&RefOf<'_, M>),
    ) -> Result<(), PlatformError> {
        self.leave_groups(range);
        self.tables().each(range, |run, part| {
            let leaf = if run.order == 0 || part.len() == 1 << run.order { None } else { run.first() };
            let Some(leaf) = leaf else {
                run.slots().for_each(|slot| act(&slot));
                return Ok(());
            };
            if leaf.get() == Entry::NONE {
                return Ok(());
            }
            self.split(&leaf, part.start())?;
            self.visit_pages(part, act)
        })
    }

    /// Gives the frames back that entries of `range` own and that are not present.
    pub(crate) fn reclaim(&self, range: PageRange) {
        let (mut frames, mut count) = ([Frame(0); BATCH], 0);
        let mut give = |frame: Frame| {
            // The place is there: the list is emptied as soon as it is full.
            frames[count % BATCH] = frame;
            count += 1;
            if count == BATCH {
                // SAFETY: the frames were taken: an entry that is gone owned them. Nothing uses
                // them: no CPU translates to them, for they were never present, or were shot down.
                unsafe { self.machine.give_frames(&frames) };
                count = 0;
            }
        };
        let owned = |slot: &RefOf<'_, M>| {
            let entry = slot.get();
            let state = entry.0 & (FormatOf::<M>::OWNED | FormatOf::<M>::PRESENT);
            (state == FormatOf::<M>::OWNED).then(|| {
                slot.set(Entry::NONE);
                entry.frame()
            })
        };
        self.visit_runs(range, |run, _| {
            let firsts = run.slots().filter_map(|slot| owned(&slot));
            if run.order == 0 {
                return firsts.for_each(&mut give);
            }
            firsts.flat_map(|first| (0..1 << run.order).map(move |nth| first.plus(nth))).for_each(&mut give);
        });
        // SAFETY: as above: taken, and no CPU translates to them.
        unsafe { self.machine.give_frames(&frames[..count]) };
    }

    /// Puts a leaf of 2^order pages at `page`, owned and not present. Returns true if the supply
    /// had a run for it.
    fn put_leaf(&self, page: u64, order: u32, bits: u64, context: M::Context) -> bool {
        let Ok(slot) = self.tables().make(page, order / FormatOf::<M>::TABLE_SHIFT + 1) else { return false };
        let before = slot.get();
        // A table whose place the leaf takes: of the lowest level, it is empty, for its pages are
        // the caller's.
        if before != Entry::NONE && order > FormatOf::<M>::TABLE_SHIFT {
            return false;
        }
        let Some(first) = self.machine.take_run(1 << order, 1 << order, context) else { return false };
        let leaf = Entry::leaf(first, bits);
        if before == Entry::NONE {
            slot.set(leaf);
            return true;
        }
        self.replace_table(&slot, leaf, page)
    }

    /// Replaces a table by a leaf. No CPU may reach the table any more before its frame is used for
    /// something else.
    #[cold]
    fn replace_table(&self, slot: &RefOf<'_, M>, leaf: Entry<FormatOf<M>>, page: u64) -> bool {
        let table = slot.get();
        let entries = entries::<FormatOf<M>>();
        slot.set(leaf);
        let range = PageRange::from_len(page, entries);
        if range.is_some_and(|range| self.shoot(&[range]).is_ok()) {
            // SAFETY: taken for a table, which is empty, and which no CPU reaches any more.
            unsafe { self.machine.give_frames(&[table.frame()]) };
            return true;
        }
        slot.set(table);
        for nth in 0..entries {
            // SAFETY: taken for the leaf, which was never present, so nothing uses it.
            unsafe { self.machine.give_frames(&[leaf.frame().plus(nth)]) };
        }
        false
    }

    /// Returns the largest order of a leaf that could stand at `page` and end inside `range`.
    fn leaf_order(page: u64, range: PageRange) -> Option<u32> {
        let fits = |order: &u32| page.trailing_zeros() >= *order && range.end() - page >= 1 << *order;
        [2 * FormatOf::<M>::TABLE_SHIFT, FormatOf::<M>::TABLE_SHIFT].into_iter().find(fits)
    }

    /// Makes owned entries for all of `range`, not present: leaves where they go, base pages
    /// elsewhere.
    pub(crate) fn prepare_huge(
        &self,
        range: PageRange,
        bits: u64,
        context: M::Context,
    ) -> Result<(), PlatformError> {
        let mut page = range.start();
        while page < range.end() {
            let leaf = Self::leaf_order(page, range);
            let orders = [leaf, leaf.map(|_| FormatOf::<M>::TABLE_SHIFT)].into_iter().flatten();
            if let Some(order) = { orders }.find(|&order| self.put_leaf(page, order, bits, context)) {
                page += 1 << order;
                continue;
            }
            let shift = FormatOf::<M>::TABLE_SHIFT;
            let end = (((page >> shift) + 1) << shift).min(range.end());
            let Some(part) = PageRange::new(page, end) else { break };
            self.make_tables(part)?;
            self.fill_many(part, bits, context)?;
            page = end;
        }
        Ok(())
    }

    /// Makes all entries of `range` that were prepared present.
    pub(crate) fn show(&self, range: PageRange, protection: Protection) {
        let bits = Self::shown(protection);
        self.visit(range, |slot| slot.set(slot.get().with(bits)));
        self.machine.published(&[range]);
    }

    /// Returns the present entry of `page` or of the leaf that holds it, and the number of the page
    /// in there. The page may be another owner's: interrupts are off meanwhile (X4). Where entries
    /// are broken for a moment it waits for that.
    #[inline]
    pub(crate) fn entry(&self, page: u64) -> Option<(Entry<FormatOf<M>>, u64)> {
        let look = || {
            let slot = self.tables().find(page).ok()?;
            let entry = slot.get();
            let inside = page & ((1 << slot.order) - 1);
            entry.is_present().then_some((entry, inside))
        };
        pinned::<M, _>(look).or_else(|| {
            if FormatOf::<M>::REWRITES_LIVE {
                return None;
            }
            let _whole = self.broken.lock();
            look()
        })
    }

    /// Makes the leaf in `slot`, which holds `page`, a table of leaves one level below.
    #[cold]
    fn split(&self, slot: &RefOf<'_, M>, page: u64) -> Result<(), PlatformError> {
        let table = self.tables().split(slot).map_err(|NoTable| out_of_memory("page table"))?;
        if FormatOf::<M>::REWRITES_LIVE {
            slot.set(table);
            return Ok(());
        }
        let _broken = self.broken.lock();
        slot.set(Entry::NONE);
        self.machine.forget(&[PageRange::of(page, page + 1)]);
        slot.set(table);
        self.machine.published(&[PageRange::of(page, page + 1)]);
        Ok(())
    }

    /// Splits every leaf in `range` down to base pages.
    pub(crate) fn split_all(&self, range: PageRange) -> Result<(), PlatformError> {
        self.leave_groups(range);
        loop {
            let mut split = false;
            self.tables().each(range, |run, part| {
                let Some(leaf) = run.first().filter(|leaf| leaf.order > 0) else { return Ok(()) };
                split = true;
                self.split(&leaf, part.start())
            })?;
            if !split {
                return Ok(());
            }
        }
    }
}
