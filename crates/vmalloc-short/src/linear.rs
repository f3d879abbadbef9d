//! Frames in their linear map: mapped already, so that a short mapping of them is only noted.
//!
//! A word for each frame counts the mappings that begin there and says how many pages they have.
//! All mappings of one frame have the same number: a request for another number gets an ordinary
//! mapping.

use core::sync::atomic::Ordering;
use vmalloc::Frame;
use vmalloc::area_map::parts::{Once, RowArray, try_zeroed};
use vmalloc::sync::AtomicU64;
use zerocopy::FromZeros;

/// Frames of a piece of the table: a page of words.
const PIECE: usize = 512;

type Counts = RowArray<'static, AtomicU64, PIECE>;

/// Bits for how many mappings there are; above them their pages.
const COUNT_BITS: u32 = 32;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// The mappings in a linear map.
#[derive(FromZeros)]
pub(crate) struct Linear {
    counts: Once<Counts>,
}

impl Linear {
    /// Notes a mapping of `pages` pages that begins at `first`; `false` when it can't be
    /// noted.
    #[inline]
    pub(crate) fn take(&self, first: Frame, pages: u64) -> bool {
        let Some(word) = self.word(first).or_else(|| self.reach(first)) else { return false };
        let more = |word: u64| match word >> COUNT_BITS {
            0 => Some(pages << COUNT_BITS | 1),
            same if same == pages && word & COUNT != COUNT => Some(word + 1),
            _ => None,
        };
        // Relaxed: the frames are there before and after.
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Forgets a mapping of `pages` pages that begins at `first`.
    ///
    /// # Errors
    /// There is none; and how many pages the mappings that begin there have.
    #[inline]
    pub(crate) fn give(&self, first: Frame, pages: u64) -> Result<(), u64> {
        let Some(word) = self.word(first) else { return Err(0) };
        let less = |word: u64| {
            let is_last = word & COUNT == 1;
            (word >> COUNT_BITS == pages && pages != 0).then(|| if is_last { 0 } else { word - 1 })
        };
        let given = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        given.map(|_| ()).map_err(|word| word >> COUNT_BITS)
    }

    #[inline]
    fn word(&self, frame: Frame) -> Option<&AtomicU64> {
        let counts = self.counts.get()?;
        counts.near(frame.0 as usize).or_else(|| counts.get(frame.0 as usize))
    }

    #[cold]
    fn reach(&self, frame: Frame) -> Option<&AtomicU64> {
        let counts = self.counts.get_or_try_init(try_zeroed).ok()?;
        counts.reach(frame.0 as usize).ok()?;
        counts.get(frame.0 as usize)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.counts.get().map_or(0, RowArray::bytes)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_one_frame_agree_in_length() {
        let linear = Linear::new_zeroed();
        assert!(linear.take(Frame(700), 3) && linear.take(Frame(700), 3));
        assert!(!linear.take(Frame(700), 2), "another length");
        assert_eq!(linear.give(Frame(700), 2), Err(3));
        assert!(linear.give(Frame(700), 3).is_ok() && linear.give(Frame(700), 3).is_ok());
        assert_eq!(linear.give(Frame(700), 3), Err(0));
        assert!(linear.take(Frame(700), 2));
        assert_eq!(linear.give(Frame(5), 1), Err(0), "never mapped");
    }
}
