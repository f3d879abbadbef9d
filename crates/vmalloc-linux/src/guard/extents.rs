//! Which pages of each chunk have been opened.
//!
//! # Theory
//! A chunk is opened from a page to a page, no more of it than is used: its *extent*. So memory in
//! one large area costs no marks at all, and a small area in an empty span those up to the end of
//! one page table.
//!
//! ```text
//!   chunk    │ closed │▓▓▓▓▓▓ extent ▓▓▓▓▓▓│ closed │      in the extent F1 holds; outside nothing can be touched
//!                      ▲ ▲ ▲
//!                  areas, marks between them
//! ```
//!
//! An extent only grows, to the hull of itself and what is opened, until its chunk is closed as a
//! whole. [`Chunks`] says which chunks have one, so that searches skip the others.

use super::chunks::{CHUNK_PAGES, ChunkState, Chunks};
use crate::os::reservation::{Access, Mapping};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};
use vmalloc::PageRange;

/// Pages that one page table maps. Opened for small areas up to such a border: one call and one
/// page table for many of them.
const TABLE_PAGES: u64 = 512;

/// Ranges of fewer pages are opened together with what follows. Marking so many pages and removing
/// the marks takes as long as opening a range by itself, 4.3 µs.
const SMALL_PAGES: u64 = 64;

/// The extents of all chunks of a span. All are empty at first.
#[derive(Debug)]
pub(crate) struct Extents {
    span: PageRange,
    /// The chunks whose extent is not empty.
    chunks: Chunks,
    /// A word for each chunk, in a mapping of its own, of which only the touched part is ever
    /// backed by memory.
    words: Mapping,
    count: usize,
}

impl Extents {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        let count = usize::try_from(span.len().div_ceil(CHUNK_PAGES)).map_err(|_| Errno::NOMEM)?;
        let words = Mapping::new(count * size_of::<AtomicU32>(), Access::ReadWrite)?;
        Ok(Self { span, chunks: Chunks::new(span)?, words, count })
    }

    /// Returns true if all of `range` is open.
    #[inline]
    pub(crate) fn is_open(&self, range: PageRange) -> bool {
        self.chunks_of(range).all(|chunk| {
            let both = chunk.intersection(&range).zip(self.extent(chunk));
            both.is_some_and(|(part, extent)| extent.covers(&part))
        })
    }

    /// Calls `act` with the maximal open runs inside `range`, ascending, until it fails.
    pub(crate) fn open_runs<E>(
        &self,
        range: PageRange,
        mut act: impl FnMut(PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut joined = Joined::default();
        for run in self.chunks.runs(range, ChunkState::Open) {
            for chunk in self.chunks_of(run) {
                let open = self.extent(chunk).and_then(|extent| extent.intersection(&range));
                joined.add(open, &mut act)?;
            }
        }
        joined.finish(act)
    }

    /// Calls `act` with the runs of closed pages that have to be opened for `range` in the chunks
    /// of `part` of it, ascending, until it fails. The caller opens each of them, and then says so
    /// by [`set_open`](Self::set_open).
    pub(crate) fn closed_runs<E>(
        &self,
        range: PageRange,
        part: PageRange,
        mut act: impl FnMut(PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut joined = Joined::default();
        for chunk in self.chunks_of(part) {
            let wanted = self.wanted(chunk, range);
            let (before, after) = match self.extent(chunk) {
                None => (wanted, None),
                Some(extent) => (
                    wanted.and_then(|it| PageRange::new(it.start(), extent.start())),
                    wanted.and_then(|it| PageRange::new(extent.end(), it.end())),
                ),
            };
            joined.add(before, &mut act)?;
            joined.add(after, &mut act)?;
        }
        joined.finish(act)
    }

    /// Returns the pages of `chunk` that are opened for `range`. A few pages before it are opened
    /// as well: left closed, they would cost two mappings for as long as nothing is placed
    /// there.
    fn wanted(&self, chunk: PageRange, range: PageRange) -> Option<PageRange> {
        let inside = chunk.intersection(&range)?;
        let is_near = inside.start() - chunk.start() < TABLE_PAGES;
        let start = if is_near { chunk.start() } else { inside.start() };
        let end = match range.len() < SMALL_PAGES {
            true => inside.end().next_multiple_of(TABLE_PAGES).min(chunk.end()),
            false => inside.end(),
        };
        PageRange::new(start, end)
    }

    /// Notes that `run`, one of [`closed_runs`](Self::closed_runs), is open now.
    pub(crate) fn set_open(&self, run: PageRange) {
        for chunk in self.chunks_of(run) {
            let Some(part) = chunk.intersection(&run) else { continue };
            let hull = self.extent(chunk).map_or(part, |extent| {
                let (start, end) = (extent.start().min(part.start()), extent.end().max(part.end()));
                PageRange::new(start, end).unwrap_or(part)
            });
            let (first, end) = (hull.start() - chunk.start(), hull.end() - chunk.start());
            // Release: pairs with the Acquire in `extent`. A thread that sees pages open may touch
            // those that are mapped there.
            self.word(chunk).store((first << 16 | end) as u32, Ordering::Release);
        }
        self.chunks.set(self.chunks.round_out(run), ChunkState::Open);
    }

    /// Notes that the chunks of `run` are closed. It is all that was open of them, and the
    /// caller's.
    pub(crate) fn set_closed(&self, run: PageRange) {
        for chunk in self.chunks_of(run) {
            self.word(chunk).store(0, Ordering::Release);
        }
        self.chunks.set(self.chunks.round_out(run), ChunkState::Closed);
    }

    /// Returns the chunks of which something is open, ascending.
    pub(crate) fn open_chunks(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.chunks.runs(self.span, ChunkState::Open).flat_map(|run| self.chunks_of(run))
    }

    /// Returns the whole chunks inside `range`.
    pub(crate) fn whole_chunks(&self, range: PageRange) -> Option<PageRange> {
        self.chunks.round_in(range)
    }

    /// Returns the open pages of a chunk.
    #[inline]
    fn extent(&self, chunk: PageRange) -> Option<PageRange> {
        // Acquire: pairs with the Release in `set_open`.
        let word = u64::from(self.word(chunk).load(Ordering::Acquire));
        PageRange::new(chunk.start() + (word >> 16), chunk.start() + (word & 0xffff))
    }

    /// Returns the chunk of `page`; the last one of the span may be a short one.
    #[inline]
    fn chunk_at(&self, page: u64) -> PageRange {
        let start = page - (page - self.span.start()) % CHUNK_PAGES;
        let end = (start + CHUNK_PAGES).min(self.span.end());
        PageRange::new(start, end).unwrap_or(self.span)
    }

    /// Returns the chunks that `range` touches, ascending.
    fn chunks_of(&self, range: PageRange) -> impl Iterator<Item = PageRange> + '_ {
        let mut page = range.start();
        std::iter::from_fn(move || {
            let chunk = (page < range.end()).then(|| self.chunk_at(page))?;
            page = chunk.end();
            Some(chunk)
        })
    }

    #[inline]
    fn word(&self, chunk: PageRange) -> &AtomicU32 {
        &self.words()[((chunk.start() - self.span.start()) / CHUNK_PAGES) as usize]
    }

    #[inline]
    fn words(&self) -> &[AtomicU32] {
        // SAFETY: `new` mapped room for so many words, page-aligned and zeroed. The mapping lives
        // as long as `self`, and all access to it is atomic, through here.
        unsafe { std::slice::from_raw_parts(self.words.base().as_ptr().cast(), self.count) }
    }
}

/// Runs that come in pieces.
#[derive(Default)]
struct Joined(Option<PageRange>);

impl Joined {
    /// Adds a piece behind all others, and hands on the run before it if they do not touch.
    fn add<E>(
        &mut self,
        piece: Option<PageRange>,
        act: impl FnMut(PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(piece) = piece else { return Ok(()) };
        let run = self
            .0
            .and_then(|run| PageRange::new(run.start(), piece.end()).filter(|_| run.end() == piece.start()));
        match run {
            Some(run) => self.0 = Some(run),
            None => self.0.replace(piece).map_or(Ok(()), act)?,
        }
        Ok(())
    }

    fn finish<E>(self, act: impl FnMut(PageRange) -> Result<(), E>) -> Result<(), E> {
        self.0.map_or(Ok(()), act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A span of 20 chunks, the last of them short, that begins at an odd page.
    fn extents() -> Extents {
        Extents::new(PageRange::from_len(77, 19 * CHUNK_PAGES + 5).unwrap()).unwrap()
    }

    fn pages(first: u64, end: u64) -> PageRange {
        PageRange::new(77 + first, 77 + end).unwrap()
    }

    fn closed(extents: &Extents, range: PageRange) -> Vec<PageRange> {
        let mut runs = Vec::new();
        let Ok(()) = extents.closed_runs(range, range, |run| {
            runs.push(run);
            Ok::<_, Infallible>(())
        });
        runs
    }

    fn open(extents: &Extents, range: PageRange) -> Vec<PageRange> {
        let mut runs = Vec::new();
        let Ok(()) = extents.open_runs(range, |run| {
            runs.push(run);
            Ok::<_, Infallible>(())
        });
        runs
    }

    /// A purge holds others up that long: a word of states for 64 chunks, not one for each.
    #[test]
    fn states_of_many_chunks_are_written_a_word_at_a_time() {
        let span = PageRange::from_len(1 << 20, 6400 * CHUNK_PAGES).unwrap();
        let extents = Extents::new(span).unwrap();
        extents.set_open(span);
        extents.set_closed(span);
        assert_eq!(extents.chunks.written.load(Ordering::Relaxed), 2 * 100);
    }

    #[test]
    fn large_ranges_are_opened_exactly_and_small_ones_to_a_border() {
        let extents = extents();
        let large = pages(600, 5000);
        assert_eq!(closed(&extents, large), [large]);
        let small = pages(10, 12);
        assert_eq!(closed(&extents, small), [PageRange::new(77, 512).unwrap()], "and what is before it");
        let at_the_end = pages(CHUNK_PAGES - 3, CHUNK_PAGES - 2);
        assert_eq!(closed(&extents, at_the_end), [pages(CHUNK_PAGES - 3, CHUNK_PAGES)]);
    }

    #[test]
    fn only_what_is_closed_is_opened() {
        let extents = extents();
        extents.set_open(pages(700, 3000));
        assert!(extents.is_open(pages(700, 3000)) && !extents.is_open(pages(699, 701)));
        assert!(!extents.is_open(pages(2999, 3001)));
        assert_eq!(closed(&extents, pages(600, 4000)), [pages(600, 700), pages(3000, 4000)]);
        assert_eq!(closed(&extents, pages(3500, 9000)), [pages(3000, 9000)], "the gap as well");
        assert_eq!(closed(&extents, pages(800, 2900)), []);
    }

    #[test]
    fn open_runs_join_over_chunks() {
        let extents = extents();
        extents.set_open(pages(100, 2 * CHUNK_PAGES + 7));
        extents.set_open(pages(5 * CHUNK_PAGES + 1, 5 * CHUNK_PAGES + 9));
        let all = pages(0, 19 * CHUNK_PAGES + 5);
        let second = pages(5 * CHUNK_PAGES + 1, 5 * CHUNK_PAGES + 9);
        assert_eq!(open(&extents, all), [pages(100, 2 * CHUNK_PAGES + 7), second]);
        assert_eq!(
            open(&extents, pages(3000, 5 * CHUNK_PAGES + 3)),
            [pages(3000, 2 * CHUNK_PAGES + 7), pages(5 * CHUNK_PAGES + 1, 5 * CHUNK_PAGES + 3)]
        );
        extents.set_closed(second);
        assert_eq!(open(&extents, all), [pages(100, 2 * CHUNK_PAGES + 7)]);
        let last = pages(19 * CHUNK_PAGES, 19 * CHUNK_PAGES + 5);
        extents.set_open(last);
        assert!(extents.is_open(last));
    }
}
