//! The free ranges that start in one leaf: the first that takes a request, and the summary of all.
//!
//! Up to [`DENSE`] ranges are looked at one by one; more of them as runs of bits, all at once.

use super::AreaMap;
use super::bitmap::{LEAF_PAGES, WORDS};
use super::leaf::Leaf;
use super::search::Place;
use super::summary::{HIDES_LEAF, LANE_MAX, Lanes, Low, MAX_ORDER, Summary};
use crate::Fit;
use crate::PageRange;

/// More free ranges than this in one leaf are treated as runs of bits: that costs about as much as
/// sixteen ranges do one by one (`cargo xtask instructions FS-10k FS-align` with other values).
pub(crate) const DENSE: u32 = 16;

/// The place of a request in a leaf, and what the leaf can take afterwards. Pages are counted from
/// the leaf's first.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// Where the free range starts.
    pub(super) place: u32,
    /// The first page for the request, and the first behind it, which may lie outside the leaf.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The end of the free range.
    pub(super) free_end: u32,
    /// The low lanes of the leaf once the request is cut out.
    pub(super) low: Low,
    /// The end of the free range that runs out of the leaf, if there is one; else not behind the
    /// leaf.
    pub(super) open_end: u32,
    /// True if a free range started with the leaf, beforehand.
    pub(super) from_first: bool,
}

impl Taken {
    /// Cuts the request out of the leaf, unless that has high lanes, before or afterwards. Returns
    /// its first page, and where the tree holds the leaf.
    #[inline(always)]
    pub(super) fn cut(&self, record: &Leaf) -> Option<(u64, u32)> {
        if self.from_first || self.open_end > LEAF_PAGES {
            return None;
        }
        if self.end < self.free_end {
            record.start_free(self.end);
        }
        record.take(self.place, self.start);
        Some((record.page(self.start), record.up.get()))
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
        let starts = record.starts(0);
        Self { record, word: 0, starts, free: starts & !record.used(0) }
    }

    /// Returns the next range: its first page, and the first behind it if that is in the same word.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, Option<u32>)> {
        while self.free == 0 {
            self.word += 1;
            if self.word == WORDS {
                return None;
            }
            self.starts = self.record.starts(self.word);
            self.free = self.starts & !self.record.used(self.word);
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
    /// Returns the first free range of `leaf` that takes `pages` pages aligned to `2^order`, and
    /// the leaf's low lanes without them, in one pass; the order is at most that of a leaf. `None`
    /// where the request does not begin in the leaf.
    #[inline(always)]
    pub(super) fn first_taken(&self, record: &Leaf, pages: u32, order: u32) -> Option<Taken> {
        let pad = (1u32 << order) - 1;
        self.taken(record, pages, |from, to| {
            let start = (from + pad) & !pad;
            if start + pages <= to { Some(start) } else { None }
        })
    }

    /// Returns the first free range of `leaf` in which `start_in` tells where `pages` pages start,
    /// and the leaf's low lanes without them, in one pass.
    #[inline(always)]
    pub(super) fn taken(
        &self,
        record: &Leaf,
        pages: u32,
        start_in: impl Fn(u32, u32) -> Option<u32>,
    ) -> Option<Taken> {
        let mut low = Low::NONE;
        let mut ranges = Ranges::of(record);
        let from_first = ranges.free & 1 != 0;
        let mut open_end = 0;
        let mut end_from = |word| {
            open_end = self.end_from(record, word);
            open_end
        };
        let (place, start, free_end) = loop {
            self.steps.tick();
            let (from, to) = ranges.next()?;
            let to = to.unwrap_or_else(|| end_from(ranges.word));
            if let Some(start) = start_in(from, to) {
                break (from, start, to);
            }
            low.add(from, to);
        };
        if start > place {
            if start >= LEAF_PAGES {
                return None;
            }
            low.add(place, start);
        }
        let end = start + pages;
        if end < free_end && end < LEAF_PAGES {
            low.add(end, free_end);
        }
        while let Some((from, to)) = ranges.next() {
            self.steps.tick();
            low.add(from, to.unwrap_or_else(|| end_from(ranges.word)));
        }
        Some(Taken { place, start, end, free_end, low, open_end, from_first })
    }

    /// Returns what [`first_taken`](Self::first_taken) does, in a dense leaf.
    #[inline]
    pub(super) fn first_taken_of_many(&self, record: &Leaf, pages: u32, order: u32) -> Option<Taken> {
        self.steps.tick();
        let (runs, tail) = record.free_runs();
        let open_end =
            if tail.is_some() { self.bitmaps.first_start_behind(record) - record.base() } else { 0 };
        let open_end = open_end.min(2 * LANE_MAX) as u32;
        let from_first = record.free_word(0) & 1 != 0;
        let taken = |place, start, free_end, low| {
            Some(Taken { place, start, end: start + pages, free_end, low, open_end, from_first })
        };
        if let Some(start) = runs.first_fit(u64::from(pages), order, record.base(), &self.steps) {
            let (place, end) = (record.start_at_or_before(start)?, start + pages);
            let mut low = Low(runs.without(start, end).lanes(record.base()).low());
            low.add(tail.unwrap_or(0), open_end);
            return taken(place, start, record.next_start(place).unwrap_or(LEAF_PAGES), low);
        }
        let place = tail?;
        let pad = (1 << order) - 1;
        let start = (place + pad) & !pad;
        let end = start + pages;
        if start >= LEAF_PAGES || end > open_end {
            return None;
        }
        let mut low = Low::NONE;
        // The rest of a large range hides all others.
        if end >= LEAF_PAGES || open_end - end < HIDES_LEAF {
            low = Low(runs.lanes(record.base()).low());
            low.add(place, start);
            if end < LEAF_PAGES {
                low.add(end, open_end);
            }
        }
        taken(place, start, open_end, low)
    }

    /// Returns the first start behind word `word` of `leaf`, counted from the leaf's first page; if
    /// it is too far away for a lane, any number that is.
    #[inline(always)]
    fn end_from(&self, record: &Leaf, word: usize) -> u32 {
        let starts = if word + 1 < WORDS { record.starts(word + 1) } else { 0 };
        if starts == 0 {
            return self.end_from_slow(record, word);
        }
        (word as u32 + 1) * 64 + starts.trailing_zeros()
    }

    #[inline(never)]
    fn end_from_slow(&self, record: &Leaf, word: usize) -> u32 {
        let end = self.bitmaps.end_beyond(record, word) - record.base();
        end.min(2 * LANE_MAX) as u32
    }

    /// Returns the summary of `leaf` once the request is cut out: with the lanes for orders of 8
    /// and up, which only ranges at the edges of the leaf have, the one that starts with it and the
    /// last.
    #[inline(never)]
    pub(super) fn summary_without(&self, record: &Leaf, taken: &Taken) -> Summary {
        let mut lanes = Lanes::low_only(taken.low.0);
        let mut add = |from: u32, to: u32| {
            if to > from {
                lanes = lanes.max(Lanes::of(record.page(from), u64::from(to - from)));
            }
        };
        let leaves = taken.open_end > LEAF_PAGES;
        let last = if leaves { record.last_start().filter(|&last| !record.is_used(last)) } else { None };
        if let Some(last) = last {
            if taken.open_end - last >= HIDES_LEAF {
                return Summary::of(record.page(last), self.bitmaps.first_start_behind(record));
            }
            add(last, taken.open_end);
        }
        if taken.place == 0 {
            add(0, taken.start);
        } else if record.free_word(0) & 1 != 0 {
            add(0, record.next_start(0).unwrap_or(0));
        }
        Summary { lanes, excess: 0 }
    }

    /// Returns the first free range of `leaf`, from bit `from` on, that takes `fit` at or above
    /// page `lower`.
    #[inline(never)]
    pub(super) fn first_in_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit) -> Option<Place> {
        let record = self.bitmaps.leaf(leaf);
        let dense_order = (record.free_ranges() > DENSE).then_some(fit.order());
        if let Some(order) = dense_order {
            return self.first_in_dense_leaf(leaf, from, lower, fit, order);
        }
        let mut free = record.free_word((from as usize / 64) & (WORDS - 1)) & (u64::MAX << (from % 64));
        for word in from as usize / 64..WORDS {
            while free != 0 {
                self.steps.tick();
                let range = self.range_at(record, word, free.trailing_zeros());
                if let Some(start) = fit.lowest_from(lower, range) {
                    return Some(Place { leaf, range, start });
                }
                free &= free - 1;
            }
            free = record.free_word((word + 1) & (WORDS - 1));
        }
        None
    }

    /// Returns the segment that starts at bit `bit` of word `word` of `leaf`.
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
    fn first_in_dense_leaf(&self, leaf: u32, from: u32, lower: u64, fit: &Fit, order: u32) -> Option<Place> {
        self.steps.tick();
        let record = self.bitmaps.leaf(leaf);
        let (runs, tail) = record.free_runs();
        // A range that starts before `from` but holds `lower` is looked at too, and never one
        // before it.
        let first =
            if lower > record.base() { (lower - record.base()).min(u64::from(LEAF_PAGES)) as u32 } else { 0 };
        let runs = runs.from(from.max(first));
        if let Some(bit) = runs.first_fit(fit.pages(), order, record.base(), &self.steps) {
            let start = record.start_at_or_before(bit)?;
            let range = PageRange::of(record.page(start), self.bitmaps.end_of(record, start));
            return Some(Place { leaf, range, start: record.page(bit) });
        }
        let tail = tail.filter(|&bit| bit >= from)?;
        let range = PageRange::of(record.page(tail), self.bitmaps.first_start_behind(record));
        fit.lowest_from(lower, range).map(|start| Place { leaf, range, start })
    }

    /// Returns the summary of the free ranges that start in `leaf`.
    #[inline(never)]
    pub(super) fn summary_of(&self, record: &Leaf) -> Summary {
        if record.free_ranges() > DENSE {
            return self.summary_of_dense(record);
        }
        // Downwards, so that the end of the last range of a word is at hand: the lowest start seen
        // so high.
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
        Summary { lanes, excess }
    }

    #[inline(never)]
    fn summary_of_dense(&self, record: &Leaf) -> Summary {
        let (runs, tail) = record.free_runs();
        let tail = match tail {
            Some(bit) => Summary::of(record.page(bit), self.bitmaps.first_start_behind(record)),
            None => Summary::NONE,
        };
        if tail.pages(MAX_ORDER as usize) >= u64::from(LEAF_PAGES) {
            return tail;
        }
        tail.max(Summary { lanes: runs.lanes(record.base()), excess: 0 })
    }
}

/// A leaf's bits are counted in `u32` and its pages in `u64`.
const _: () = assert!(WORDS as u32 * 64 == LEAF_PAGES && (size_of::<Leaf>() == 128 || cfg!(loom)));
