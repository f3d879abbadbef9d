//! Sets of frames, one bit each, under a tree of bits that finds the first member.
//!
//! # Theory
//! ```text
//!   level 2                    1                  a bit is set iff some bit of the 64 below it is
//!   level 1          0         1         1
//!   level 0     0…00 0…00   1001…1    1111…1      a bit is set iff the frame is a member
//! ```
//! - **B1** Above level 0, a bit is set iff the word it stands for has a set bit.
//! - **B2** Bits behind the last frame are never set, so no search ends there.
//!
//! A search climbs to the first word with a bit at or behind its start, and descends to the first
//! bit there: at most nine words. Members come out lowest first and up to 64 at a time.
//!
//! The words are a mapping, of which only the touched part is backed, and fresh ones are zero. For
//! a set that begins full each word is kept inverted ([`Begin::Full`]). So neither kind costs
//! anything before it is used, be there terabytes of frames.
//!
//! # Why not a buddy system
//! It finds aligned runs in constant time (30–80 ns, where the supply takes 0.5–2 µs among a
//! thousand fragments). But it needs links for each free block and a state for each frame: nine
//! bytes of 32-bit numbers, against two sets at a bit and a sixty-third. (The frames themselves
//! have no room: writing there would back them.) Its free blocks are in no order, so the used part
//! does not stay dense. For single frames it gains little. Measured with half of 2^20 frames taken
//! at random, ns for a frame given and taken again, one by one / in bulks of 16 / of 256: 276 / 77
//! / 85 with two sets and the lock, 132 / 77 / 86 with a bare buddy system.
//!
//! # Why not the area map
//! It finds runs as fast, but a frame is an area of one page there, and is placed and coalesced
//! alone. Measured in one run as above, on busy cores, by a program that is not kept: 384 / 127 /
//! 118 with two sets and the lock, 457 / 235 / 269 with a bare `AreaMap`, and 1,545 / 1,649 / 2,285
//! where a `PageSet` says beside it which free frames kept their memory. It also tells without a
//! lock whether a frame is taken only while no other thread takes one.
//!
//! # Locking
//! A thread that changes a set holds the lock of its owner. The words are atomic so that
//! [`Bitmap::contains`] needs none. Reads and writes are separate operations, since no other thread
//! writes meanwhile.

use crate::os::reservation::{Access, Mapping};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

const WORD: u64 = u64::BITS as u64;

/// Enough for 2^30 frames, and one word on top.
const LEVELS: usize = 5;

/// The members of a new set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    Empty,
    Full,
}

/// A set of frame numbers.
#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Mapping,
    frames: u64,
    /// Where each level begins, in words, and where the last one ends.
    begin: [usize; LEVELS + 1],
    /// The mask that a word is combined with when it is read or written: all ones where words are
    /// kept inverted.
    flip: u64,
}

impl Bitmap {
    /// A set of some of `frames` frames, inaccessible until [`make_ready`](Self::make_ready).
    pub(crate) fn new(frames: u64, first: Begin) -> Result<Self, Errno> {
        let mut begin = [0; LEVELS + 1];
        let mut bits = frames;
        for level in 0..LEVELS {
            bits = bits.div_ceil(WORD);
            begin[level + 1] = begin[level] + usize::try_from(bits).map_err(|_| Errno::NOMEM)?;
        }
        if bits != 1 {
            return Err(Errno::NOMEM);
        }
        let words = Mapping::new(begin[LEVELS] * size_of::<AtomicU64>(), Access::None)?;
        let flip = if first == Begin::Full { u64::MAX } else { 0 };
        Ok(Self { words, frames, begin, flip })
    }

    /// Makes the words accessible, and establishes B2. May be repeated.
    pub(crate) fn make_ready(&self) -> Result<(), Errno> {
        self.words.open_part(0, self.words.bytes())?;
        let mut bits = self.frames;
        for level in 0..LEVELS {
            let tail = bits % WORD;
            bits = bits.div_ceil(WORD);
            if tail != 0 {
                let last = self.load(level, bits - 1);
                self.store(level, bits - 1, last & !(u64::MAX << tail));
            }
        }
        Ok(())
    }

    /// Returns true if `frame` is a member. Needs no lock: the answer holds for as long as the
    /// caller keeps the frame from being taken or given back.
    pub(crate) fn contains(&self, frame: u64) -> bool {
        frame < self.frames && self.load(0, frame / WORD) & (1 << (frame % WORD)) != 0
    }

    /// Returns true if any of `[first, end)` is a member. Needs no lock, as
    /// [`contains`](Self::contains).
    pub(crate) fn meets(&self, first: u64, end: u64) -> bool {
        let end = end.min(self.frames);
        let mut from = first;
        while from < end {
            let to = end.min((from / WORD + 1) * WORD);
            let mask = u64::MAX >> (WORD - (to - from)) << (from % WORD);
            if self.load(0, from / WORD) & mask != 0 {
                return true;
            }
            from = to;
        }
        false
    }

    /// Returns the first member from `from` on.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for level in 0..LEVELS {
            let (word, bit) = (at / WORD, at % WORD);
            if word >= (self.begin[level + 1] - self.begin[level]) as u64 {
                return None;
            }
            let members = self.load(level, word) & (u64::MAX << bit);
            if members != 0 {
                return Some(self.descend(level, word * WORD + u64::from(members.trailing_zeros())));
            }
            at = word + 1;
        }
        None
    }

    /// Returns the first member below bit `at` of `level`, which is set.
    fn descend(&self, level: usize, mut at: u64) -> u64 {
        for below in (0..level).rev() {
            at = at * WORD + u64::from(self.load(below, at).trailing_zeros());
        }
        at
    }

    /// Returns the first frame of `[start, end)` that is not a member. 64 a step.
    pub(crate) fn first_missing(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        while at < end {
            let missing = !self.load(0, at / WORD) & (u64::MAX << (at % WORD));
            if missing != 0 {
                let first = at / WORD * WORD + u64::from(missing.trailing_zeros());
                return (first < end).then_some(first);
            }
            at = (at / WORD + 1) * WORD;
        }
        None
    }

    /// Returns up to `most` members, lowest first, of the word of `first`, from there on.
    pub(crate) fn some(&self, first: u64, most: usize) -> Some64 {
        let word = first / WORD;
        Some64 { word, mask: lowest(self.load(0, word) & (u64::MAX << (first % WORD)), most) }
    }

    /// Adds `frames`.
    pub(crate) fn insert(&self, frames: Some64) {
        let (mut word, mut bits) = (frames.word, frames.mask);
        for level in 0..LEVELS {
            let old = self.load(level, word);
            self.store(level, word, old | bits);
            // B1: only a word that was empty has no bit above it.
            if old != 0 || bits == 0 {
                return;
            }
            (word, bits) = (word / WORD, 1 << (word % WORD));
        }
    }

    /// Removes `frames`, and returns how many of them were members.
    pub(crate) fn remove(&self, frames: Some64) -> u64 {
        let old = self.load(0, frames.word);
        let (mut word, mut bits) = (frames.word, old & frames.mask);
        let removed = u64::from(bits.count_ones());
        for level in 0..LEVELS {
            let left = self.load(level, word) & !bits;
            if bits != 0 {
                self.store(level, word, left);
            }
            // B1: only a word that has become empty loses its bit.
            if left != 0 || bits == 0 {
                break;
            }
            (word, bits) = (word / WORD, 1 << (word % WORD));
        }
        removed
    }

    fn load(&self, level: usize, word: u64) -> u64 {
        // Relaxed: the lock orders; see `contains`.
        self.word(level, word).load(Ordering::Relaxed) ^ self.flip
    }

    fn store(&self, level: usize, word: u64, bits: u64) {
        // Relaxed: as above.
        self.word(level, word).store(bits ^ self.flip, Ordering::Relaxed);
    }

    fn word(&self, level: usize, word: u64) -> &AtomicU64 {
        &self.words()[self.begin[level] + word as usize]
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `new` mapped room for so many words, page-aligned and zeroed, and `make_ready`
        // has made it accessible before the first use. The mapping lives as long as `self`, and all
        // access to it is atomic, through here.
        unsafe { std::slice::from_raw_parts(self.words.base().as_ptr().cast(), self.begin[LEVELS]) }
    }
}

/// Up to 64 frames of one word, and an iterator over them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Some64 {
    word: u64,
    mask: u64,
}

impl Some64 {
    /// Returns the frame behind the last one, 0 without frames.
    pub(crate) fn end(&self) -> u64 {
        self.mask.checked_ilog2().map_or(0, |bit| self.word * WORD + u64::from(bit) + 1)
    }

    /// Returns the frames of `[start, end)`, word by word.
    pub(crate) fn cover(start: u64, end: u64) -> impl Iterator<Item = Self> {
        let mut at = start;
        std::iter::from_fn(move || {
            let count = (WORD - at % WORD).min(end.checked_sub(at).filter(|&left| left > 0)?);
            let part = Self { word: at / WORD, mask: (u64::MAX >> (WORD - count)) << (at % WORD) };
            at += count;
            Some(part)
        })
    }
}

impl Iterator for Some64 {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let bit = (self.mask != 0).then(|| u64::from(self.mask.trailing_zeros()))?;
        self.mask &= self.mask - 1;
        Some(self.word * WORD + bit)
    }
}

/// Returns the lowest `most` bits of those set.
fn lowest(bits: u64, most: usize) -> u64 {
    if bits.count_ones() as usize <= most {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..most {
        rest &= rest - 1;
    }
    bits & !rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn bitmap(frames: u64, begin: Begin) -> Bitmap {
        let bitmap = Bitmap::new(frames, begin).unwrap();
        bitmap.make_ready().unwrap();
        bitmap
    }

    fn one(frame: u64) -> Some64 {
        Some64 { word: frame / WORD, mask: 1 << (frame % WORD) }
    }

    #[test]
    fn a_search_ends_at_the_last_frame() {
        let most = if cfg!(miri) { 5000 } else { 300_000 };
        for frames in [1, 63, 64, 65, 4096, 4097, most] {
            let bitmap = bitmap(frames, Begin::Full);
            assert_eq!(bitmap.next(frames - 1), Some(frames - 1));
            assert_eq!(bitmap.next(frames), None);
            let removed: u64 = Some64::cover(0, frames).map(|part| bitmap.remove(part)).sum();
            assert_eq!((removed, bitmap.next(0)), (frames, None));
            bitmap.insert(one(frames / 2));
            assert_eq!(bitmap.next(0), Some(frames / 2));
            assert_eq!(bitmap.next(frames / 2 + 1), None);
            assert_eq!((bitmap.remove(one(frames / 2)), bitmap.remove(one(frames / 2))), (1, 0));
        }
    }

    #[test]
    fn a_range_meets_what_is_in_it() {
        let bitmap = bitmap(300, Begin::Empty);
        bitmap.insert(one(130));
        let step = if cfg!(miri) { 43 } else { 1 };
        for first in (0..300).step_by(step) {
            for end in (first..300).step_by(step) {
                assert_eq!(bitmap.meets(first, end), (first..end).contains(&130), "{first}..{end}");
            }
        }
        assert!(!bitmap.meets(300, u64::MAX));
    }

    #[test]
    fn more_than_the_levels_can_hold_is_refused() {
        assert!(Bitmap::new(1 << 30, Begin::Full).is_ok());
        assert!(Bitmap::new((1 << 30) + 1, Begin::Full).is_err());
    }

    /// Against a set of numbers, with a fixed sequence of pseudo-random steps.
    #[test]
    fn a_bitmap_agrees_with_a_set() {
        const FRAMES: u64 = if cfg!(miri) { 500 } else { 5000 };
        const STEPS: usize = if cfg!(miri) { 6 } else { 20_000 };
        for begin in [Begin::Full, Begin::Empty] {
            let bitmap = bitmap(FRAMES, begin);
            let mut members: BTreeSet<u64> = (0..FRAMES).filter(|_| begin == Begin::Full).collect();
            let mut seed = 1_u64;
            let mut random = move |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % below
            };
            for _ in 0..STEPS {
                let from = random(FRAMES);
                let next = members.range(from..).next().copied();
                assert_eq!(bitmap.next(from), next);
                let end = (from + random(300)).min(FRAMES);
                assert_eq!(
                    bitmap.first_missing(from, end),
                    (from..end).find(|frame| !members.contains(frame))
                );
                match (next, random(2)) {
                    (Some(first), 0) => {
                        let some = bitmap.some(first, random(70) as usize + 1);
                        assert_eq!(bitmap.remove(some), some.count() as u64);
                        assert_eq!(some.last().map(|last| last + 1), Some(some.end()));
                        some.for_each(|frame| assert!(members.remove(&frame)));
                    }
                    _ => {
                        let end = (from + random(100)).min(FRAMES);
                        Some64::cover(from, end).for_each(|part| bitmap.insert(part));
                        members.extend(from..end);
                    }
                }
                assert_eq!(bitmap.contains(from), members.contains(&from));
            }
        }
    }
}
