//! Which pages have been opened, and which to open for a range.
//!
//! # Theory
//! Pages are opened and closed by *units* of [`UNIT_PAGES`] pages, no more of them than are used.
//! So memory in one large area costs no marks but those of its first and last unit, and a small
//! area in an empty span those up to the end of one page table.
//!
//! ```text
//!   chunk    │ closed │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│ closed │▓▓▓▓▓│ closed │    in open units F1 holds; no other page can be touched
//!                      ▲ ▲ ▲                    ▲
//!                  areas, marks between them    opened
//! ```
//!
//! Closed units between two open ones of one chunk cost two mappings. They are opened, too, with
//! marks, as soon as something is opened beside them: closed parts of a chunk are those that a
//! large area has left, as long as nothing comes near.

use super::chunks::{CHUNK_PAGES, ChunkState, Chunks};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use vmalloc::PageRange;

/// Pages in a unit: marking so many pages and removing the marks takes as long as opening a range
/// by itself, 4.3 µs.
const UNIT_PAGES: u64 = 64;

/// Pages that one page table maps. Opened for small areas up to such a border: one call and one
/// page table for many of them.
const TABLE_PAGES: u64 = 512;

/// The open units of a span. All are closed at first.
#[derive(Debug)]
pub(crate) struct Opened {
    units: Chunks,
    /// The page behind the last unit that was ever open: no search goes beyond it.
    end: AtomicU64,
}

impl Opened {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        Ok(Self { units: Chunks::of_pages(span, UNIT_PAGES)?, end: AtomicU64::new(span.start()) })
    }

    /// Returns true if all of `range` is open.
    #[inline]
    pub(crate) fn is_open(&self, range: PageRange) -> bool {
        self.units.is_open(range)
    }

    /// Calls `act` with the maximal open runs inside `range`, ascending, until it fails.
    pub(crate) fn open_runs<E>(
        &self,
        range: PageRange,
        act: impl FnMut(PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        self.units.runs(range, ChunkState::Open).try_for_each(act)
    }

    /// Calls `act` with the runs of closed units that have to be opened for `part` of `range`,
    /// ascending, until it fails. The caller opens each of them, and then says so by
    /// [`set_open`](Self::set_open).
    pub(crate) fn closed_runs<E>(
        &self,
        range: PageRange,
        part: PageRange,
        act: impl FnMut(PageRange) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = self.units.round_out(part);
        let (start, end) = (self.first_wanted(wanted.start()), self.end_wanted(wanted.end(), range));
        let wanted = PageRange::new(start, end).map_or(wanted, |wanted| self.units.round_out(wanted));
        self.units.runs(wanted, ChunkState::Closed).try_for_each(act)
    }

    /// Returns the first page to open before the unit at `start`: what is closed behind another
    /// open unit of the chunk is opened, too. So are a few pages at the start of a chunk, where
    /// something is open before it as a rule.
    fn first_wanted(&self, start: u64) -> u64 {
        let chunk = self.chunk_at(start);
        let before = PageRange::new(chunk.start(), start);
        let closed = before.and_then(|before| self.units.runs(before, ChunkState::Closed).last());
        let closed = closed.filter(|closed| closed.end() == start);
        let is_near = |closed: &PageRange| closed.start() > chunk.start() || closed.len() < TABLE_PAGES;
        closed.filter(is_near).map_or(start, |closed| closed.start())
    }

    /// Returns the page behind the last one to open, where the last unit of `range` ends at `end`.
    fn end_wanted(&self, end: u64, range: PageRange) -> u64 {
        let chunk = self.chunk_at(end - 1);
        let is_small = range.len() < UNIT_PAGES;
        let end = if is_small { end.next_multiple_of(TABLE_PAGES).min(chunk.end()) } else { end };
        let behind = PageRange::new(end, chunk.end());
        let closed = behind.and_then(|behind| self.units.runs(behind, ChunkState::Closed).next());
        let closed = closed.filter(|closed| closed.start() == end && closed.end() < chunk.end());
        closed.map_or(end, |closed| closed.end())
    }

    /// Notes that `run`, one of [`closed_runs`](Self::closed_runs), is open now.
    pub(crate) fn set_open(&self, run: PageRange) {
        self.units.set(run, ChunkState::Open);
        // Relaxed: a search may miss what is opened meanwhile.
        self.end.fetch_max(run.end(), Ordering::Relaxed);
    }

    /// Notes that the units of `run` are closed.
    pub(crate) fn set_closed(&self, run: PageRange) {
        self.units.set(run, ChunkState::Closed);
    }

    /// Returns the chunks of which something is open, ascending.
    pub(crate) fn open_chunks(&self) -> impl Iterator<Item = PageRange> + '_ {
        let mut page = self.units.span().start();
        std::iter::from_fn(move || {
            let rest = PageRange::new(page, self.end.load(Ordering::Relaxed))?;
            let chunk = self.chunk_at(self.units.runs(rest, ChunkState::Open).next()?.start());
            page = chunk.end();
            Some(chunk)
        })
    }

    /// Returns the whole units inside `range`.
    pub(crate) fn whole_units(&self, range: PageRange) -> Option<PageRange> {
        self.units.round_in(range)
    }

    /// Returns the whole chunks inside `range`.
    pub(crate) fn whole_chunks(&self, range: PageRange) -> Option<PageRange> {
        let (first, last) = (self.chunk_at(range.start()), self.chunk_at(range.end() - 1));
        let start = if first.start() < range.start() { first.end() } else { first.start() };
        let end = if last.end() > range.end() { last.start() } else { last.end() };
        PageRange::new(start, end)
    }

    /// Returns the chunk of `page`; the last one of the span may be a short one.
    fn chunk_at(&self, page: u64) -> PageRange {
        let span = self.units.span();
        let start = page - (page - span.start()) % CHUNK_PAGES;
        PageRange::new(start, (start + CHUNK_PAGES).min(span.end())).unwrap_or(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::Ordering::Relaxed;

    /// A span of 20 chunks, the last of them short, that begins at an odd page.
    fn opened() -> Opened {
        Opened::new(PageRange::from_len(77, 19 * CHUNK_PAGES + 5).unwrap()).unwrap()
    }

    fn pages(first: u64, end: u64) -> PageRange {
        PageRange::new(77 + first, 77 + end).unwrap()
    }

    fn closed(opened: &Opened, range: PageRange) -> Vec<PageRange> {
        let mut runs = Vec::new();
        let Ok(()) = opened.closed_runs(range, range, |run| {
            runs.push(run);
            Ok::<_, Infallible>(())
        });
        runs
    }

    fn open(opened: &Opened, range: PageRange) -> Vec<PageRange> {
        let mut runs = Vec::new();
        let Ok(()) = opened.open_runs(range, |run| {
            runs.push(run);
            Ok::<_, Infallible>(())
        });
        runs
    }

    /// A purge holds others up that long: a word of states for 64 units, not one for each.
    #[test]
    fn states_of_many_units_are_written_a_word_at_a_time() {
        let span = PageRange::from_len(1 << 20, 6400 * CHUNK_PAGES).unwrap();
        let opened = Opened::new(span).unwrap();
        opened.set_open(span);
        opened.set_closed(span);
        let words = 2 * span.len() / UNIT_PAGES / 64;
        assert_eq!(opened.units.written.load(Relaxed), words);
    }

    #[test]
    fn large_ranges_are_opened_to_their_units_and_small_ones_to_a_border() {
        let opened = opened();
        assert_eq!(closed(&opened, pages(600, 5000)), [pages(576, 5056)]);
        assert_eq!(closed(&opened, pages(640, 1024)), [pages(640, 1024)]);
        let small = pages(10, 12);
        assert_eq!(closed(&opened, small), [pages(0, 448)], "and what is before it");
        let at_the_end = pages(CHUNK_PAGES - 3, CHUNK_PAGES - 2);
        assert_eq!(closed(&opened, at_the_end), [pages(CHUNK_PAGES - 64, CHUNK_PAGES)]);
    }

    #[test]
    fn only_what_is_closed_is_opened() {
        let opened = opened();
        opened.set_open(pages(704, 3072));
        assert!(opened.is_open(pages(704, 3000)) && !opened.is_open(pages(703, 705)));
        assert!(!opened.is_open(pages(3071, 3073)));
        assert_eq!(closed(&opened, pages(600, 4000)), [pages(576, 704), pages(3072, 4032)]);
        assert_eq!(closed(&opened, pages(3500, 9000)), [pages(3072, 9024)], "the gap as well");
        assert_eq!(closed(&opened, pages(800, 2900)), []);
    }

    #[test]
    fn a_hole_that_a_large_area_has_left_is_filled_with_what_comes_next() {
        let opened = opened();
        opened.set_open(pages(0, CHUNK_PAGES));
        opened.set_closed(pages(256, 1280));
        assert_eq!(closed(&opened, pages(256, 1280)), [pages(256, 1280)]);
        assert_eq!(closed(&opened, pages(400, 700)), [pages(256, 1280)], "both of its sides are open");
        assert_eq!(open(&opened, pages(0, CHUNK_PAGES)), [pages(0, 256), pages(1280, CHUNK_PAGES)]);
        assert_eq!(open(&opened, pages(200, 1290)), [pages(200, 256), pages(1280, 1290)]);
    }

    #[test]
    fn chunks_with_something_open_are_found() {
        let opened = opened();
        opened.set_open(pages(64, 2 * CHUNK_PAGES + 64));
        let last = pages(19 * CHUNK_PAGES, 19 * CHUNK_PAGES + 5);
        opened.set_open(last);
        let chunk = |nth| pages(nth * CHUNK_PAGES, (nth + 1) * CHUNK_PAGES);
        assert_eq!(opened.open_chunks().collect::<Vec<_>>(), [chunk(0), chunk(1), chunk(2), last]);
        assert_eq!(
            opened.whole_chunks(pages(1, 3 * CHUNK_PAGES + 1)),
            Some(pages(CHUNK_PAGES, 3 * CHUNK_PAGES))
        );
        assert_eq!(
            opened.whole_chunks(pages(18 * CHUNK_PAGES, 19 * CHUNK_PAGES + 5)),
            Some(pages(18 * CHUNK_PAGES, 19 * CHUNK_PAGES + 5))
        );
        assert_eq!(opened.whole_chunks(pages(1, CHUNK_PAGES)), None);
    }
}
