//! The free ranges that start in one leaf: the first that takes a request, and the room of all.
//!
//! Up to [`DENSE`] ranges are looked at one by one; more of them as runs of bits, all at once.

use super::AreaMap;
use super::leaf::{LEAF_PAGES, Leaf, WORDS};
use super::room::{LANE_MAX, Lanes, MAX_ORDER, Near, Room};
use super::search::Hole;
use super::storage::Storage;
use crate::addr::PageRange;
use crate::request::Fit;

/// More free ranges than this in one leaf are treated as runs of bits: that costs about as much as eight
/// ranges do one by one (`cargo xtask instructions FS-holes-1` with other values).
const DENSE: u32 = 8;

/// The first free range of a leaf that takes a request, and what the leaf can take afterwards.
pub(super) struct Taken {
    pub(super) range: PageRange,
    /// The first page for the request.
    pub(super) start: u64,
    /// The room of the leaf once the request is cut out.
    pub(super) room: Room,
}

impl<S: Storage> AreaMap<S> {
    /// The first free range of `leaf` that takes `pages` pages aligned to `2^order`, and the leaf's room without them,
    /// in one pass. `None` in a dense leaf, in one with a huge range, and where the request does not begin in it.
    #[inline]
    pub(super) fn first_taken(&self, leaf: u32, pages: u64, order: u32) -> Option<Taken> {
        let record = &self.leaves[leaf];
        if record.free_ranges > DENSE || order > MAX_ORDER {
            return None;
        }
        let leaf_end = record.base + u64::from(LEAF_PAGES);
        let align = (1 << order) - 1;
        let mut near = Near::NONE;
        let (mut word, mut free) = (0, record.free_word(0));
        let (range, start) = loop {
            while free == 0 {
                word += 1;
                if word == WORDS {
                    return None;
                }
                free = record.free_word(word);
            }
            self.steps.tick();
            let range = self.range_at(leaf, word, free.trailing_zeros());
            free &= free - 1;
            let start = range.start() + (range.start().wrapping_neg() & align);
            if start + pages <= range.end() {
                break (range, start);
            }
            near.add(range.start(), range.end());
        };
        let rest = start + pages;
        if start >= leaf_end || range.len() > LANE_MAX {
            return None;
        }
        // The last free pages that start here: only they may run out of the leaf.
        let mut last = (range.start(), start);
        if start > range.start() {
            near.add(range.start(), start);
        }
        if rest < range.end() && rest < leaf_end {
            near.add(rest, range.end());
            last = (rest, range.end());
        }
        loop {
            while free != 0 {
                let range = self.range_at(leaf, word, free.trailing_zeros());
                free &= free - 1;
                near.add(range.start(), range.end());
                last = (range.start(), range.end());
            }
            word += 1;
            if word == WORDS {
                break;
            }
            free = record.free_word(word);
        }
        let mut lanes = Lanes::near_only(near.0);
        if last.1 > leaf_end || record.free_word(0) & 1 != 0 {
            lanes = self.with_far(leaf, lanes, (range.start(), start), last)?;
        }
        Some(Taken { range, start, room: Room { lanes, excess: 0 } })
    }

    /// Adds the lanes for orders of 8 and up, which only ranges at the edges of the leaf have: the one that starts
    /// with it, of which `cut` may be left, and `last`. `None` if that is huge.
    #[inline(never)]
    fn with_far(&self, leaf: u32, mut lanes: Lanes, cut: (u64, u64), last: (u64, u64)) -> Option<Lanes> {
        let record = &self.leaves[leaf];
        let mut add = |start: u64, end: u64| {
            if end > start {
                lanes = lanes.max(Lanes::of(start, (end - start).min(LANE_MAX)));
            }
        };
        if record.free_word(0) & 1 != 0 {
            let first = if cut.0 == record.base { cut } else { (record.base, self.end_of(leaf, 0)) };
            add(first.0, first.1);
        }
        add(last.0, last.1);
        if last.1 - last.0 > LANE_MAX { None } else { Some(lanes) }
    }

    /// The first free range of `leaf`, from bit `from` on, that takes `fit` at or above page `lower`.
    #[inline(never)]
    pub(super) fn first_in_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit) -> Option<Hole> {
        let record = &self.leaves[leaf];
        if record.free_ranges > DENSE
            && let Some(order) = fit.plain_order()
        {
            return self.first_in_dense_leaf(leaf, from, lower, fit, order);
        }
        let mut free = record.free_word((from as usize / 64) & (WORDS - 1)) & (u64::MAX << (from % 64));
        for word in from as usize / 64..WORDS {
            while free != 0 {
                self.steps.tick();
                let range = self.range_at(leaf, word, free.trailing_zeros());
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
    fn range_at(&self, leaf: u32, word: usize, bit: u32) -> PageRange {
        let record = &self.leaves[leaf];
        let start = record.base + word as u64 * 64 + u64::from(bit);
        let behind = record.starts[word & (WORDS - 1)] >> bit >> 1;
        let end = if behind != 0 {
            start + 1 + u64::from(behind.trailing_zeros())
        } else {
            self.end_beyond(leaf, word)
        };
        PageRange::of(start, end)
    }

    /// The first start in the words behind `word` of `leaf`, or in the leaves behind it.
    #[inline(always)]
    fn end_beyond(&self, leaf: u32, word: usize) -> u64 {
        let record = &self.leaves[leaf];
        for later in word + 1..WORDS {
            if record.starts[later] != 0 {
                return record.base + later as u64 * 64 + u64::from(record.starts[later].trailing_zeros());
            }
        }
        self.first_start_behind(leaf)
    }

    #[inline(never)]
    fn first_in_dense_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit, order: u32) -> Option<Hole> {
        self.steps.tick();
        let record = &self.leaves[leaf];
        let (runs, tail) = record.free_runs();
        // A range that starts before `from` but holds `lower` is looked at too, and never one before it.
        let first =
            if lower > record.base { (lower - record.base).min(u64::from(LEAF_PAGES)) as u32 } else { 0 };
        if let Some(bit) = runs.from(from.max(first)).first_fit(fit.pages(), order, record.base) {
            let start = record.start_at_or_before(bit)?;
            let range = PageRange::of(record.page(start), self.end_of(leaf, start));
            return Some(Hole { leaf, range, start: record.page(bit) });
        }
        let tail = tail.filter(|&bit| bit >= from)?;
        let range = PageRange::of(record.page(tail), self.first_start_behind(leaf));
        fit.lowest_from(lower, range).map(|start| Hole { leaf, range, start })
    }

    /// The room of the free ranges that start in `leaf`.
    #[inline(never)]
    pub(super) fn room_of(&self, leaf: u32) -> Room {
        let record = &self.leaves[leaf];
        if record.free_ranges > DENSE {
            return self.room_of_dense(leaf);
        }
        // Downwards, so that the end of the last range of a word is at hand: the lowest start seen so far.
        let mut lanes = Lanes::NONE;
        let mut excess = 0;
        let mut next = 0;
        for word in (0..WORDS).rev() {
            let (starts, mut free) = (record.starts[word], record.free_word(word));
            let base = record.base + word as u64 * 64;
            while free != 0 {
                let bit = free.ilog2();
                let behind = starts >> bit >> 1;
                let len = if behind != 0 {
                    u64::from(behind.trailing_zeros()) + 1
                } else {
                    if next == 0 {
                        next = self.first_start_behind(leaf);
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
    fn room_of_dense(&self, leaf: u32) -> Room {
        let record = &self.leaves[leaf];
        let (runs, tail) = record.free_runs();
        let room = Room { lanes: runs.lanes(record.base), excess: 0 };
        match tail {
            Some(bit) => room.max(Room::of(record.page(bit), self.first_start_behind(leaf))),
            None => room,
        }
    }
}

/// A leaf's bits are counted in `u32` and its pages in `u64`.
const _: () = assert!(WORDS as u32 * 64 == LEAF_PAGES && size_of::<Leaf>() == 120);
