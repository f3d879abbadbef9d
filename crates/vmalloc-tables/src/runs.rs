//! Runs of frames: one leaf for each whole aligned 2 MiB, and entries written table by table.
//!
//! ```text
//!   pages    │   ·····│················│·····   │      tables of the lowest level
//!   runs     │   [ a  ][    b     ][   c  ]     │
//!   pieces   │   [ a  │][   b     ]│[  c  ]     │      one table and one run each
//! ```
//! A piece that is all of a table, and whose frames begin at a multiple of 2 MiB, becomes a leaf in
//! the table above. A table that was in that place is empty, for its pages are the caller's, and is
//! detached first. Its entry above is cleared, every CPU forgets it, and its frame goes back. Where
//! a CPU does not answer, it is put back, and gets entries.
//!
//! A piece that is no leaf gets *groups* where the format has them: whole aligned sixteens, say,
//! whose entries carry a hint. Before a part of a group changes, `leave_groups` makes it single
//! pages: their entries are broken, all CPUs forget them, and they are made without the hint.
//!
//! Memory of devices gets no leaves: its caching may change within 2 MiB (MTRRs), which a leaf may
//! not span.

use crate::entry::{Entry, entries, out_of_memory};
use crate::format::Format;
use crate::machine::{FormatOf, Machine};
use crate::platform::PageTables;
use crate::tables::{NoTable, Walk};
use vmalloc::{Frame, FrameRun, Origin, PageRange, PlatformError};

/// Tables that are detached with one shootdown.
const AT_ONCE: usize = 16;

/// Pages of one table that one run of frames is behind.
#[derive(Clone, Copy)]
struct Piece {
    pages: PageRange,
    first: Frame,
}

/// Returns the pieces that `runs` behind `range` are in, in order.
fn pieces<F: Format>(range: PageRange, runs: &[FrameRun]) -> impl Iterator<Item = Piece> {
    let (mut page, mut rest) = (range.start(), runs.iter());
    let mut run = FrameRun::default();
    core::iter::from_fn(move || {
        if run.count == 0 {
            run = *rest.next()?;
        }
        let count = run.count.min(entries::<F>() - (page & (entries::<F>() - 1)));
        let piece = Piece { pages: PageRange::from_len(page, count)?, first: run.first };
        run = FrameRun { first: run.first.plus(count), count: run.count - count };
        page = piece.pages.end();
        Some(piece)
    })
}

/// Returns the parts of `piece` in order, with the bits that make them groups: the pages before
/// the first whole group, the whole groups, and the pages behind them.
fn groups<F: Format>(piece: &Piece) -> [Option<(PageRange, u64)>; 3] {
    let Piece { pages, first } = *piece;
    let size = 1 << F::GROUP_ORDER;
    if size == 1 || (pages.start() ^ first.0) & (size - 1) != 0 {
        return [Some((pages, 0)), None, None];
    }
    let from = pages.start().next_multiple_of(size).min(pages.end());
    let to = (pages.end() & !(size - 1)).max(from);
    let part = |start, end, bits| PageRange::new(start, end).map(|pages| (pages, bits));
    [part(pages.start(), from, 0), part(from, to, F::GROUP), part(to, pages.end(), 0)]
}

impl<M: Machine> PageTables<M> {
    /// Puts the frames of `runs` behind `range`, which is not mapped. When a table is missing,
    /// nothing is mapped.
    pub(crate) fn put_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        bits: u64,
    ) -> Result<(), PlatformError> {
        let is_in_the_way = self.make_way(range, runs).map_err(|NoTable| out_of_memory("page table"))?;
        // Nothing can fail from here on.
        if is_in_the_way {
            self.detach_tables(range, runs);
        }
        self.put_pieces(range, runs, bits);
        Ok(())
    }

    /// Makes the tables for `runs` behind `range`. Returns true if tables are in places of leaves.
    fn make_way(&self, range: PageRange, runs: &[FrameRun]) -> Result<bool, NoTable> {
        let (mut walk, mut is_in_the_way) = (Walk::new(self.tables()), false);
        for piece in pieces::<FormatOf<M>>(range, runs) {
            let starts_behind_another = piece.pages.start() & (entries::<FormatOf<M>>() - 1) != 0;
            if starts_behind_another && piece.pages.start() != range.start() {
                continue;
            }
            let slot = walk.slot(piece.pages.start())?;
            if self.is_leaf(&piece) {
                is_in_the_way |= slot.get() != Entry::NONE;
            } else {
                self.tables().make_below(&slot)?;
            }
        }
        Ok(is_in_the_way)
    }

    /// Returns true if one leaf can stand for all of `piece`.
    #[inline]
    fn is_leaf(&self, piece: &Piece) -> bool {
        piece.pages.len() == entries::<FormatOf<M>>()
            && piece.first.0 & (entries::<FormatOf<M>>() - 1) == 0
            && self.machine.origin(piece.first) != Origin::Device
    }

    /// Writes the entries of all pieces, whose tables are there: leaves where no table is in their
    /// place.
    fn put_pieces(&self, range: PageRange, runs: &[FrameRun], bits: u64) {
        let mut walk = Walk::new(self.tables());
        for piece in pieces::<FormatOf<M>>(range, runs) {
            let Ok(slot) = walk.slot(piece.pages.start()) else { return };
            match self.tables().below(&slot) {
                Some(table) if FormatOf::<M>::GROUP_ORDER == 0 => {
                    table.of(piece.pages).put_run(piece.first, bits);
                }
                Some(table) => {
                    for (pages, group) in groups::<FormatOf<M>>(&piece).into_iter().flatten() {
                        let first = piece.first.plus(pages.start() - piece.pages.start());
                        table.of(pages).put_run(first, bits | group);
                    }
                }
                None => slot.set(Entry::leaf(piece.first, bits)),
            }
        }
    }

    /// Makes way for leaves where there are tables.
    fn detach_tables(&self, range: PageRange, runs: &[FrameRun]) {
        let mut walk = Walk::new(self.tables());
        let leaves = pieces::<FormatOf<M>>(range, runs).filter(|piece| self.is_leaf(piece));
        let mut places = leaves.filter_map(|piece| {
            let slot = walk.slot(piece.pages.start()).ok()?;
            self.tables().below(&slot).map(|_| (slot.get(), slot))
        });
        loop {
            let mut detached: [_; AT_ONCE] = core::array::from_fn(|_| places.next());
            if detached[0].is_none() {
                return;
            }
            detached.iter().flatten().for_each(|(_, slot)| slot.set(Entry::NONE));
            let is_forgotten = self.shoot(&[range]).is_ok();
            for (table, slot) in detached.iter_mut().filter_map(Option::take) {
                if is_forgotten {
                    // SAFETY: taken for a table, which is empty, and which no CPU reaches any more.
                    unsafe { self.machine.give_frames(&[table.frame()]) };
                } else {
                    slot.set(table);
                }
            }
            if !is_forgotten {
                return;
            }
        }
    }

    /// Clears the entries of `range` that are all of a leaf or base pages.
    #[inline]
    pub(crate) fn clear_whole(&self, range: PageRange) {
        self.leave_groups(range);
        self.visit_runs(range, |run, part| {
            if run.order == 0 || part.len() == 1 << run.order {
                run.slots().for_each(|slot| slot.set(Entry::NONE));
            }
        });
    }

    /// Makes the groups that lie in `range` only in part single pages.
    #[inline]
    pub(crate) fn leave_groups(&self, range: PageRange) {
        if FormatOf::<M>::GROUP_ORDER > 0 {
            [range.start(), range.end()].into_iter().for_each(|page| self.leave_group(page));
        }
    }

    /// Makes the group that begins before `page` and goes on behind it single pages.
    fn leave_group(&self, page: u64) {
        let (group, present, size) =
            (FormatOf::<M>::GROUP, FormatOf::<M>::PRESENT, 1 << FormatOf::<M>::GROUP_ORDER);
        let Ok(slot) = self.tables().find(page) else { return };
        let is_inside = page & (size - 1) != 0 && slot.order == 0 && slot.get().has(group);
        let Some(range) = PageRange::from_len(page & !(size - 1), size).filter(|_| is_inside) else { return };
        let _broken = self.broken.lock();
        self.visit(range, |slot| slot.set(slot.get().without(present)));
        self.machine.forget(&[range]);
        self.visit(range, |slot| slot.set(slot.get().without(group).with(present)));
        self.machine.published(&[range]);
    }
}
