//! Summary: how large a request a set of free ranges can take, for every alignment at once.
//!
//! A free range `[s, e)` takes a request aligned to `2^k` pages if it has that many pages left
//! after the padding up to the next multiple of `2^k`:
//!
//! ```text
//!   m_k(s, e) = max(0, (e − s) − (−s mod 2^k))            k = 0, 1, … , 13
//!
//!             s            next multiple of 2^k                     e
//!             │── padding ──│────────────── m_k ────────────────────│
//! ```
//!
//! The summary of a set is the maximum of each `m_k` over its ranges. It answers "is there a range
//! here that takes n pages aligned to 2^k?" **exactly** (`room_k ≥ n`), so a search that follows it
//! never turns back.
//!
//! # Representation
//! `m_k = lane_k + excess`: sixteen signed 16-bit lanes, one a `k` (lanes 14 and 15 repeat 13), and
//! one number for all of them. Two bytes a lane are enough because the lanes of a range lie close
//! together: `m_0 − m_k ≤ 2^k − 1`. A range of at most 32767 pages (128 MiB) has no excess; a
//! *huge* one has `excess = m_0 − 32767`, which leaves at least 24576 in each lane.
//!
//! The maximum of two summaries without excess is two vector instructions. With excess both are
//! first brought to the larger excess, by a saturating subtraction: what falls below zero there was
//! no maximum.
//!
//! A request for up to 24576 pages compares one lane and never needs the excess: a huge range takes
//! it.
//!
//! Rejected: one mask of bits (k, j) a child, "something here takes 2^j pages aligned to 2^k", is
//! half the size but a superset, and a search may try linearly many ranges before the masks are
//! repaired. Sixteen full words a child are exact too but four times the memory and have no vector
//! maximum in baseline x86-64.

use super::bitmap::LEAF_PAGES;
use bytemuck::{Pod, Zeroable};
use wide::{CmpEq, i16x8};

/// Lanes in a summary: two 128-bit vectors.
pub(crate) const LANES: usize = 16;
/// The largest alignment with a lane of its own: 2^13 pages, 32 MiB. The padding to it, 2^13 − 1,
/// keeps every lane of a huge range above 2^14.
pub(crate) const MAX_ORDER: u32 = 13;
/// The largest range without excess, in pages: the largest lane value.
pub(crate) const LANE_MAX: u64 = i16::MAX as u64;
/// Every huge range takes a request of this size, at every alignment that has a lane.
const DIRECT_MAX: u64 = LANE_MAX - ((1 << MAX_ORDER) - 1);

/// A range of so many pages has at every alignment as many as a leaf at least: no range inside a
/// leaf has more.
pub(crate) const HIDES_LEAF: u32 = LEAF_PAGES + (1 << MAX_ORDER) - 1;

/// `2^k − 1` for each lane's k.
const PADS: [[i16; 8]; 2] = {
    let mut pads = [[0; 8]; 2];
    let mut lane = 0;
    while lane < LANES {
        let order = if lane < MAX_ORDER as usize { lane as u32 } else { MAX_ORDER };
        pads[lane / 8][lane % 8] = ((1u32 << order) - 1) as i16;
        lane += 1;
    }
    pads
};

/// The lanes `0…o` and, from [`MAX_ORDER`] on, those that repeat it, for each order `o`.
const UP_TO: [[[i16; 8]; 2]; MAX_ORDER as usize + 1] = {
    let mut masks = [[[0; 8]; 2]; MAX_ORDER as usize + 1];
    let mut order = 0;
    while order <= MAX_ORDER as usize {
        let mut lane = 0;
        while lane < LANES {
            let of = if lane < MAX_ORDER as usize { lane } else { MAX_ORDER as usize };
            masks[order][lane / 8][lane % 8] = if of <= order { -1 } else { 0 };
            lane += 1;
        }
        order += 1;
    }
    masks
};

/// The sixteen lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Lanes([i16x8; 2]);

impl Lanes {
    pub(super) const NONE: Self = Self([i16x8::ZERO; 2]);

    #[inline]
    pub(super) fn new(low: i16x8, high: i16x8) -> Self {
        Self([low, high])
    }

    /// Returns the lanes of the range `[start, start + len)`; `len` is at most [`LANE_MAX`].
    #[inline]
    pub(super) fn of(start: u64, len: u64) -> Self {
        debug_assert!(len <= LANE_MAX);
        let before = i16x8::splat((start as i16).wrapping_neg());
        let len = i16x8::splat(len as i16);
        let lanes = |half: usize| (len - (before & i16x8::new(PADS[half]))).max(i16x8::ZERO);
        Self([lanes(0), lanes(1)])
    }

    /// Returns the lanes of free ranges of which the positions with `pages` pages from them on are
    /// aligned to `2^order` pages at best.
    #[inline]
    pub(super) fn of_run(pages: u32, order: u32) -> Self {
        let pages = i16x8::splat(pages as i16);
        let masks = &UP_TO[order.min(MAX_ORDER) as usize];
        Self([pages & i16x8::new(masks[0]), pages & i16x8::new(masks[1])])
    }

    #[inline]
    pub(super) fn get(&self, lane: usize) -> i16 {
        bytemuck::cast_ref::<_, [i16; LANES]>(&self.0)[lane & (LANES - 1)]
    }

    /// Returns lanes without high ones.
    #[inline]
    pub(super) fn low_only(low: i16x8) -> Self {
        Self([low, i16x8::ZERO])
    }

    /// Returns orders 0 to 7, which change with every small range.
    #[inline]
    pub(super) fn low(&self) -> i16x8 {
        self.0[0]
    }

    /// Returns orders 8 and up, of which most leaves have none.
    #[inline]
    pub(super) fn high(&self) -> i16x8 {
        self.0[1]
    }

    #[inline]
    pub(super) fn max(self, other: Self) -> Self {
        Self([self.0[0].max(other.0[0]), self.0[1].max(other.0[1])])
    }

    #[inline]
    pub(super) fn equals(self, other: Self) -> bool {
        (self.0[0].cmp_eq(other.0[0]) & self.0[1].cmp_eq(other.0[1])).all()
    }

    /// Returns these lanes with an excess that is larger by `more`.
    #[inline]
    pub(super) fn lowered(self, more: u64) -> Self {
        let more = i16x8::splat(more.min(LANE_MAX) as i16);
        Self([self.0[0].saturating_sub(more), self.0[1].saturating_sub(more)])
    }

    /// Returns true if a range that is behind these lanes may be huge: no smaller one shows so
    /// much.
    #[inline]
    pub(super) fn may_be_huge(&self) -> bool {
        self.get(0) as u64 >= DIRECT_MAX
    }
}

/// Returns true if a summary of this excess stays as it is, whatever ranges without excess come or
/// go beside it. At every alignment it has more pages than they can.
#[inline]
pub(crate) fn eclipses(excess: u64) -> bool {
    excess + DIRECT_MAX > LANE_MAX
}

/// Returns true if a set of ranges with this excess stays the same whether those of `summary`
/// belong to it or not. At every alignment its largest has as many pages as they have at any.
#[inline]
pub(crate) fn hides(excess: u64, summary: &Summary) -> bool {
    excess != 0 && summary.pages(0) <= excess + DIRECT_MAX
}

/// For each page of a leaf the first page from it on that is aligned to 2^k, for k = 0…7.
static ALIGNED: [i16x8; LEAF_PAGES as usize] = {
    let mut table = [i16x8::ZERO; LEAF_PAGES as usize];
    let mut page = 0;
    while page < LEAF_PAGES as usize {
        let mut pages = [0; 8];
        let mut order = 0;
        while order < 8 {
            pages[order] = page.next_multiple_of(1 << order) as i16;
            order += 1;
        }
        table[page] = i16x8::new(pages);
        page += 1;
    }
    table
};

/// The low lanes of a growing set of ranges that start in one leaf.
#[derive(Clone, Copy)]
pub(crate) struct Low(pub(super) i16x8);

impl Low {
    pub(super) const NONE: Self = Self(i16x8::ZERO);

    /// Returns the low lanes of one range; pages as for [`add`](Self::add).
    #[inline(always)]
    pub(super) fn of(start: u32, end: u32) -> i16x8 {
        let mut low = Self::NONE;
        low.add(start, end);
        low.0
    }

    /// Adds the range between two pages counted from the leaf's first; of one that is huge
    /// nonsense, which the caller must drop. The end may lie outside the leaf.
    #[inline(always)]
    pub(super) fn add(&mut self, start: u32, end: u32) {
        let aligned = ALIGNED[start as usize & (LEAF_PAGES as usize - 1)];
        // Negative where the range has no aligned page: no maximum, as `self` begins at zero.
        self.0 = self.0.max(i16x8::splat(end as i16) - aligned);
    }
}

/// The summary of a set of free ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(super) lanes: Lanes,
    pub(super) excess: u64,
}

impl Summary {
    pub(super) const NONE: Self = Self { lanes: Lanes::NONE, excess: 0 };

    /// Returns the summary of one free range.
    #[inline]
    pub(super) fn of(start: u64, end: u64) -> Self {
        let len = end - start;
        let excess = len.saturating_sub(LANE_MAX);
        Self { lanes: Lanes::of(start, len - excess), excess }
    }

    /// Returns `m_k` for `lane` = k.
    #[inline]
    pub(super) fn pages(&self, lane: usize) -> u64 {
        self.lanes.get(lane) as u64 + self.excess
    }

    /// Returns the summary of both sets together.
    #[inline]
    pub(super) fn max(self, other: Self) -> Self {
        if (self.excess | other.excess) == 0 {
            return Self { lanes: self.lanes.max(other.lanes), excess: 0 };
        }
        self.max_huge(other)
    }

    #[inline(never)]
    fn max_huge(self, other: Self) -> Self {
        let excess = self.excess.max(other.excess);
        let lanes = self.lanes.lowered(excess - self.excess);
        Self { lanes: lanes.max(other.lanes.lowered(excess - other.excess)), excess }
    }

    #[inline]
    pub(super) fn equals(self, other: Self) -> bool {
        self.excess == other.excess && self.lanes.equals(other.lanes)
    }
}

/// A question to summaries: is there a range for `pages` pages aligned to `2^order`?
///
/// For orders above [`MAX_ORDER`] the answer is a superset, and each range has to be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(super) lane: usize,
    pages: u64,
}

impl Query {
    #[inline]
    pub(super) fn new(pages: u64, order: u32) -> Self {
        Self { lane: order.min(MAX_ORDER) as usize, pages }
    }

    /// Returns the lane value that decides, where the excess does not matter.
    #[inline]
    pub(super) fn direct(&self) -> Option<i16> {
        Self::direct_pages(self.pages)
    }

    /// Returns the lane value that decides a request of `pages` pages, where the excess does not
    /// matter.
    #[inline]
    pub(super) fn direct_pages(pages: u64) -> Option<i16> {
        if pages <= DIRECT_MAX { Some(pages as i16) } else { None }
    }

    /// Returns true if a summary of `excess` with `value` in the lane that decides says yes.
    #[inline]
    pub(super) fn is_met(&self, value: i16, excess: u64) -> bool {
        value as u64 + excess >= self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Returns `m_k` by its definition.
    fn m(start: u64, end: u64, order: u32) -> u64 {
        let first = start.next_multiple_of(1 << order);
        end.saturating_sub(first)
    }

    fn sample_ranges() -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for start in [0, 1, 7, 511, 512, 8191, 8192, 65_535, (1 << 34) - 3] {
            for len in
                [1, 2, 64, 511, 512, 8191, 8192, DIRECT_MAX, LANE_MAX, LANE_MAX + 1, LANE_MAX + 8191, 1 << 33]
            {
                ranges.push((start, start + len));
            }
        }
        if cfg!(miri) { ranges.into_iter().step_by(37).collect() } else { ranges }
    }

    #[test]
    fn one_range_is_exact_at_every_alignment() {
        for (start, end) in sample_ranges() {
            for order in 0..=MAX_ORDER {
                assert_eq!(
                    Summary::of(start, end).pages(order as usize),
                    m(start, end, order),
                    "{start} {end} {order}"
                );
            }
        }
    }

    #[test]
    fn summaries_of_sets_answer_as_their_ranges_do() {
        let ranges = sample_ranges();
        for a in &ranges {
            for b in &ranges {
                let summary = Summary::of(a.0, a.1).max(Summary::of(b.0, b.1));
                for order in 0..=MAX_ORDER {
                    let largest = m(a.0, a.1, order).max(m(b.0, b.1, order));
                    assert_eq!(summary.pages(order as usize), largest);
                    for pages in [1, largest.max(1), largest + 1, DIRECT_MAX, DIRECT_MAX + 1, LANE_MAX] {
                        let query = Query::new(pages, order);
                        let direct = query.direct().map(|need| summary.lanes.get(query.lane) >= need);
                        let want = largest >= pages;
                        assert_eq!(query.is_met(summary.lanes.get(query.lane), summary.excess), want);
                        assert!(direct.is_none_or(|yes| yes == want), "{a:?} {b:?} {order} {pages}");
                    }
                }
            }
        }
    }
}
