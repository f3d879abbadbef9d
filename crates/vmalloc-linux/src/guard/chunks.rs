//! Which parts of the span have been opened.
//!
//! # Theory
//! A guard mark costs its place in a page table, 8 bytes, and 30 ns to write. A span of terabytes
//! can't be marked in advance. So the span is cut into **chunks**, and each is
//!
//! ```text
//!   closed   no page can be touched, for the mapping does not allow it; nothing is mapped
//!   open     the mapping allows everything; each page outside of mapped ranges has a mark
//!
//!   span     │ open │ open │closed│closed│closed│ ……… │closed│ open │
//!              ▲▲▲▲   ▲▲     nothing at all             ▲
//!              mapped areas,                            an area placed from the top
//!              all other pages marked                   (percpu, randomized)
//! ```
//!
//! **F1** An open page can be touched iff it is in a mapped range; a closed one never. **F2** The
//! pages of mapped ranges are open. Guard marks open a part of a chunk at a time, see
//! [`opened`](super::opened).
//!
//! Opening pages for a range puts marks on what is opened beside it, and none on the range itself,
//! so a huge area costs no mark a page. Runs of open chunks are one mapping each to the
//! kernel, and with lowest-first placement there is one run, whose end moves up. (One page number
//! for that end would do, and was rejected: the first area placed from the top of the span would
//! put marks on everything below it.)
//!
//! This file only records states. [`pte`](super::pte) opens and closes chunks, and says which
//! thread may change which state.

use crate::os::reservation::{Access, Mapping};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::PageRange;

/// Pages in a chunk.
///
/// Opening a part costs 4.4 µs whatever its size (mprotect 2.3 µs, four calls about marks of
/// 0.5 µs) and 30 ns for each mark. 2048 pages (8 MiB) is the smallest power of two that brings the
/// fixed part below a sixteenth. The whole, 65 µs, is the time to touch 50 fresh pages. Four page
/// tables of 4 KiB hold the marks.
pub const CHUNK_PAGES: u64 = 2048;

/// Chunks in one word of bits.
const WORD_CHUNKS: usize = u64::BITS as usize;

/// The state of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    Closed,
    Open,
}

/// The states: one bit for each chunk of the span, set when it is open. All are closed at first.
#[derive(Debug)]
pub(crate) struct Chunks {
    span: PageRange,
    /// Pages in a chunk of this set.
    unit: u64,
    chunks: usize,
    /// A mapping of its own, a 64 Mi-th of the span, of which only the touched part is ever backed
    /// by memory.
    bits: Mapping,
    /// How many words were written.
    #[cfg(test)]
    pub(super) written: AtomicU64,
}

impl Chunks {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        Self::of_pages(span, CHUNK_PAGES)
    }

    /// Returns the states of chunks of `unit` pages.
    pub(crate) fn of_pages(span: PageRange, unit: u64) -> Result<Self, Errno> {
        let chunks = usize::try_from(span.len().div_ceil(unit)).map_err(|_| Errno::NOMEM)?;
        let bits = Mapping::new(chunks.div_ceil(WORD_CHUNKS) * size_of::<AtomicU64>(), Access::ReadWrite)?;
        Ok(Self {
            span,
            unit,
            chunks,
            bits,
            #[cfg(test)]
            written: AtomicU64::new(0),
        })
    }

    pub(crate) fn span(&self) -> PageRange {
        self.span
    }

    /// Returns true if all of `range` is in open chunks.
    #[inline]
    pub(crate) fn is_open(&self, range: PageRange) -> bool {
        let (first, end) = self.chunks_touching(range);
        self.find(first, end, ChunkState::Closed) == end
    }

    /// Returns true if all of `range` is in closed chunks.
    #[inline]
    pub(crate) fn is_closed(&self, range: PageRange) -> bool {
        let (first, end) = self.chunks_touching(range);
        self.find(first, end, ChunkState::Open) == end
    }

    /// Returns the maximal parts of `range` in chunks of this `state`, ascending.
    pub(crate) fn runs(&self, range: PageRange, state: ChunkState) -> ChunkRuns<'_> {
        let (chunk, end) = self.chunks_touching(range);
        ChunkRuns { states: self, range, chunk, end, state }
    }

    /// Returns `range`, extended to whole chunks.
    pub(crate) fn round_out(&self, range: PageRange) -> PageRange {
        let (first, end) = self.chunks_touching(range);
        self.pages_of(first, end).unwrap_or(range)
    }

    /// Returns the whole chunks inside `range`.
    pub(crate) fn round_in(&self, range: PageRange) -> Option<PageRange> {
        let first = (range.start() - self.span.start()).div_ceil(self.unit);
        let end = if range.end() == self.span.end() {
            self.chunks as u64
        } else {
            (range.end() - self.span.start()) / self.unit
        };
        self.pages_of(first as usize, end as usize)
    }

    /// Notes the new state of whole chunks.
    pub(crate) fn set(&self, range: PageRange, state: ChunkState) {
        let (first, end) = self.chunks_touching(range);
        debug_assert_eq!(self.pages_of(first, end), Some(range), "chunks change state as a whole");
        let mut chunk = first;
        while chunk < end {
            let word_end = (chunk / WORD_CHUNKS + 1) * WORD_CHUNKS;
            let count = end.min(word_end) - chunk;
            let mask = (u64::MAX >> (WORD_CHUNKS - count)) << (chunk % WORD_CHUNKS);
            // Release: pairs with the Acquire in `find`. A thread that sees the chunk open may
            // touch pages that are mapped in it.
            match state {
                ChunkState::Open => self.words()[chunk / WORD_CHUNKS].fetch_or(mask, Ordering::Release),
                ChunkState::Closed => self.words()[chunk / WORD_CHUNKS].fetch_and(!mask, Ordering::Release),
            };
            chunk += count;
            #[cfg(test)]
            self.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the first chunk of `[from, end)` in this `state`, or `end`.
    fn find(&self, from: usize, end: usize, state: ChunkState) -> usize {
        let mut chunk = from;
        while chunk < end {
            // Acquire: pairs with the Release in `set`.
            let word = self.words()[chunk / WORD_CHUNKS].load(Ordering::Acquire);
            let wanted = if state == ChunkState::Open { word } else { !word };
            let rest = wanted >> (chunk % WORD_CHUNKS);
            if rest != 0 {
                return end.min(chunk + rest.trailing_zeros() as usize);
            }
            chunk = (chunk / WORD_CHUNKS + 1) * WORD_CHUNKS;
        }
        end
    }

    fn words(&self) -> &[AtomicU64] {
        let words = self.chunks.div_ceil(WORD_CHUNKS);
        // SAFETY: `new` mapped room for so many words, page-aligned and zeroed. The mapping lives
        // as long as `self`, and all access to it is atomic, through here.
        unsafe { std::slice::from_raw_parts(self.bits.base().as_ptr().cast(), words) }
    }

    fn chunks_touching(&self, range: PageRange) -> (usize, usize) {
        let first = (range.start() - self.span.start()) / self.unit;
        let end = (range.end() - self.span.start()).div_ceil(self.unit);
        (first as usize, end as usize)
    }

    /// Returns the pages of the chunks `[first, end)`. The last chunk of the span may be a short
    /// one.
    fn pages_of(&self, first: usize, end: usize) -> Option<PageRange> {
        let start = self.span.start() + first as u64 * self.unit;
        let end = self.span.start() + end as u64 * self.unit;
        PageRange::new(start, end.min(self.span.end()))
    }
}

/// An iterator over runs of chunks in one state, by [`Chunks::runs`].
#[derive(Debug)]
pub(crate) struct ChunkRuns<'a> {
    states: &'a Chunks,
    range: PageRange,
    chunk: usize,
    end: usize,
    state: ChunkState,
}

impl Iterator for ChunkRuns<'_> {
    type Item = PageRange;

    fn next(&mut self) -> Option<PageRange> {
        let other = if self.state == ChunkState::Open { ChunkState::Closed } else { ChunkState::Open };
        let first = self.states.find(self.chunk, self.end, self.state);
        self.chunk = self.states.find(first, self.end, other);
        self.states.pages_of(first, self.chunk)?.intersection(&self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span of 200 chunks, the last of them short, that begins at an odd page.
    fn states() -> Chunks {
        let span = PageRange::from_len(77, 199 * CHUNK_PAGES + 5).unwrap();
        Chunks::new(span).unwrap()
    }

    fn chunks(first: u64, end: u64) -> PageRange {
        PageRange::new(77 + first * CHUNK_PAGES, 77 + end * CHUNK_PAGES).unwrap()
    }

    #[test]
    fn everything_is_closed_at_first() {
        let states = states();
        assert_eq!(states.runs(states.span, ChunkState::Open).count(), 0);
        assert_eq!(states.runs(states.span, ChunkState::Closed).collect::<Vec<_>>(), [states.span]);
    }

    #[test]
    fn runs_cross_words_and_are_clipped() {
        let states = states();
        states.set(chunks(3, 130), ChunkState::Open);
        states.set(chunks(70, 71), ChunkState::Closed);
        let open: Vec<_> = states.runs(states.span, ChunkState::Open).collect();
        assert_eq!(open, [chunks(3, 70), chunks(71, 130)]);
        assert!(states.is_open(chunks(71, 130)));
        assert!(!states.is_open(chunks(69, 71)));

        let inside = PageRange::new(chunks(69, 70).start() + 9, chunks(71, 72).start() + 4).unwrap();
        let clipped: Vec<_> = states.runs(inside, ChunkState::Open).collect();
        let expected = [(inside.start(), chunks(69, 70).end()), (chunks(71, 72).start(), inside.end())];
        assert_eq!(clipped, expected.map(|(start, end)| PageRange::new(start, end).unwrap()));
    }

    #[test]
    fn rounding_knows_the_short_last_chunk() {
        let states = states();
        let last = PageRange::new(chunks(199, 200).start(), states.span.end()).unwrap();
        let middle = PageRange::from_len(last.start() + 1, 2).unwrap();
        assert_eq!(states.round_out(middle), last);
        assert_eq!(states.round_in(last), Some(last));
        assert_eq!(states.round_in(middle), None);
        let uneven = PageRange::new(chunks(4, 5).start() + 1, chunks(7, 8).start() + 1).unwrap();
        assert_eq!(states.round_in(uneven), Some(chunks(5, 7)));
    }
}
