//! One bitmap of a leaf: a bit for each of its 256 pages.

use super::cell::Long;
use zerocopy::{FromBytes, IntoBytes};

/// log2 of the pages of a leaf. Four words a bitmap: larger leaves cost fewer tree levels but
/// longer scans, and an isolated area pays a whole leaf.
pub const LEAF_SHIFT: u32 = 8;
pub(crate) const LEAF_PAGES: u32 = 1 << LEAF_SHIFT;
pub(crate) const WORDS: usize = LEAF_PAGES as usize / 64;

/// One bitmap: a bit for each page of the leaf.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(crate) struct Bitmap([Long; WORDS]);

/// Word and mask of a bit.
#[inline]
pub(crate) fn at(bit: u32) -> (usize, u64) {
    ((bit >> 6) as usize & (WORDS - 1), 1 << (bit & 63))
}

impl Bitmap {
    #[inline(always)]
    pub(super) fn get(&self, word: usize) -> u64 {
        self.0[word & (WORDS - 1)].get()
    }

    /// Sets a bit of a bitmap that the holder of the map alone writes.
    #[inline(always)]
    pub(super) fn set(&self, (word, mask): (usize, u64)) {
        let word = &self.0[word & (WORDS - 1)];
        word.set(word.get() | mask);
    }

    #[inline(always)]
    pub(super) fn clear(&self, (word, mask): (usize, u64)) {
        let word = &self.0[word & (WORDS - 1)];
        word.set(word.get() & !mask);
    }

    /// Sets or clears a bit that others may be changing neighbours of; what was there.
    #[inline(always)]
    pub(super) fn flip_on(&self, (word, mask): (usize, u64)) -> bool {
        self.0[word & (WORDS - 1)].fetch_or(mask) & mask != 0
    }

    #[inline(always)]
    pub(super) fn flip_off(&self, (word, mask): (usize, u64)) -> bool {
        self.0[word & (WORDS - 1)].fetch_and(!mask) & mask != 0
    }

    #[inline]
    pub(super) fn first_from(&self, word: usize) -> Option<u32> {
        for word in word..WORDS {
            let bits = self.get(word);
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
        }
        None
    }

    #[inline]
    pub(super) fn last_before(&self, word: usize) -> Option<u32> {
        for word in (0..word).rev() {
            let bits = self.get(word);
            if bits != 0 {
                return Some(word as u32 * 64 + bits.ilog2());
            }
        }
        None
    }
}
