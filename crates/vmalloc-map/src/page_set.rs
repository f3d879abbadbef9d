//! A set of pages: those of an area, or of a part of a span, that have memory.
//!
//! The pages of the set are the busy areas of an area map. Its memory grows with the number of
//! runs, not of pages.

use crate::FitError;
use crate::PageRange;
use crate::{AreaMap, Segment, State};

/// A set of pages inside a span.
///
/// ```
/// # use vmalloc_map::{PageRange, PageSet};
/// let range = |start, end| PageRange::new(start, end).unwrap();
/// let mut set = PageSet::new(range(100, 1 << 30))?;
/// set.insert(range(200, 300))?;
/// set.remove(range(210, 220));
/// assert_eq!((set.len(), set.len_in(range(0x100, 0x200))), (90, 44));
/// # Ok::<(), vmalloc_map::FitError>(())
/// ```
#[derive(Debug)]
pub struct PageSet {
    pages: AreaMap<'static>,
}

impl PageSet {
    /// Returns the empty set over `span`.
    ///
    /// # Errors
    /// [`FitError::Metadata`] when memory is short.
    pub fn new(span: PageRange) -> Result<Self, FitError> {
        Ok(Self { pages: AreaMap::new(span)? })
    }

    /// Returns the number of pages in the set.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.span().len() - self.pages.free_pages()
    }

    /// Returns whether no page is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range from the first page of the set to the last. O(runs).
    #[must_use]
    pub fn bounds(&self) -> Option<PageRange> {
        let mut runs = self.pages.areas().map(|segment| segment.range);
        let first = runs.next()?;
        PageRange::new(first.start(), runs.last().unwrap_or(first).end())
    }

    /// Inserts `range`, as far as it is not in the set yet. O(runs inside `range` × log runs).
    ///
    /// # Errors
    /// [`FitError::Request`] when `range` is not inside the span: nothing is inserted.
    /// [`FitError::Metadata`] when memory is short: a part of it is inserted.
    pub fn insert(&mut self, range: PageRange) -> Result<(), FitError> {
        let mut page = range.inside(self.pages.span())?.start();
        while let Some(segment) = self.segment_in(range, page) {
            if segment.state == State::Free {
                self.pages.alloc_at(segment.range)?;
            }
            page = segment.range.end();
        }
        Ok(())
    }

    /// Removes `range`, as far as it is in the set. A run that would have to be split stays in the
    /// set where memory for that is short. O(runs inside `range` × log runs).
    pub fn remove(&mut self, range: PageRange) {
        let _ = self.split_at_edges(range);
        let mut page = range.start().max(self.pages.span().start());
        while let Some(segment) = self.pages.segment(page).filter(|_| page < range.end()) {
            if segment.state != State::Free && range.covers(&segment.range) {
                let freed = self.pages.free(segment.range.start());
                debug_assert!(freed.is_ok(), "a busy area can be freed");
            }
            page = segment.range.end();
        }
    }

    /// Splits the runs that `range` would split, so that [`remove`](Self::remove) removes all of it.
    ///
    /// # Errors
    /// [`FitError::Metadata`] when memory is short; the set has the same pages.
    #[doc(hidden)]
    pub fn split_at_edges(&mut self, range: PageRange) -> Result<(), FitError> {
        for edge in [range.start(), range.end()] {
            if let Some(run) = self.pages.find(edge).filter(|run| run.start() != edge) {
                self.pages.split(run.start(), edge).map_err(|_| FitError::Metadata)?;
            }
        }
        Ok(())
    }

    /// Returns how many pages of `range` are in the set. O(runs inside `range`).
    #[must_use]
    pub fn len_in(&self, range: PageRange) -> u64 {
        let pages = self.segments_in(range).filter(|segment| segment.state != State::Free);
        pages.map(|segment| segment.range.len()).sum()
    }

    /// Returns the first page of `range` that is in the set, or that is not, as those outside the
    /// span. O(runs inside `range`).
    #[must_use]
    pub fn first(&self, range: PageRange, is_in: bool) -> Option<u64> {
        self.segments_in(range)
            .find(|segment| (segment.state != State::Free) == is_in)
            .map(|segment| segment.range.start())
    }

    /// Checks every invariant of the set, for tests. O(runs).
    ///
    /// # Errors
    /// The first [`Violation`](crate::Violation) found.
    pub fn verify(&self) -> Result<(), crate::Violation> {
        self.pages.verify()
    }

    /// Returns the parts inside `range` of all segments.
    fn segments_in(&self, range: PageRange) -> impl Iterator<Item = Segment> + '_ {
        let first = self.segment_in(range, range.start());
        core::iter::successors(first, move |segment| self.segment_in(range, segment.range.end()))
    }

    /// Returns the part inside `range` of the segment at `page`, if that is inside. Pages outside
    /// the span are free.
    fn segment_in(&self, range: PageRange, page: u64) -> Option<Segment> {
        let span = self.pages.span();
        let end = if page < span.start() { span.start() } else { range.end() };
        let outside = Segment { range: PageRange::new(page, end)?, state: State::Free };
        let mut segment = self.pages.segment(page).unwrap_or(outside);
        segment.range = segment.range.intersection(&range)?;
        range.contains(page).then_some(segment)
    }
}
