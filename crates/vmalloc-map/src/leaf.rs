//! A leaf: the boundary bitmaps of 256 aligned pages.
//!
//! Three bits a page, each in a bitmap of its own:
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

use super::bitmap::{Bitmap, LEAF_PAGES, WORDS, at};
use super::cell::{Long, Word};
use super::runs::Runs;
use crate::PageRange;
use core::mem::offset_of;
use core::num::NonZero;
use zerocopy::{FromBytes, IntoBytes};

/// Two cache lines. Who frees or looks up an area reads the first; freeing and reuse write `busy`
/// in the second. Only the holder of the map writes anything else.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C, align(64))]
pub struct Leaf {
    starts: Bitmap,
    used: Bitmap,
    busy: Bitmap,
    /// The page behind the first page of the leaf; 0 where there is no leaf.
    tag: Long,
    /// Highest bit: set where an area that starts here may have a note. Below: how often one was
    /// entered, so that a reader sees one that came and went.
    pub(super) notes: Long,
    /// Where the tree holds this leaf: node × 16 + slot.
    pub(super) up: Word,
    /// The leaf before this one in address order; 0 for the first.
    pub(super) prev: Word,
    /// The leaf behind this one; 0 for the last. Links free leaves too.
    pub(super) next: Word,
    /// Low half: how many free ranges start here. High half: 1 + the node that took addresses here
    /// last; 0 = none did.
    counts: Word,
}

/// The half of `counts` that holds the node.
const OWNER_SHIFT: u32 = 16;

/// An area that became free within its leaf: bits there.
pub(crate) struct Hole {
    /// The end of the area.
    pub(super) end: u32,
    /// The free range that it is now part of.
    pub(super) free_start: u32,
    pub(super) free_end: u32,
}

impl Leaf {
    /// The places of three bitmaps, the tag and the link to the next, and the size: for an outline.
    pub const FIELDS: [usize; 6] = [
        offset_of!(Self, starts),
        offset_of!(Self, used),
        offset_of!(Self, busy),
        offset_of!(Self, tag),
        offset_of!(Self, next),
        size_of::<Self>(),
    ];

    /// Begins as a leaf without starts, linked between two others.
    pub(super) fn begin(&self, prev: u32, next: u32, base: u64) {
        for word in 0..WORDS {
            debug_assert!(self.starts.get(word) == 0, "a leaf in use");
        }
        self.tag.set(base.wrapping_add(1));
        self.prev.set(prev);
        self.next.set(next);
        self.up.set(0);
        self.counts.set(0);
        self.begin_notes();
    }

    /// Returns the node that took addresses here last, which gets them back.
    #[inline(always)]
    pub fn owner_node(&self) -> Option<usize> {
        Some(self.owner_hint()).filter(|&owner| owner != usize::MAX)
    }

    /// Returns the owner node, or a number that is no node's: for where any node would do.
    #[inline(always)]
    pub fn owner_hint(&self) -> usize {
        ((self.counts.get() >> OWNER_SHIFT) as usize).wrapping_sub(1)
    }

    /// Makes node `node` the one that gets addresses here back. The caller holds the map.
    #[inline]
    pub fn set_owner_node(&self, node: usize) {
        self.counts.set(self.free_ranges() | (node as u32 + 1) << OWNER_SHIFT);
    }

    /// Returns how many free ranges start here: at most one for every second page, so the low half
    /// never runs over.
    #[inline(always)]
    pub(super) fn free_ranges(&self) -> u32 {
        self.counts.get() & ((1 << OWNER_SHIFT) - 1)
    }

    /// Makes the area that starts at `page` not busy. The caller holds the map and has just cut the
    /// area, so no reader has seen it busy.
    #[inline]
    pub fn withhold(&self, page: u64) {
        self.clear_busy(Self::bit(page));
    }

    /// Makes the area that starts at `page` busy. Returns false if it was busy before.
    #[inline(always)]
    #[must_use]
    pub fn make_busy(&self, page: u64) -> bool {
        !self.set_busy(Self::bit(page))
    }

    /// Returns the starts in word `word` of the leaf.
    #[inline(always)]
    pub(super) fn starts(&self, word: usize) -> u64 {
        self.starts.get(word)
    }

    /// Returns the starts of areas in word `word` of the leaf.
    #[inline(always)]
    pub(super) fn used(&self, word: usize) -> u64 {
        self.used.get(word)
    }

    /// Returns the first page of the leaf.
    #[inline(always)]
    pub(super) fn base(&self) -> u64 {
        self.tag.get().wrapping_sub(1)
    }

    /// Returns true if this is the leaf of `page`.
    #[inline(always)]
    pub(super) fn is_of(&self, page: u64) -> bool {
        self.base() == page & !u64::from(LEAF_PAGES - 1)
    }

    /// Ends as a leaf.
    pub(super) fn end(&self) {
        self.tag.set(0);
    }

    /// Returns the bit of `page`, which lies in this leaf.
    #[inline]
    pub(super) fn bit(page: u64) -> u32 {
        page as u32 & (LEAF_PAGES - 1)
    }

    /// Returns the page of a bit. A reader without the map may meet a leaf that has just ended, and
    /// finds that out later.
    #[inline]
    pub(super) fn page(&self, bit: u32) -> u64 {
        self.base().wrapping_add(u64::from(bit))
    }

    #[inline]
    pub(super) fn is_start(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.starts.get(word) & mask != 0
    }

    #[inline]
    pub(super) fn is_used(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.used.get(word) & mask != 0
    }

    #[inline]
    pub(super) fn is_busy(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.busy.get(word) & mask != 0
    }

    /// Returns true if an area, handed out or not, starts here.
    #[inline]
    pub(super) fn is_area(&self, bit: u32) -> bool {
        let (word, mask) = at(bit);
        self.starts.get(word) & self.used.get(word) & mask != 0
    }

    /// Starts a free range here: the rest of one that was cut.
    #[inline]
    pub(super) fn start_free(&self, bit: u32) {
        self.starts.set(at(bit));
        self.count(1);
    }

    /// Starts a retired area here, inside a free range or another area.
    #[inline]
    pub(super) fn start_retired(&self, bit: u32) {
        self.used.set(at(bit));
        self.starts.set(at(bit));
    }

    /// Starts a busy area here, inside a free range or another area.
    #[inline]
    pub(super) fn start_busy(&self, bit: u32) {
        self.start_retired(bit);
        self.busy.flip_on(at(bit));
    }

    /// Turns the free range that starts here into a busy area.
    #[inline]
    pub(super) fn free_to_busy(&self, bit: u32) {
        self.used.set(at(bit));
        self.busy.flip_on(at(bit));
        self.count(-1);
    }

    /// Makes what starts at `start`, in the free range that starts at `place`, a busy area.
    #[inline]
    pub(super) fn take(&self, place: u32, start: u32) {
        if start == place { self.free_to_busy(start) } else { self.start_busy(start) }
    }

    /// Makes the area that starts here busy; whether it was.
    #[inline(always)]
    pub(super) fn set_busy(&self, bit: u32) -> bool {
        self.busy.flip_on(at(bit))
    }

    /// Makes the area that starts here retired, and returns true if it was busy: to one of two
    /// threads that try it.
    #[inline(always)]
    pub(super) fn clear_busy(&self, bit: u32) -> bool {
        self.busy.flip_off(at(bit))
    }

    /// Turns the retired area that starts here into a free range.
    #[inline]
    pub(super) fn area_to_free(&self, bit: u32) {
        self.used.clear(at(bit));
        self.count(1);
    }

    /// Joins the free range that starts here to the one before it.
    #[inline]
    pub(super) fn join_free(&self, bit: u32) {
        self.starts.clear(at(bit));
        self.count(-1);
    }

    /// Joins the area that starts here, busy or retired, to the one before it.
    pub(super) fn join_area(&self, bit: u32) {
        self.clear_busy(bit);
        self.starts.clear(at(bit));
        self.used.clear(at(bit));
    }

    #[inline(always)]
    fn count(&self, ranges: i32) {
        self.counts.set(self.counts.get().wrapping_add_signed(ranges));
    }

    /// Returns how many busy areas start here.
    pub(super) fn busy_areas(&self) -> u32 {
        (0..WORDS).map(|word| self.busy.get(word).count_ones()).sum()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        (0..WORDS).all(|word| self.starts.get(word) == 0)
    }

    /// Returns the busy area that holds `page`, if it starts in the word of the page or the one
    /// before and ends in that word or the one behind. `None` tells nothing.
    #[inline(always)]
    pub(super) fn area_near(&self, page: u64) -> Option<PageRange> {
        let (word, first) = ((page >> 6) as usize & (WORDS - 1), page & !63);
        let starts = self.starts.get(word);
        let behind = starts & u64::MAX.wrapping_shl(page as u32) << 1;
        let (home, before, back) = match NonZero::new(starts ^ behind) {
            Some(before) => (word, before, 0),
            None => {
                let home = word.checked_sub(1)?;
                (home, NonZero::new(self.starts.get(home))?, 64)
            }
        };
        let bit = u64::from(before.ilog2());
        if self.busy.get(home) >> bit & 1 == 0 {
            return None;
        }
        // From the first page of the word on; less than 0 in the word before.
        let start = bit.wrapping_sub(back);
        let end = match NonZero::new(behind) {
            Some(behind) => u64::from(behind.trailing_zeros()),
            None => {
                let next = self.starts.get(Some(word + 1).filter(|next| *next < WORDS)?);
                u64::from(NonZero::new(next)?.trailing_zeros()) + 64
            }
        };
        Some(PageRange::of(first.wrapping_add(start), first.wrapping_add(end)))
    }

    /// Returns the first start behind `bit`.
    #[inline(always)]
    pub(super) fn next_start(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let behind = self.starts.get(word) & (u64::MAX - 1) << (bit & 63);
        if behind != 0 {
            return Some((bit & (LEAF_PAGES - 64)) + behind.trailing_zeros());
        }
        self.starts.first_from(word + 1)
    }

    /// Returns the first start from word `word` on.
    #[inline(always)]
    pub(super) fn first_start_from(&self, word: usize) -> Option<u32> {
        self.starts.first_from(word)
    }

    /// Returns the first start in the leaf.
    #[inline]
    pub(super) fn first_start(&self) -> Option<u32> {
        self.starts.first_from(0)
    }

    /// Returns the last start at or before `bit`.
    #[inline]
    pub(super) fn start_at_or_before(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let before = self.starts.get(word) & u64::MAX >> (63 - (bit & 63));
        if before != 0 {
            return Some(word as u32 * 64 + before.ilog2());
        }
        self.starts.last_before(word)
    }

    /// Returns the last start before `bit`.
    #[inline]
    pub(super) fn start_before(&self, bit: u32) -> Option<u32> {
        let word = (bit >> 6) as usize & (WORDS - 1);
        let before = self.starts.get(word) & !(u64::MAX << (bit & 63));
        if before != 0 {
            return Some(word as u32 * 64 + before.ilog2());
        }
        self.starts.last_before(word)
    }

    /// Returns the last start in the leaf.
    #[inline]
    pub(super) fn last_start(&self) -> Option<u32> {
        self.starts.last_before(WORDS)
    }

    /// Frees the area at `bit` and joins the free ranges beside it, if all that lies in this leaf
    /// and not at its first page: then no high lane changes. Else nothing is changed.
    #[inline(always)]
    pub(super) fn free_inside(&self, bit: u32) -> Option<Hole> {
        let (word, mask) = at(bit);
        let starts = self.starts.get(word);
        let (behind, before) = (starts & (mask ^ mask.wrapping_neg()), starts & (mask - 1));
        let first = word as u32 * 64;
        let end =
            if behind != 0 { first + behind.trailing_zeros() } else { self.starts.first_from(word + 1)? };
        let prev = if before != 0 { first + before.ilog2() } else { self.starts.last_before(word)? };
        let mut freed = Hole { end, free_start: bit, free_end: end };
        let mut counts = self.counts.get() + 1;
        if !self.is_used(end) {
            freed.free_end = self.next_start(end)?;
        }
        if !self.is_used(prev) {
            if prev == 0 {
                return None;
            }
            freed.free_start = prev;
            self.starts.clear((word, mask));
            counts -= 1;
        }
        if freed.free_end != end {
            self.starts.clear(at(end));
            counts -= 1;
        }
        self.used.clear((word, mask));
        self.busy.flip_off((word, mask));
        self.counts.set(counts);
        Some(freed)
    }

    /// Returns the pages `[start, end)` as bits of this leaf, if they lie in it and not at its
    /// first page: then they have no high lanes.
    #[inline]
    pub(super) fn inner_bits(&self, start: u64, end: u64) -> Option<(u32, u32)> {
        let (start, end) = (start.wrapping_sub(self.base()), end.wrapping_sub(self.base()));
        if start != 0 && end <= u64::from(LEAF_PAGES) { Some((start as u32, end as u32)) } else { None }
    }

    /// Starts of free ranges in word `word` of the leaf.
    #[inline]
    pub(super) fn free_word(&self, word: usize) -> u64 {
        self.starts.get(word) & !self.used.get(word)
    }

    /// Returns the free ranges that end in this leaf, as runs of pages, and the start of the one
    /// that does not.
    #[inline]
    pub(super) fn free_runs(&self) -> (Runs, Option<u32>) {
        let free = core::array::from_fn(|word| self.free_word(word));
        let areas = core::array::from_fn(|word| self.starts.get(word) & self.used.get(word));
        let (runs, is_open) = Runs::between(free, areas);
        if !is_open {
            return (runs, None);
        }
        let tail = self.last_start().unwrap_or(0);
        (runs.before(tail), Some(tail))
    }

    /// Returns the first bit that breaks MAP-3: used without start, or busy without used.
    pub(super) fn first_stray(&self) -> Option<u32> {
        (0..LEAF_PAGES).find(|&bit| {
            (self.is_used(bit) && !self.is_start(bit)) || (self.is_busy(bit) && !self.is_used(bit))
        })
    }

    /// Returns true if `free_ranges` is the number of free ranges.
    pub(super) fn is_counted(&self) -> bool {
        (0..WORDS).map(|word| self.free_word(word).count_ones()).sum::<u32>() == self.free_ranges()
    }
}
