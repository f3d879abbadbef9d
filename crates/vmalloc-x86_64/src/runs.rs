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
//! Memory of devices gets no leaves: its caching may change within 2 MiB (MTRRs), which a leaf may
//! not span.

use crate::entry::{Bits, ENTRIES, Entry, out_of_memory};
use crate::machine::Machine;
use crate::platform::X86;
use crate::tables::{EntryRef, NoTable, Walk};
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
fn pieces(range: PageRange, runs: &[FrameRun]) -> impl Iterator<Item = Piece> {
    let (mut page, mut rest) = (range.start(), runs.iter());
    let mut run = FrameRun::default();
    core::iter::from_fn(move || {
        if run.count == 0 {
            run = *rest.next()?;
        }
        let count = run.count.min(ENTRIES - (page & (ENTRIES - 1)));
        let piece = Piece { pages: PageRange::from_len(page, count)?, first: run.first };
        run = FrameRun { first: run.first.plus(count), count: run.count - count };
        page = piece.pages.end();
        Some(piece)
    })
}

impl<M: Machine> X86<M> {
    /// Puts the frames of `runs` behind `range`, which is not mapped. When a table is missing,
    /// nothing is mapped.
    pub(crate) fn put_runs(
        &self,
        range: PageRange,
        runs: &[FrameRun],
        bits: Bits,
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
        for piece in pieces(range, runs) {
            let starts_behind_another = piece.pages.start() & (ENTRIES - 1) != 0;
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
        piece.pages.len() == ENTRIES
            && piece.first.0 & (ENTRIES - 1) == 0
            && self.machine.origin(piece.first) != Origin::Device
    }

    /// Writes the entries of all pieces, whose tables are there: leaves where no table is in their
    /// place.
    fn put_pieces(&self, range: PageRange, runs: &[FrameRun], bits: Bits) {
        let mut walk = Walk::new(self.tables());
        for piece in pieces(range, runs) {
            let Ok(slot) = walk.slot(piece.pages.start()) else { return };
            match self.tables().below(&slot) {
                Some(table) => table.of(piece.pages).put_run(piece.first, bits),
                None => slot.set(Entry::new(piece.first, bits | Bits::LARGE)),
            }
        }
    }

    /// Makes way for leaves where there are tables.
    fn detach_tables(&self, range: PageRange, runs: &[FrameRun]) {
        let mut walk = Walk::new(self.tables());
        let leaves = pieces(range, runs).filter(|piece| self.is_leaf(piece));
        let mut places = leaves.filter_map(|piece| {
            let slot = walk.slot(piece.pages.start()).ok()?;
            self.tables().below(&slot).map(|_| (slot.get(), slot))
        });
        loop {
            let mut detached: [Option<(Entry, EntryRef<'_>)>; AT_ONCE] =
                core::array::from_fn(|_| places.next());
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
        self.visit_runs(range, |run, part| {
            if run.order == 0 || part.len() == 1 << run.order {
                run.slots().for_each(|slot| slot.set(Entry::NONE));
            }
        });
    }
}
