//! The free ranges that start in one leaf: the first that takes a request, and the room of all.
//!
//! Up to [`DENSE`] ranges are looked at one by one; more of them as runs of bits, all at once.

use super::AreaMap;
use super::leaf::{LEAF_PAGES, Leaf, WORDS};
use super::room::{HIDES_LEAF, LANE_MAX, Lanes, MAX_ORDER, Near, Room};
use super::search::Hole;
use crate::addr::PageRange;
use crate::request::Fit;

/// More free ranges than this in one leaf are treated as runs of bits: that costs about as much as sixteen
/// ranges do one by one (`cargo xtask instructions FS-10k FS-align` with other values).
pub(super) const DENSE: u32 = 16;

/// The place of a request in a leaf, and what the leaf can take afterwards. Pages are counted from the leaf's first.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// Where the free range starts.
    pub(super) hole: u32,
    /// The first page for the request, and the first behind it, which may lie outside the leaf.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The end of the free range.
    pub(super) hole_end: u32,
    /// The near lanes of the leaf once the request is cut out.
    pub(super) near: Near,
    /// The end of the free range that runs out of the leaf, if there is one; else not behind the leaf.
    pub(super) far_end: u32,
    /// Whether a free range starts with the leaf, beforehand.
    pub(super) from_first: bool,
}

impl Taken {
    /// Whether the leaf has far lanes, before or afterwards.
    #[inline(always)]
    pub(super) fn is_at_edge(&self) -> bool {
        self.from_first || self.far_end > LEAF_PAGES
    }
}

/// Walks over the free ranges that start in a leaf, from the first on.
struct Ranges<'a> {
    record: &'a Leaf,
    word: usize,
    /// Starts in this word from the next range on, and which of them are free.
    starts: u64,
    free: u64,
}

impl<'a> Ranges<'a> {
    #[inline(always)]
    fn of(record: &'a Leaf) -> Self {
        Self { record, word: 0, starts: record.starts(0), free: record.free_word(0) }
    }

    /// The next range: its first page, and the first behind it if that is in the same word.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, Option<u32>)> {
        while self.free == 0 {
            self.word += 1;
            if self.word == WORDS {
                return None;
            }
            self.starts = self.record.starts(self.word);
            self.free = self.starts & self.record.free_word(self.word);
        }
        let first = self.word as u32 * 64;
        let from = first + self.free.trailing_zeros();
        let above = self.free ^ self.free.wrapping_neg();
        self.starts &= above;
        self.free &= above;
        let to = if self.starts != 0 { Some(first + self.starts.trailing_zeros()) } else { None };
        Some((from, to))
    }
}

impl AreaMap<'_> {
    /// The first free range of `leaf` that takes `pages` pages aligned to `2^order`, and the leaf's near lanes without
    /// them, in one pass; the order is at most that of a leaf. `None` where the request does not begin in the leaf.
    #[inline(always)]
    pub(super) fn first_taken(&self, record: &Leaf, pages: u32, order: u32) -> Option<Taken> {
        let pad = (1u32 << order) - 1;
        let mut near = Near::NONE;
        let mut ranges = Ranges::of(record);
        let mut far_end = 0;
        let mut end_from = |word| {
            far_end = self.end_from(record, word);
            far_end
        };
        let (hole, start, hole_end) = loop {
            self.steps.tick();
            let (from, to) = ranges.next()?;
            let to = to.unwrap_or_else(|| end_from(ranges.word));
            let start = (from + pad) & !pad;
            if start + pages <= to {
                break (from, start, to);
            }
            near.add(from, to);
        };
        if start >= LEAF_PAGES {
            return None;
        }
        let end = start + pages;
        if start > hole {
            near.add(hole, start);
        }
        if end < hole_end && end < LEAF_PAGES {
            near.add(end, hole_end);
        }
        while let Some((from, to)) = ranges.next() {
            self.steps.tick();
            near.add(from, to.unwrap_or_else(|| end_from(ranges.word)));
        }
        let from_first = record.free_word(0) & 1 != 0;
        Some(Taken { hole, start, end, hole_end, near, far_end, from_first })
    }

    /// The same in a dense leaf.
    #[inline]
    pub(super) fn first_taken_of_many(&self, record: &Leaf, pages: u32, order: u32) -> Option<Taken> {
        self.steps.tick();
        let (runs, tail) = record.free_runs();
        let far_end =
            if tail.is_some() { self.bitmaps.first_start_behind(record) - record.base() } else { 0 };
        let far_end = far_end.min(2 * LANE_MAX) as u32;
        let from_first = record.free_word(0) & 1 != 0;
        let taken = |hole, start, hole_end, near| {
            Some(Taken { hole, start, end: start + pages, hole_end, near, far_end, from_first })
        };
        if let Some(start) = runs.first_fit(u64::from(pages), order, record.base(), &self.steps) {
            let (hole, end) = (record.start_at_or_before(start)?, start + pages);
            let mut near = Near(runs.without(start, end).lanes(record.base()).near());
            near.add(tail.unwrap_or(0), far_end);
            return taken(hole, start, record.next_start(hole).unwrap_or(LEAF_PAGES), near);
        }
        let hole = tail?;
        let pad = (1 << order) - 1;
        let start = (hole + pad) & !pad;
        let end = start + pages;
        if start >= LEAF_PAGES || end > far_end {
            return None;
        }
        let mut near = Near::NONE;
        // What is left of a large range hides all others.
        if end >= LEAF_PAGES || far_end - end < HIDES_LEAF {
            near = Near(runs.lanes(record.base()).near());
            near.add(hole, start);
            if end < LEAF_PAGES {
                near.add(end, far_end);
            }
        }
        taken(hole, start, far_end, near)
    }

    /// The first start behind word `word` of `leaf`, counted from the leaf's first page; if it is too far away for a
    /// lane, any number that is.
    #[inline(always)]
    fn end_from(&self, record: &Leaf, word: usize) -> u32 {
        let starts = if word + 1 < WORDS { record.starts(word + 1) } else { 0 };
        if starts == 0 {
            return self.end_far_from(record, word);
        }
        (word as u32 + 1) * 64 + starts.trailing_zeros()
    }

    #[inline(never)]
    fn end_far_from(&self, record: &Leaf, word: usize) -> u32 {
        let end = self.bitmaps.end_beyond(record, word) - record.base();
        end.min(2 * LANE_MAX) as u32
    }

    /// The room of `leaf` once the request is cut out: with the lanes for orders of 8 and up, which only ranges at the
    /// edges of the leaf have, the one that starts with it and the last.
    #[inline(never)]
    pub(super) fn room_without(&self, record: &Leaf, taken: &Taken) -> Room {
        let mut lanes = Lanes::near_only(taken.near.0);
        let mut add = |from: u32, to: u32| {
            if to > from {
                lanes = lanes.max(Lanes::of(record.page(from), u64::from(to - from)));
            }
        };
        if taken.far_end > LEAF_PAGES
            && let Some(last) = record.last_start().filter(|&last| !record.is_used(last))
        {
            if taken.far_end - last >= HIDES_LEAF {
                return Room::of(record.page(last), self.bitmaps.first_start_behind(record));
            }
            add(last, taken.far_end);
        }
        if taken.hole == 0 {
            add(0, taken.start);
        } else if record.free_word(0) & 1 != 0 {
            add(0, record.next_start(0).unwrap_or(0));
        }
        Room { lanes, excess: 0 }
    }

    /// The first free range of `leaf`, from bit `from` on, that takes `fit` at or above page `lower`.
    #[inline(never)]
    pub(super) fn first_in_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit) -> Option<Hole> {
        let record = self.bitmaps.leaf(leaf);
        if record.free_ranges() > DENSE
            && let Some(order) = fit.plain_order()
        {
            return self.first_in_dense_leaf(leaf, from, lower, fit, order);
        }
        let mut free = record.free_word((from as usize / 64) & (WORDS - 1)) & (u64::MAX << (from % 64));
        for word in from as usize / 64..WORDS {
            while free != 0 {
                self.steps.tick();
                let range = self.range_at(record, word, free.trailing_zeros());
                if let Some(start) = fit.lowest_from(lower, range) {
                    return Some(Hole { leaf, range, start });
                }
                free &= free - 1;
            }
            free = record.free_word((word + 1) & (WORDS - 1));
        }
        None
    }

    /// The segment that starts at bit `bit` of word `word` of `leaf`.
    #[inline(always)]
    pub(super) fn range_at(&self, record: &Leaf, word: usize, bit: u32) -> PageRange {
        let start = record.base() + word as u64 * 64 + u64::from(bit);
        let behind = record.starts(word & (WORDS - 1)) >> bit >> 1;
        let end = if behind != 0 {
            start + 1 + u64::from(behind.trailing_zeros())
        } else {
            self.bitmaps.end_beyond(record, word)
        };
        PageRange::of(start, end)
    }

    #[inline(never)]
    fn first_in_dense_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit, order: u32) -> Option<Hole> {
        self.steps.tick();
        let record = self.bitmaps.leaf(leaf);
        let (runs, tail) = record.free_runs();
        // A range that starts before `from` but holds `lower` is looked at too, and never one before it.
        let first =
            if lower > record.base() { (lower - record.base()).min(u64::from(LEAF_PAGES)) as u32 } else { 0 };
        let runs = runs.from(from.max(first));
        if let Some(bit) = runs.first_fit(fit.pages(), order, record.base(), &self.steps) {
            let start = record.start_at_or_before(bit)?;
            let range = PageRange::of(record.page(start), self.bitmaps.end_of(record, start));
            return Some(Hole { leaf, range, start: record.page(bit) });
        }
        let tail = tail.filter(|&bit| bit >= from)?;
        let range = PageRange::of(record.page(tail), self.bitmaps.first_start_behind(record));
        fit.lowest_from(lower, range).map(|start| Hole { leaf, range, start })
    }

    /// The room of the free ranges that start in `leaf`.
    #[inline(never)]
    pub(super) fn room_of(&self, record: &Leaf) -> Room {
        if record.free_ranges() > DENSE {
            return self.room_of_dense(record);
        }
        // Downwards, so that the end of the last range of a word is at hand: the lowest start seen so far.
        let mut lanes = Lanes::NONE;
        let mut excess = 0;
        let mut next = 0;
        for word in (0..WORDS).rev() {
            let (starts, mut free) = (record.starts(word), record.free_word(word));
            let base = record.base() + word as u64 * 64;
            while free != 0 {
                let bit = free.ilog2();
                let behind = starts >> bit >> 1;
                let len = if behind != 0 {
                    u64::from(behind.trailing_zeros()) + 1
                } else {
                    if next == 0 {
                        next = self.bitmaps.first_start_behind(record);
                        excess = (next - base - u64::from(bit)).saturating_sub(LANE_MAX);
                    }
                    (next - base - u64::from(bit)).min(LANE_MAX)
                };
                lanes = lanes.max(Lanes::of(base + u64::from(bit), len));
                free ^= 1 << bit;
            }
            if starts != 0 {
                next = base + u64::from(starts.trailing_zeros());
            }
        }
        Room { lanes, excess }
    }

    #[inline(never)]
    fn room_of_dense(&self, record: &Leaf) -> Room {
        let (runs, tail) = record.free_runs();
        let tail = match tail {
            Some(bit) => Room::of(record.page(bit), self.bitmaps.first_start_behind(record)),
            None => Room::NONE,
        };
        if tail.pages(MAX_ORDER as usize) >= u64::from(LEAF_PAGES) {
            return tail;
        }
        tail.max(Room { lanes: runs.lanes(record.base()), excess: 0 })
    }
}

/// A leaf's bits are counted in `u32` and its pages in `u64`.
const _: () = assert!(WORDS as u32 * 64 == LEAF_PAGES && (size_of::<Leaf>() == 128 || cfg!(loom)));
