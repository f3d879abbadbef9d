//! The free pages of a leaf as runs of bits, for leaves with many free ranges.
//!
//! Range by range, a leaf with 128 one-page holes costs 128 steps. Here all ranges of a leaf are
//! treated at once, as a 256-bit number: with F the starts of free ranges and E the starts of areas
//! (each F is followed by an E, by MAP-2),
//!
//! ```text
//!   page      7 6 5 4 3 2 1 0
//!   E         1 . 1 . . . . .
//!   F         . . . . . 1 . .
//!   E − F     1 . . 1 1 1 . .      the borrow runs from each F up to the next E
//!   & !E      . . . 1 1 1 . .      the free pages
//! ```
//!
//! From there on `x & x >> 1` are the pages with two free pages from them on, and so forth. The
//! range that runs out of the leaf, if there is one, is left to the caller.

use super::bitmap::{LEAF_PAGES, WORDS};
use super::map::Steps;
use super::summary::{Lanes, Low, MAX_ORDER};
use core::array;

/// The longest runs that are all treated at once: a step costs as much as one and a half runs one
/// by one.
const SHORT: u32 = 3;

/// A bit for each page of a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Runs([u64; WORDS]);

/// Bits of a word at multiples of `2^k`, for k = 0…5.
const ALIGNED: [u64; 6] = {
    let mut masks = [0; 6];
    let mut order = 0;
    while order < 6 {
        let mut bit = 0;
        while bit < 64 {
            masks[order] |= 1 << bit;
            bit += 1 << order;
        }
        order += 1;
    }
    masks
};

impl Runs {
    /// Returns the pages of the free ranges that start at `free`, each of which ends at the next
    /// bit of `areas`, and whether the last has no such bit and runs to the end of the leaf.
    #[inline]
    pub(super) fn between(free: [u64; WORDS], areas: [u64; WORDS]) -> (Self, bool) {
        let mut pages = [0; WORDS];
        let mut borrow = false;
        for word in 0..WORDS {
            let (part, under) = areas[word].overflowing_sub(free[word]);
            let (part, under_more) = part.overflowing_sub(u64::from(borrow));
            borrow = under | under_more;
            pages[word] = part & !areas[word];
        }
        (Self(pages), borrow)
    }

    /// Keeps the pages before `bit` alone.
    #[inline]
    pub(super) fn before(mut self, bit: u32) -> Self {
        let last = (bit / 64) as usize & (WORDS - 1);
        self.0[last] &= !(u64::MAX << (bit % 64));
        for word in 1..WORDS {
            if word > last {
                self.0[word] = 0;
            }
        }
        self
    }

    /// Keeps the pages from `bit` on alone.
    #[inline]
    pub(super) fn from(mut self, bit: u32) -> Self {
        for (word, bits) in self.0.iter_mut().enumerate() {
            *bits &= mask_from(bit.saturating_sub(word as u32 * 64));
        }
        self
    }

    /// Removes the pages `[start, end)`, which are some.
    #[inline]
    pub(super) fn without(mut self, start: u32, end: u32) -> Self {
        let (first, last) = (start / 64, (end - 1) / 64);
        let behind = u64::MAX >> (63 - (end - 1) % 64);
        if first == last {
            self.0[first as usize & (WORDS - 1)] &= !(behind & u64::MAX << (start % 64));
            return self;
        }
        self.0[first as usize & (WORDS - 1)] &= !(u64::MAX << (start % 64));
        self.0[last as usize & (WORDS - 1)] &= !behind;
        for word in first + 1..last {
            self.0[word as usize & (WORDS - 1)] = 0;
        }
        self
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.iter().all(|&bits| bits == 0)
    }

    /// Returns the pages of `self` whose successor is in `self` too.
    #[inline]
    fn and_next(&self) -> Self {
        let [a, b, c, d] = self.0;
        Self([a & (a >> 1 | b << 63), b & (b >> 1 | c << 63), c & (c >> 1 | d << 63), d & d >> 1])
    }

    /// Returns the pages of `self` whose `by`-th successor is in `self` too; `by` is below 256.
    #[inline]
    fn and_later(&self, by: u32) -> Self {
        let (words, bits) = ((by / 64) as usize, by % 64);
        let word = |index: usize| self.0.get(index).copied().unwrap_or(0);
        let mut both = [0; WORDS];
        for (index, out) in both.iter_mut().enumerate() {
            let low = word(index + words) >> bits;
            // A shift by 64 − 0 would be one too high: in two parts.
            let high = word(index + words + 1) << 1 << (63 - bits);
            *out = self.0[index] & (low | high);
        }
        Self(both)
    }

    /// Returns the first page with `pages` pages of its run from it on, aligned to `2^order`, in a
    /// leaf that starts at page `base`.
    #[inline]
    pub(super) fn first_fit(mut self, pages: u64, order: u32, base: u64, steps: &Steps) -> Option<u32> {
        self.keep_fitting(pages, order, base, steps)?;
        for word in (0..WORDS).step_by(words_between(order)) {
            steps.tick();
            let bits = self.0[word] & aligned_bits(order);
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
        }
        None
    }

    /// Returns the last page that [`first_fit`](Self::first_fit) would find the first of.
    pub(super) fn last_fit(mut self, pages: u64, order: u32, base: u64, steps: &Steps) -> Option<u32> {
        self.keep_fitting(pages, order, base, steps)?;
        for word in (0..WORDS).step_by(words_between(order)).rev() {
            steps.tick();
            let bits = self.0[word] & aligned_bits(order);
            if bits != 0 {
                return Some(word as u32 * 64 + bits.ilog2());
            }
        }
        None
    }

    /// Keeps the pages with `pages` pages of their runs from them on; `None` if there is none, or
    /// none in this leaf is aligned.
    #[inline(always)]
    fn keep_fitting(&mut self, pages: u64, order: u32, base: u64, steps: &Steps) -> Option<()> {
        if pages >= u64::from(LEAF_PAGES) || base.trailing_zeros() < order && order >= LEAF_PAGES.ilog2() {
            return None;
        }
        let mut have = 1;
        while have < pages as u32 {
            steps.tick();
            let more = have.min(pages as u32 - have);
            *self = if more == 1 { self.and_next() } else { self.and_later(more) };
            if self.is_empty() {
                return None;
            }
            have += more;
        }
        Some(())
    }

    /// Returns the best alignment of any page in the set, in a leaf that starts at page `base`.
    #[inline]
    fn best_order(&self, base: u64) -> u32 {
        let [a, b, c, d] = self.0;
        if a & 1 != 0 {
            return (base.trailing_zeros()).min(MAX_ORDER);
        }
        if (b | c | d) & 1 != 0 {
            return if c & 1 != 0 { 7 } else { 6 };
        }
        let any = a | b | c | d;
        (1..6).rev().find(|&order| any & ALIGNED[order as usize] != 0).unwrap_or(0)
    }

    /// Returns the lanes of all runs, in a leaf that starts at page `base`. Those of up to
    /// [`SHORT`] pages, which may be many, all at once; longer ones, of which a leaf has not so
    /// many, one by one.
    #[inline]
    pub(super) fn lanes(mut self, base: u64) -> Lanes {
        let mut lanes = Lanes::NONE;
        for pages in 1..=SHORT {
            lanes = lanes.max(Lanes::of_run(pages, self.best_order(base)));
            self = self.and_next();
            if self.is_empty() {
                return lanes;
            }
        }
        lanes.max(self.lanes_one_by_one(base))
    }

    /// Returns the lanes of runs of which the last [`SHORT`] pages are cut off.
    #[inline(never)]
    fn lanes_one_by_one(&self, base: u64) -> Lanes {
        let [a, b, c, d] = self.0;
        let before = [a << 1, b << 1 | a >> 63, c << 1 | b >> 63, d << 1 | c >> 63];
        let mut starts = Bits::of(array::from_fn(|word| self.0[word] & !before[word]));
        let mut ends = Bits::of(array::from_fn(|word| before[word] & !self.0[word]));
        let mut low = Low::NONE;
        let mut lanes = Lanes::NONE;
        while let Some(start) = starts.next() {
            let end = ends.next().unwrap_or(LEAF_PAGES) + SHORT;
            low.add(start, end);
            if start == 0 {
                lanes = Lanes::of(base, u64::from(end));
            }
        }
        lanes.max(Lanes::low_only(low.0))
    }
}

/// The set bits of a leaf's bitmap, in order.
struct Bits {
    words: [u64; WORDS],
    word: usize,
}

impl Bits {
    #[inline]
    fn of(words: [u64; WORDS]) -> Self {
        Self { words, word: 0 }
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.words[self.word] == 0 {
            if self.word == WORDS - 1 {
                return None;
            }
            self.word += 1;
        }
        let bits = &mut self.words[self.word];
        let bit = bits.trailing_zeros();
        *bits &= *bits - 1;
        Some(self.word as u32 * 64 + bit)
    }
}

/// Returns how far it is from one word of a leaf with pages aligned to `2^order` to the next.
#[inline(always)]
fn words_between(order: u32) -> usize {
    if order < 6 { 1 } else { 1 << (order - 6).min(WORDS.ilog2()) }
}

/// Returns the pages aligned to `2^order` in each of these.
#[inline(always)]
fn aligned_bits(order: u32) -> u64 {
    if order < 6 { ALIGNED[order as usize] } else { 1 }
}

/// Returns all bits from `bit` on; `bit` may be 64 or more.
#[inline]
fn mask_from(bit: u32) -> u64 {
    if bit < 64 { u64::MAX << bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageRange;
    use std::vec::Vec;

    /// Returns free ranges and areas of pseudo-random lengths in a leaf; the last segment is an
    /// area.
    fn sample(seed: u64, longest: u64) -> (Runs, Vec<PageRange>) {
        let (mut free, mut areas, mut ranges) = ([0; WORDS], [0; WORDS], Vec::new());
        let (mut bit, mut x, mut is_free) = (seed % 3, seed | 1, true);
        loop {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let len = 1 + (x >> 33) % longest;
            let end = bit + len;
            if is_free && end < 256 {
                free[bit as usize / 64] |= 1 << (bit % 64);
                ranges.push(PageRange::of(bit, end));
            } else if bit < 256 {
                areas[bit as usize / 64] |= 1 << (bit % 64);
            }
            if end >= 256 {
                return (Runs::between(free, areas).0, ranges);
            }
            (bit, is_free) = (end, !is_free && (x >> 20) % 3 != 0);
        }
    }

    #[test]
    fn runs_agree_with_ranges_one_by_one() {
        // There is no unsafe code here for Miri to look into.
        let (seeds, bases) =
            if cfg!(miri) { (1, &[512][..]) } else { (300, &[0, 256, 512, 3 << 10, 1 << 20][..]) };
        for seed in 0..seeds {
            for longest in [1, 2, 3, 9, 60, 200] {
                for &base in bases {
                    let (runs, ranges) = sample(seed, longest);
                    let want = ranges.iter().fold(Lanes::NONE, |sum, range| {
                        sum.max(Lanes::of(base + range.start(), range.len()))
                    });
                    assert_eq!(runs.lanes(base), want, "{seed} {longest} {base} {ranges:?}");
                    for (pages, order) in [
                        (1, 0),
                        (1, 3),
                        (2, 1),
                        (5, 0),
                        (70, 0),
                        (1, 6),
                        (1, 7),
                        (3, 8),
                        (1, 12),
                        (255, 0),
                        (300, 0),
                    ] {
                        let want = ranges.iter().find_map(|range| {
                            let start = (base + range.start()).next_multiple_of(1 << order) - base;
                            (start + pages <= range.end()).then_some(start as u32)
                        });
                        let last = ranges.iter().rev().find_map(|range| {
                            let last = (base + range.end()).checked_sub(pages)? >> order << order;
                            (last >= base + range.start()).then(|| (last - base) as u32)
                        });
                        let case = (seed, longest, base, pages, order);
                        assert_eq!(runs.first_fit(pages, order, base, &Steps::default()), want, "{case:?}");
                        assert_eq!(runs.last_fit(pages, order, base, &Steps::default()), last, "{case:?}");
                    }
                }
            }
        }
    }
}
