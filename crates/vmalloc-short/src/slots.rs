//! The record of one block.

use super::slots_for;
use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use vmalloc::sync::{AtomicU8, AtomicU64, size};
use zerocopy::{FromBytes, IntoBytes};

/// The most slots of a block.
pub(crate) const MAX_SLOTS: usize = size(1024, 16) as usize;

/// In a slot's byte: returned.
const DIRTY: u8 = 0x80;

/// Added to a run's pages in its byte when its owner has returned it, and it is kept mapped for the
/// next one.
const KEPT: u8 = 64;

/// In the byte of a run that is in a window: this and the order.
const RESERVED: u8 = 0x78;

/// The state of a slot, as its byte says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotState {
    Clean,
    Reserved { order: u32 },
    Live { pages: u64 },
    Kept { pages: u64 },
    Dirty { pages: u64 },
}

impl SlotState {
    fn of(byte: u8) -> Self {
        let pages = u64::from(byte & !DIRTY);
        match byte {
            0 => Self::Clean,
            _ if byte & DIRTY != 0 => Self::Dirty { pages },
            _ if byte >= RESERVED => Self::Reserved { order: u32::from(byte - RESERVED) },
            _ if byte > KEPT => Self::Kept { pages: pages - u64::from(KEPT) },
            _ => Self::Live { pages },
        }
    }
}

/// The state of a block. Changes only with the lists locked (BLOCK-4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockState {
    /// It is no block: its addresses belong to others.
    Unused,
    /// A queue has a window of it.
    Open,
    /// No window is left, and slots are live.
    Closed,
    /// All slots are dirty.
    Spent,
    /// The purge under way has it.
    Purging,
    /// Some slots are clean: on a list.
    Part,
    /// All slots are clean: on a list.
    Ready,
}

/// By their numbers. Eight, so that a mask checks a number; the last is in no record.
const STATES: [BlockState; 8] = [
    BlockState::Unused,
    BlockState::Open,
    BlockState::Closed,
    BlockState::Spent,
    BlockState::Purging,
    BlockState::Part,
    BlockState::Ready,
    BlockState::Unused,
];

/// The record of a block: made when the first block is placed at its addresses, and kept for all
/// that follow.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct Block {
    slots: [AtomicU8; MAX_SLOTS],
    /// BLOCK-2.
    held: AtomicU64,
    /// BLOCK-3. Written with the lists locked.
    clean: AtomicU64,
    /// A [`BlockState`] by its number.
    state: AtomicU64,
    /// The first page of the block behind this one on its list.
    pub(crate) next: AtomicU64,
    /// Its place among all blocks.
    pub(crate) index: AtomicU64,
    /// Not 0 if pages may be mapped that are not live: where mapping replaces what was there.
    stale: AtomicU64,
}

/// The state of a run of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Run {
    Clean,
    Reserved,
    Live,
    Dirty,
}

impl Block {
    /// Returns the byte of the slot at `page`. Blocks are aligned, so the page's last digits are
    /// enough.
    #[inline(always)]
    fn byte(&self, page: u64) -> &AtomicU8 {
        &self.slots[page as usize % MAX_SLOTS]
    }

    /// Makes `range`, which is clean, runs of a window: each has 2^`order` slots.
    pub(crate) fn reserve(&self, range: Range<u64>, order: u32) {
        let mut page = range.start;
        while page < range.end {
            self.byte(page).store(RESERVED + order as u8, Relaxed);
            page += 1 << order;
        }
    }

    /// Makes a run of a window a live one of `pages` pages. The caller has just taken it out of the
    /// window.
    #[inline(always)]
    pub(crate) fn take(&self, start: u64, pages: u64) {
        // Relaxed: the thread that returns it was told the address after this.
        self.byte(start).store(pages as u8, Relaxed);
    }

    /// Makes the live run of `pages` pages that begins at `start` dirty, if there is one.
    #[inline(always)]
    pub(crate) fn give_run(&self, start: u64, pages: u64) -> bool {
        // Acquire and release: all uses of the mapping come before its slots are found dirty.
        self.exchange(start, pages as u8, pages as u8 | DIRTY)
    }

    /// Counts slots off that were held. Returns how many were.
    #[inline(always)]
    pub(crate) fn give(&self, slots: u64) -> u64 {
        self.held.fetch_sub(slots, AcqRel)
    }

    /// Counts slots of a window. Returns how many were held.
    pub(crate) fn hold(&self, slots: u64) -> u64 {
        self.held.fetch_add(slots, AcqRel)
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Acquire)
    }

    /// Sets how many slots are held, where no other thread can.
    pub(crate) fn set_held(&self, slots: u64) {
        self.held.store(slots, Relaxed);
    }

    /// Makes a run that was taken out of a window, and never marked, dirty.
    pub(crate) fn abandon(&self, start: u64) {
        if let SlotState::Reserved { order } = self.slot(start) {
            self.byte(start).store(1 << order | DIRTY, Relaxed);
        }
    }

    pub(crate) fn clean(&self) -> u64 {
        self.clean.load(Relaxed)
    }

    pub(crate) fn set_clean(&self, slots: u64) {
        self.clean.store(slots, Relaxed);
    }

    pub(crate) fn state(&self) -> BlockState {
        STATES[self.state.load(Relaxed) as usize % STATES.len()]
    }

    pub(crate) fn set_state(&self, state: BlockState) {
        self.state.store(state as u64, Relaxed);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Relaxed) != 0
    }

    pub(crate) fn set_stale(&self, stale: bool) {
        self.stale.store(u64::from(stale), Relaxed);
    }

    /// Returns the state of the slot at `page`.
    pub(crate) fn slot(&self, page: u64) -> SlotState {
        SlotState::of(self.byte(page).load(Acquire))
    }

    /// Keeps the live run of `pages` pages, at most [`MOST_KEPT`](super::MOST_KEPT), that begins at `start`, if there
    /// is one.
    pub(crate) fn keep_run(&self, start: u64, pages: u64) -> bool {
        self.exchange(start, pages as u8, pages as u8 + KEPT)
    }

    /// Makes the kept run that begins at `start` live again.
    pub(crate) fn revive_run(&self, start: u64, pages: u64) -> bool {
        self.exchange(start, pages as u8 + KEPT, pages as u8)
    }

    /// Makes the kept run that begins at `start` dirty.
    pub(crate) fn drop_run(&self, start: u64, pages: u64) -> bool {
        self.exchange(start, pages as u8 + KEPT, pages as u8 | DIRTY)
    }

    #[inline(always)]
    fn exchange(&self, start: u64, old: u8, new: u8) -> bool {
        self.byte(start).compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }

    /// Makes every byte of `range` say that its slot is clean.
    pub(crate) fn clear(&self, range: Range<u64>) {
        range.for_each(|page| self.byte(page).store(0, Relaxed));
    }

    /// Makes the dirty runs in `range` clean slots. Returns how many.
    pub(crate) fn clear_dirty(&self, range: Range<u64>) -> u64 {
        let dirty = self.runs(range).filter(|(_, run)| *run == Run::Dirty);
        dirty
            .map(|(pages, _)| pages)
            .inspect(|pages| self.clear(pages.clone()))
            .map(|pages| len(&pages))
            .sum()
    }

    /// Returns the runs in `range`, which begins at one (BLOCK-1).
    pub(crate) fn runs(&self, range: Range<u64>) -> BlockRuns<'_> {
        BlockRuns { block: self, range }
    }

    /// Returns the first range of clean slots in `range` that has `enough`, or else the longest.
    pub(crate) fn clean_range(&self, range: Range<u64>, enough: u64) -> Option<Range<u64>> {
        let (mut best, mut here) = (0..0, 0..0);
        for (pages, run) in self.runs(range) {
            match run {
                Run::Clean if here.end == pages.start => here.end = pages.end,
                Run::Clean => here = pages,
                _ if len(&best) >= enough => break,
                _ => continue,
            }
            if len(&here) > len(&best) {
                best = here.clone();
            }
        }
        (len(&best) > 0).then_some(best)
    }
}

fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The iterator of [`Block::runs`].
pub(crate) struct BlockRuns<'a> {
    block: &'a Block,
    range: Range<u64>,
}

impl Iterator for BlockRuns<'_> {
    type Item = (Range<u64>, Run);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.range.start;
        if start >= self.range.end {
            return None;
        }
        let of = |pages| slots_for(pages).unwrap_or(1);
        let (slots, run) = match self.block.slot(start) {
            SlotState::Clean => (1, Run::Clean),
            SlotState::Reserved { order } => (1 << order, Run::Reserved),
            SlotState::Live { pages } | SlotState::Kept { pages } => (of(pages), Run::Live),
            SlotState::Dirty { pages } => (of(pages), Run::Dirty),
        };
        self.range.start = start + slots;
        Some((start..self.range.start, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use zerocopy::FromZeros;

    fn block() -> std::boxed::Box<Block> {
        Block::new_box_zeroed().unwrap()
    }

    #[test]
    fn bytes_read_as_runs() {
        let block = block();
        block.reserve(1024..1028, 2);
        block.take(1024, 3);
        block.take(1028, 1);
        block.take(1029, 1);
        assert!(block.give_run(1028, 1));
        assert!(!block.give_run(1028, 1), "twice");
        assert!(!block.give_run(1024, 4), "another count");
        let runs: Vec<_> = block.runs(1024..1032).collect();
        let clean = |page| (page..page + 1, Run::Clean);
        assert_eq!(
            runs,
            [
                (1024..1028, Run::Live),
                (1028..1029, Run::Dirty),
                (1029..1030, Run::Live),
                clean(1030),
                clean(1031)
            ]
        );
        assert!(
            block.keep_run(1024, 3)
                && !block.give_run(1024, 3)
                && block.slot(1024) == SlotState::Kept { pages: 3 }
        );
        assert!(block.revive_run(1024, 3) && block.slot(1024) == SlotState::Live { pages: 3 });
        assert_eq!(block.clear_dirty(1024..1032), 1);
        assert_eq!(block.clean_range(1024..1032, 64), Some(1030..1032));
        assert_eq!(block.clean_range(1024..1032, 1), Some(1028..1029), "the first that is enough");
    }
}
