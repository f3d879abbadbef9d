//! Room: how large a request a set of free ranges can take, for every alignment at once.
//!
//! A free range `[s, e)` takes a request aligned to `2^k` pages if it has that many pages left after the
//! padding up to the next multiple of `2^k`:
//!
//! ```text
//!   m_k(s, e) = max(0, (e − s) − (−s mod 2^k))            k = 0, 1, … , 13
//!
//!             s            next multiple of 2^k                     e
//!             │── padding ──│────────────── m_k ────────────────────│
//! ```
//!
//! The room of a set is the maximum of each `m_k` over its ranges. It answers "is there a range here that
//! takes n pages aligned to 2^k?" **exactly** (`room_k ≥ n`), so a search that follows it never turns back.
//!
//! # Representation
//! Sixteen signed 16-bit lanes, one a `k` (lanes 14 and 15 repeat 13): the maximum of two rooms is two
//! vector instructions. 16 bits are enough because all lanes of a range lie close together:
//! `m_0 − m_k ≤ 2^k − 1`.
//! - *small* (`m_0 < 2^14` pages, 64 MiB): lane k is `m_k` itself.
//! - *huge*: `full` is `m_0`, and lane k is `0x7FFF − (m_0 − m_k)`, above every small value, so the order
//!   of lanes is right even between small and huge. Huge ranges are rare: they take the slow path.
//!
//! Rejected: one mask of bits (k, j) a child, "something here takes 2^j pages aligned to 2^k", is half the
//! size but a superset, and a search may try linearly many ranges before the masks are repaired. Sixteen full
//! words a child are exact too but four times the memory and have no vector maximum in baseline x86-64.

use bytemuck::{Pod, Zeroable};

/// Lanes in a room: two 128-bit vectors.
pub(super) const LANES: usize = 16;
/// The largest alignment with a lane of its own: 2^13 pages, 32 MiB. The padding to it, 2^13 − 1, keeps every
/// lane of a huge range above 2^14.
pub(super) const MAX_ORDER: u32 = 13;
/// From this many pages on a range is huge.
pub(super) const HUGE: u64 = 1 << 14;
/// Lane 0 of a huge room.
const TOP: i16 = i16::MAX;

/// `2^k − 1` for each lane's k.
const PADS: [u16; LANES] = {
    let mut pads = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        let order = if lane < MAX_ORDER as usize { lane as u32 } else { MAX_ORDER };
        pads[lane] = ((1u32 << order) - 1) as u16;
        lane += 1;
    }
    pads
};

/// The sixteen lanes, aligned so that a vector instruction can take them from memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C, align(16))]
pub(super) struct Lanes(pub(super) [i16; LANES]);

impl Lanes {
    pub(super) const NONE: Self = Self([0; LANES]);

    /// The lanes of the small range `[start, start + len)`.
    #[inline]
    pub(super) fn small(start: u64, len: u64) -> Self {
        debug_assert!(len < HUGE);
        let before = (start as u16).wrapping_neg();
        let mut lanes = [0i16; LANES];
        for (lane, pad) in lanes.iter_mut().zip(PADS) {
            *lane = (len as u16).saturating_sub(before & pad) as i16;
        }
        Self(lanes)
    }

    #[inline]
    pub(super) fn max(mut self, other: &Self) -> Self {
        for (lane, &theirs) in self.0.iter_mut().zip(&other.0) {
            *lane = (*lane).max(theirs);
        }
        self
    }

    #[inline]
    pub(super) fn is_huge(&self) -> bool {
        self.0[0] == TOP
    }
}

/// The room of a set of free ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    pub(super) lanes: Lanes,
    /// `m_0` of a huge room, else 0.
    pub(super) full: u64,
}

impl Room {
    pub(super) const NONE: Self = Self { lanes: Lanes::NONE, full: 0 };

    /// The room of one free range.
    #[inline]
    pub(super) fn of(start: u64, end: u64) -> Self {
        let len = end - start;
        if len < HUGE { Self { lanes: Lanes::small(start, len), full: 0 } } else { Self::huge(start, len) }
    }

    #[cold]
    fn huge(start: u64, len: u64) -> Self {
        let before = (start as u16).wrapping_neg();
        Self { lanes: Lanes(PADS.map(|pad| TOP - (before & pad) as i16)), full: len }
    }

    /// `m_k` for `lane` = k.
    #[inline]
    pub(super) fn pages(&self, lane: usize) -> u64 {
        decode(self.lanes.0[lane], self.full)
    }

    /// The room of both sets together.
    #[inline]
    pub(super) fn max(&self, other: &Self) -> Self {
        if (self.full | other.full) == 0 {
            Self { lanes: self.lanes.max(&other.lanes), full: 0 }
        } else {
            self.max_huge(other)
        }
    }

    #[cold]
    fn max_huge(&self, other: &Self) -> Self {
        let full = self.full.max(other.full);
        let mut lanes = [0; LANES];
        for (lane, value) in lanes.iter_mut().enumerate() {
            // At most 2^13 − 1 below `full`: so is the lane of the range that `full` comes from.
            *value = TOP - (full - self.pages(lane).max(other.pages(lane))) as i16;
        }
        Self { lanes: Lanes(lanes), full }
    }
}

#[inline]
fn decode(lane: i16, full: u64) -> u64 {
    if full == 0 { lane as u64 } else { full - (TOP - lane) as u64 }
}

/// A question to rooms: is there a range for `pages` pages aligned to `2^order`?
///
/// For orders above [`MAX_ORDER`] the answer is a superset, and each range has to be tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) lane: usize,
    /// The smallest lane value that says yes, for requests that any huge range takes; else [`Self::DECODE`].
    need: i16,
    pages: u64,
}

impl Query {
    const DECODE: i16 = -1;

    #[inline]
    pub(super) fn new(pages: u64, order: u32) -> Self {
        let lane = order.min(MAX_ORDER) as usize;
        // A huge range has m_k ≥ 2^14 − (2^k − 1): up to there a lane that is large enough, whether small or
        // huge, is the whole answer.
        let need = if pages <= HUGE - (1 << lane) { pages as i16 } else { Self::DECODE };
        Self { lane, need, pages }
    }

    /// Whether every question can be answered by comparing one lane.
    #[inline]
    pub(super) fn direct(&self) -> Option<i16> {
        if self.need == Self::DECODE { None } else { Some(self.need) }
    }

    #[inline]
    pub(super) fn matches(&self, lanes: &Lanes, full: u64) -> bool {
        decode(lanes.0[self.lane], full) >= self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// `m_k` by its definition.
    fn m(start: u64, end: u64, order: u32) -> u64 {
        let first = start.next_multiple_of(1 << order);
        end.saturating_sub(first)
    }

    fn sample_ranges() -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for start in [0, 1, 7, 511, 512, 8191, 8192, 65_535, (1 << 34) - 3] {
            for len in [1, 2, 3, 64, 511, 512, 8191, 8192, HUGE - 1, HUGE, HUGE + 1, HUGE + 8000, 1 << 33] {
                ranges.push((start, start + len));
            }
        }
        ranges
    }

    #[test]
    fn one_range_is_exact_at_every_alignment() {
        for (start, end) in sample_ranges() {
            for order in 0..=MAX_ORDER {
                assert_eq!(Room::of(start, end).pages(order as usize), m(start, end, order), "{start} {end} {order}");
            }
        }
    }

    #[test]
    fn rooms_of_sets_answer_exactly_as_their_ranges_do() {
        let ranges = sample_ranges();
        for a in &ranges {
            for b in &ranges {
                let room = Room::of(a.0, a.1).max(&Room::of(b.0, b.1));
                for order in 0..=MAX_ORDER {
                    let largest = m(a.0, a.1, order).max(m(b.0, b.1, order));
                    assert_eq!(room.pages(order as usize), largest);
                    for pages in [1, largest.max(1), largest + 1, HUGE - 1, HUGE] {
                        let query = Query::new(pages, order);
                        let direct = query.direct().map(|need| room.lanes.0[query.lane] >= need);
                        let want = largest >= pages;
                        assert_eq!(query.matches(&room.lanes, room.full), want);
                        assert!(direct.is_none_or(|yes| yes == want), "{a:?} {b:?} {order} {pages}");
                    }
                }
            }
        }
    }
}
