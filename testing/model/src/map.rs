//! The operations that every implementation under test has: the signature of [`AreaMap`].

use crate::ask::Ask;
use crate::op::Resize;
use vmalloc_map::{AreaMap, ResizeError, Segment, Violation};
use vmalloc_map::{FitError, NoArea, PageRange};

/// An ordered set of free ranges and areas over one span of pages.
///
/// The methods mean what those of [`AreaMap`] mean. A failed call changes nothing.
pub trait Map {
    /// Returns all pages managed.
    fn span(&self) -> PageRange;

    /// Allocates a busy area placed as `ask` says.
    ///
    /// # Errors
    /// `Request` when the limits leave the span, `NoSpace` when nothing fits.
    fn alloc(&mut self, ask: &Ask) -> Result<PageRange, FitError>;

    /// Allocates exactly these pages.
    ///
    /// # Errors
    /// `Request` when they leave the span, `Occupied` with the lowest area in the way.
    fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError>;

    /// Frees a busy area, and merges it with free neighbours.
    ///
    /// # Errors
    /// Unless a busy area starts at `start`.
    fn free(&mut self, start: u64) -> Result<PageRange, NoArea>;

    /// Retires a busy area.
    ///
    /// # Errors
    /// Unless a busy area starts at `start`.
    fn retire(&mut self, start: u64) -> Result<PageRange, NoArea>;

    /// Makes a retired area busy.
    ///
    /// # Errors
    /// Unless a retired area starts at `start`.
    fn revive(&mut self, start: u64) -> Result<PageRange, NoArea>;

    /// Frees a retired area, and merges it with free neighbours.
    ///
    /// # Errors
    /// Unless a retired area starts at `start`.
    fn release(&mut self, start: u64) -> Result<PageRange, NoArea>;

    /// Changes a busy area where it is, or the span.
    ///
    /// # Errors
    /// [`ResizeError`].
    fn resize(&mut self, change: Resize) -> Result<PageRange, ResizeError>;

    /// Returns the segment that holds `page`; `None` outside the span.
    fn segment(&self, page: u64) -> Option<Segment>;

    /// Returns the busy area that holds `page`.
    fn find(&self, page: u64) -> Option<PageRange>;

    /// Returns all segments in address order.
    fn segments(&self) -> impl Iterator<Item = Segment> + '_;

    /// Returns the largest free range, in pages.
    fn largest_free(&self) -> u64;

    /// Returns how many pages are in free ranges.
    fn free_pages(&self) -> u64;

    /// Returns whether nothing is allocated or retired.
    fn is_whole(&self) -> bool;

    /// Bytes of metadata, for the leak check; an implementation that does not count says 0.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Checks every invariant.
    ///
    /// # Errors
    /// The first one found broken.
    fn verify(&self) -> Result<(), Violation>;
}

impl Map for AreaMap<'_> {
    fn span(&self) -> PageRange {
        self.span()
    }

    fn alloc(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        self.alloc(&ask.fit())
    }

    fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError> {
        self.alloc_at(range)
    }

    fn free(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.free(start)
    }

    fn retire(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.retire(start)
    }

    fn revive(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.revive(start)
    }

    fn release(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.release(start)
    }

    fn resize(&mut self, change: Resize) -> Result<PageRange, ResizeError> {
        match change {
            Resize::Split { start, at } => self.split(start, at).map(|(_, right)| right),
            Resize::FreePart(part) => self.free_part(part).map(|()| part),
            Resize::Grow { start, pages } => self.grow_in_place(start, pages),
            Resize::Shrink { start, pages } => self.shrink_in_place(start, pages),
            Resize::Extend { end } => self.extend(end).map_err(ResizeError::from),
        }
    }

    fn segment(&self, page: u64) -> Option<Segment> {
        self.segment(page)
    }

    fn find(&self, page: u64) -> Option<PageRange> {
        self.find(page)
    }

    fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments()
    }

    fn largest_free(&self) -> u64 {
        self.largest_free()
    }

    fn free_pages(&self) -> u64 {
        self.free_pages()
    }

    fn is_whole(&self) -> bool {
        self.is_whole()
    }

    fn metadata_bytes(&self) -> usize {
        self.metadata_bytes()
    }

    fn verify(&self) -> Result<(), Violation> {
        self.verify()
    }
}
