//! The free ranges that start in one leaf: the first that takes a request, and the room of all.
//!
//! Up to [`DENSE`] ranges are looked at one by one; more of them as runs of bits, all at once.

use super::AreaMap;
use super::leaf::{LEAF_PAGES, Leaf, WORDS};
use super::room::{LANE_MAX, Lanes, MAX_ORDER, Room};
use super::search::Hole;
use super::storage::Storage;
use crate::addr::PageRange;
use crate::request::Fit;

/// More free ranges than this in one leaf are treated as runs of bits: that costs about as much as eight
/// ranges do one by one (`cargo xtask instructions FS-holes-1` with other values).
const DENSE: u32 = 8;

/// No page: the last one cannot be followed by an end.
const NOWHERE: u64 = u64::MAX;

/// The first free range of a leaf that takes a request, and what the leaf can take afterwards.
pub(super) struct Taken {
    pub(super) range: PageRange,
    /// The first page for the request.
    pub(super) start: u64,
    /// The room of the leaf once the request is cut out.
    pub(super) room: Room,
}

/// A pass over the free ranges of a leaf, in address order, that serves a request on the way.
struct Pass {
    pages: u64,
    align: u64,
    /// The page behind the leaf.
    leaf_end: u64,
    found: Option<(PageRange, u64)>,
    lanes: Lanes,
}

impl Pass {
    #[inline]
    fn visit(&mut self, start: u64, end: u64) {
        let mut rest = start;
        if self.found.is_none() {
            let first = start + (start.wrapping_neg() & (self.align - 1));
            if first + self.pages <= end {
                self.found = Some((PageRange::of(start, end), first));
                if first > start {
                    self.lanes = self.lanes.max(Lanes::of(start, first - start));
                }
                rest = first + self.pages;
                if rest >= self.leaf_end {
                    return;
                }
            }
        }
        self.lanes = self.lanes.max(Lanes::of(rest, end - rest));
    }
}

impl<S: Storage> AreaMap<S> {
    /// The first free range of `leaf` that takes `pages` pages aligned to `2^order`, in a sparse leaf without huge
    /// ranges; `None` in any other.
    #[inline]
    pub(super) fn first_taken(&self, leaf: u32, pages: u64, order: u32) -> Option<Taken> {
        let record = &self.leaves[leaf];
        if record.free_ranges > DENSE || order > MAX_ORDER {
            return None;
        }
        let leaf_end = record.base + u64::from(LEAF_PAGES);
        let mut pass = Pass { pages, align: 1 << order, leaf_end, found: None, lanes: Lanes::NONE };
        // The free range that reached the end of its word, if there is one.
        let mut open = NOWHERE;
        for word in 0..WORDS {
            let (starts, mut free) = (record.starts[word], record.free_word(word));
            let base = record.base + word as u64 * 64;
            if open != NOWHERE && starts != 0 {
                pass.visit(open, base + u64::from(starts.trailing_zeros()));
                open = NOWHERE;
            }
            while free != 0 {
                self.steps.tick();
                let bit = free.trailing_zeros();
                let behind = starts >> bit >> 1;
                let start = base + u64::from(bit);
                if behind == 0 {
                    open = start;
                    break;
                }
                pass.visit(start, start + 1 + u64::from(behind.trailing_zeros()));
                free &= free - 1;
            }
        }
        if open != NOWHERE {
            let end = self.first_start_behind(leaf);
            if end - open > LANE_MAX {
                return None;
            }
            pass.visit(open, end);
        }
        let (range, start) = pass.found.filter(|&(_, start)| start < leaf_end)?;
        Some(Taken { range, start, room: Room { lanes: pass.lanes, excess: 0 } })
    }

    /// The first free range of `leaf`, from bit `from` on, that takes `fit` at or above page `lower`.
    #[inline]
    pub(super) fn first_in_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit) -> Option<Hole> {
        let record = &self.leaves[leaf];
        if record.free_ranges > DENSE
            && let Some(order) = fit.plain_order()
        {
            return self.first_in_dense_leaf(leaf, from, lower, fit, order);
        }
        let mut free = record.free_word(from as usize / 64 & (WORDS - 1)) & u64::MAX << (from % 64);
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
    #[inline]
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
    #[inline]
    fn end_beyond(&self, leaf: u32, word: usize) -> u64 {
        let record = &self.leaves[leaf];
        for later in word + 1..WORDS {
            if record.starts[later] != 0 {
                return record.base + later as u64 * 64 + u64::from(record.starts[later].trailing_zeros());
            }
        }
        self.first_start_behind(leaf)
    }

    #[cold]
    fn first_in_dense_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit, order: u32) -> Option<Hole> {
        self.steps.tick();
        let record = &self.leaves[leaf];
        let (runs, tail) = record.free_runs();
        // A range that starts before `from` but holds `lower` is looked at too, and never one before it.
        let first = if lower > record.base { (lower - record.base).min(u64::from(LEAF_PAGES)) as u32 } else { 0 };
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
