//! A leaf: the boundary planes of 256 aligned pages.
//!
//! Three bits a page, each in a plane of its own:
//!
//! ```text
//!   page     0 1 2 3 4 5 6 7 8 9 …
//!   starts   1 . . 1 . . . 1 1 .        a segment starts here
//!   used     . . . 1 . . . . 1 .        … and it is an area, not a free range
//!   busy     . . . 1 . . . . . .        … and it is handed out
//!            free──│area─────│f│retired…
//! ```
//!
//! A segment has no record: its end is the next start, its state is two bits at its start.

use super::runs::Runs;
use super::storage::Linked;
use bytemuck::{Pod, Zeroable};

/// log2 of the pages of a leaf. Four words a plane: larger leaves cost fewer tree levels but longer scans, and
/// an isolated area pays a whole leaf.
pub(super) const LEAF_SHIFT: u32 = 8;
pub(super) const LEAF_PAGES: u32 = 1 << LEAF_SHIFT;
pub(super) const WORDS: usize = LEAF_PAGES as usize / 64;

/// One plane: a bit for each page of the leaf.
type Plane = [u64; WORDS];

/// Two cache lines: the starts and what is used, and the rest.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) starts: Plane,
    used: Plane,
    busy: Plane,
    /// The first page of the leaf.
    pub(super) base: u64,
    /// Where the tree holds this leaf: node × 16 + slot.
    pub(super) up: u32,
    /// The leaf before this one in address order; 0 for the first.
    pub(super) prev: u32,
    /// The leaf behind this one; 0 for the last. Links free leaves too.
    pub(super) next: u32,
    /// How many free ranges start here.
    pub(super) free_ranges: u32,
    pad: [u32; 2],
}

impl Linked for Leaf {
    fn link(&self) -> u32 {
        self.next
    }
    fn set_link(&mut self, next: u32) {
        self.next = next;
    }
}

/// What a leaf knows of the area around a page.
pub(super) enum Around {
    /// It is busy.
    Busy { start: u64, end: u64 },
    /// The segment is not busy.
    NotBusy,
    /// It is busy and ends farther away.
    Open { start: u64 },
    /// It starts too far away.
    Unclear,
}

/// An area that became free within its leaf: bits there.
pub(super) struct Freed {
    /// The end of the area.
    pub(super) end: u32,
    /// The free range that it is now part of.
    pub(super) free_start: u32,
    pub(super) free_end: u32,
}

/// Word and mask of a bit.
#[inline]
fn at(bit: u32) -> (usize, u64) {
    ((bit >> 6) as usize & (WORDS - 1), 1 << (bit & 63))
}

impl Leaf {
    /// A leaf without starts, linked between two others.
    pub(super) fn between(prev: u32, next: u32, base: u64) -> Self {
        Self { base, prev, next, ..Self::zeroed() }
    }

    /// The bit of `page`, which lies in this leaf.
    #[inline]
    pub(super) fn bit(page: u64) -> u32 {
        page as u32 & (LEAF_PAGES - 1)
    }

    #[inline]
    pub(super) fn page(&self, bit: u32) -> u64 {
        self.base + u64::from(bit)
    }

    #[inline]
    pub(super) fn is_start(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.starts[word] & mask != 0
    }

    #[inline]
    pub(super) fn is_used(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.used[word] & mask != 0
    }

    #[inline]
    pub(super) fn is_busy(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.busy[word] & mask != 0
    }

    /// Whether an area, handed out or not, starts here.
    #[inline]
    pub(super) fn is_area(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.starts[word] & self.used[word] & mask != 0
    }

    /// A free range starts here: the rest of one that was cut.
    #[inline]
    pub(super) fn start_free(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.starts[word] |= mask;
        self.free_ranges += 1;
    }

    /// A busy area starts here, inside a free range.
    #[inline]
    pub(super) fn start_busy(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.starts[word] |= mask;
        self.used[word] |= mask;
        self.busy[word] |= mask;
    }

    /// Turns the free range that starts here into a busy area.
    #[inline]
    pub(super) fn free_to_busy(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.used[word] |= mask;
        self.busy[word] |= mask;
        self.free_ranges -= 1;
    }

    /// Makes what starts at `start`, in the free range that starts at `hole`, a busy area.
    #[inline]
    pub(super) fn take(&mut self, hole: u32, start: u32) {
        if start == hole { self.free_to_busy(start) } else { self.start_busy(start) }
    }

    #[inline]
    pub(super) fn set_busy(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.busy[word] |= mask;
    }

    #[inline]
    pub(super) fn clear_busy(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.busy[word] &= !mask;
    }

    /// Turns the area that starts here into a free range.
    #[inline]
    pub(super) fn area_to_free(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.used[word] &= !mask;
        self.busy[word] &= !mask;
        self.free_ranges += 1;
    }

    /// Joins the free range that starts here to the one before it.
    #[inline]
    pub(super) fn join_free(&mut self, bit: u32) {
        let (word, mask) = at(bit);
        self.starts[word] &= !mask;
        self.free_ranges -= 1;
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.starts == [0; WORDS]
    }

    /// The busy area around `page`, if it starts in the word of the page or the one before.
    #[inline(always)]
    pub(super) fn area_around(&self, page: u64) -> Around {
        let (word, bit) = ((page >> 6) as usize & (WORDS - 1), page & 63);
        let starts = self.starts[word];
        let behind = starts >> bit >> 1;
        let mut home = word;
        let mut before = starts << (!page & 63);
        let mut last = page;
        if before == 0 {
            if word == 0 {
                return Around::Unclear;
            }
            home = word - 1;
            before = self.starts[home];
            last = (page & !63) - 1;
            if before == 0 {
                return Around::Unclear;
            }
        }
        let start = last - u64::from(before.leading_zeros());
        if self.busy[home] >> (start & 63) & 1 == 0 {
            return Around::NotBusy;
        }
        if behind != 0 {
            return Around::Busy { start, end: page + 1 + u64::from(behind.trailing_zeros()) };
        }
        match self.starts.get(word + 1) {
            Some(&next) if next != 0 => {
                Around::Busy { start, end: (page | 63) + 1 + u64::from(next.trailing_zeros()) }
            }
            _ => Around::Open { start },
        }
    }

    /// The first start behind `bit`.
    #[inline]
    pub(super) fn next_start(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let behind = self.starts[word] & (u64::MAX - 1) << (bit & 63);
        if behind != 0 {
            return Some(word as u32 * 64 + behind.trailing_zeros());
        }
        first_in(&self.starts, word + 1)
    }

    /// The first start in the leaf.
    #[inline]
    pub(super) fn first_start(&self) -> Option<u32> {
        first_in(&self.starts, 0)
    }

    /// The last start at or before `bit`.
    #[inline]
    pub(super) fn start_at_or_before(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let before = self.starts[word] & u64::MAX >> (63 - (bit & 63));
        if before != 0 {
            return Some(word as u32 * 64 + before.ilog2());
        }
        last_in(&self.starts[..word])
    }

    /// The last start before `bit`.
    #[inline]
    pub(super) fn start_before(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let before = self.starts[word] & !(u64::MAX << (bit & 63));
        if before != 0 {
            return Some(word as u32 * 64 + before.ilog2());
        }
        last_in(&self.starts[..word])
    }

    /// The last start in the leaf.
    #[inline]
    pub(super) fn last_start(&self) -> Option<u32> {
        last_in(&self.starts)
    }

    /// Frees the area at `bit` and joins the free ranges beside it, if all that lies in this leaf and not at its
    /// first page: then no far lane changes. Else nothing is changed.
    #[inline(always)]
    pub(super) fn free_inside(&mut self, bit: u32) -> Option<Freed> {
        let (word, mask) = at(bit);
        let starts = self.starts[word];
        let (behind, before) = (starts & (mask ^ mask.wrapping_neg()), starts & (mask - 1));
        let first = word as u32 * 64;
        let end =
            if behind != 0 { first + behind.trailing_zeros() } else { first_in(&self.starts, word + 1)? };
        let prev = if before != 0 { first + before.ilog2() } else { last_in(&self.starts[..word])? };
        let mut freed = Freed { end, free_start: bit, free_end: end };
        let mut ranges = self.free_ranges + 1;
        if !self.is_used(end) {
            freed.free_end = self.next_start(end)?;
        }
        if !self.is_used(prev) {
            if prev == 0 {
                return None;
            }
            freed.free_start = prev;
            self.starts[word] &= !mask;
            ranges -= 1;
        }
        if freed.free_end != end {
            let (word, mask) = at(end);
            self.starts[word] &= !mask;
            ranges -= 1;
        }
        self.used[word] &= !mask;
        self.busy[word] &= !mask;
        self.free_ranges = ranges;
        Some(freed)
    }

    /// The pages `[start, end)` as bits of this leaf, if they lie in it and not at its first page: then they have no
    /// far lanes.
    #[inline]
    pub(super) fn near_bits(&self, start: u64, end: u64) -> Option<(u32, u32)> {
        let (start, end) = (start.wrapping_sub(self.base), end.wrapping_sub(self.base));
        if start != 0 && end <= u64::from(LEAF_PAGES) { Some((start as u32, end as u32)) } else { None }
    }

    /// Starts of free ranges in word `word` of the leaf.
    #[inline]
    pub(super) fn free_word(&self, word: usize) -> u64 {
        self.starts[word & (WORDS - 1)] & !self.used[word & (WORDS - 1)]
    }

    /// The free ranges that end in this leaf, as runs of pages, and the start of the one that does not.
    #[inline]
    pub(super) fn free_runs(&self) -> (Runs, Option<u32>) {
        let free = core::array::from_fn(|word| self.free_word(word));
        let areas = core::array::from_fn(|word| self.starts[word] & self.used[word]);
        let (runs, is_open) = Runs::between(free, areas);
        if !is_open {
            return (runs, None);
        }
        let tail = self.last_start().unwrap_or(0);
        (runs.before(tail), Some(tail))
    }

    /// Bits that break the planes' own rule: used without start, or busy without used.
    pub(super) fn first_stray(&self) -> Option<u32> {
        (0..LEAF_PAGES).find(|&bit| {
            (self.is_used(bit) && !self.is_start(bit)) || (self.is_busy(bit) && !self.is_used(bit))
        })
    }

    /// Whether `free_ranges` is the number of free ranges.
    pub(super) fn is_counted(&self) -> bool {
        (0..WORDS).map(|word| self.free_word(word).count_ones()).sum::<u32>() == self.free_ranges
    }
}

#[inline]
fn first_in(plane: &Plane, from: usize) -> Option<u32> {
    for (word, &bits) in plane.iter().enumerate().skip(from) {
        if bits != 0 {
            return Some(word as u32 * 64 + bits.trailing_zeros());
        }
    }
    None
}

#[inline]
fn last_in(words: &[u64]) -> Option<u32> {
    for (word, &bits) in words.iter().enumerate().rev() {
        if bits != 0 {
            return Some(word as u32 * 64 + bits.ilog2());
        }
    }
    None
}
