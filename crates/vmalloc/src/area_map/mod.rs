//! The area map: free ranges and areas of one space in one structure (work in progress: bodies follow).
use crate::addr::PageRange;
use crate::error::{AllocError, FreeError};
use crate::request::Fit;

/// What a segment of the space is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Free: may be handed out.
    Free,
    /// Freed, but not reusable yet (lazy), or kept for reuse (pooled).
    Retired,
    /// Handed out.
    Busy,
}
/// A segment: a free range or an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its pages.
    pub range: PageRange,
    /// What it is.
    pub state: State,
}
/// A broken invariant found by `verify`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which invariant (`I1`…).
    pub invariant: &'static str,
    /// Where: the page.
    pub page: u64,
}
/// The area map.
pub struct AreaMap {
    _p: (),
}
#[allow(missing_docs, unused_variables, clippy::unimplemented)]
impl AreaMap {
    /// An empty map over `span`, metadata from the heap.
    pub fn new(span: PageRange) -> Result<Self, AllocError> {
        unimplemented!()
    }
    pub fn span(&self) -> PageRange {
        unimplemented!()
    }
    /// Busy area placed by `fit`.
    pub fn alloc(&mut self, fit: &Fit) -> Result<PageRange, AllocError> {
        unimplemented!()
    }
    /// Busy area of exactly these pages; AllocError::Occupied when any page is not free.
    pub fn alloc_at(&mut self, range: PageRange) -> Result<(), AllocError> {
        unimplemented!()
    }
    /// Busy -> Free, coalesced; the pages freed. = retire + release.
    pub fn free(&mut self, start: u64) -> Result<PageRange, FreeError> {
        unimplemented!()
    }
    /// Busy -> Retired.
    pub fn retire(&mut self, start: u64) -> Result<PageRange, FreeError> {
        unimplemented!()
    }
    /// Retired -> Busy.
    pub fn revive(&mut self, start: u64) -> Result<PageRange, FreeError> {
        unimplemented!()
    }
    /// Retired -> Free, coalesced.
    pub fn release(&mut self, start: u64) -> Result<PageRange, FreeError> {
        unimplemented!()
    }
    /// The segment that holds `page` (interior lookup); None outside the span.
    pub fn segment(&self, page: u64) -> Option<Segment> {
        unimplemented!()
    }
    /// The busy area that holds `page`.
    pub fn find(&self, page: u64) -> Option<PageRange> {
        unimplemented!()
    }
    /// All segments in address order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        core::iter::empty()
    }
    /// The largest free range, in pages (0 when full).
    pub fn largest_free(&self) -> u64 {
        unimplemented!()
    }
    /// Pages in free ranges.
    pub fn free_pages(&self) -> u64 {
        unimplemented!()
    }
    /// Whether nothing is allocated.
    pub fn is_whole(&self) -> bool {
        unimplemented!()
    }
    /// Bytes of metadata in use (all structures, free-listed slots included).
    pub fn metadata_bytes(&self) -> usize {
        unimplemented!()
    }
    /// Checks every invariant, O(n).
    pub fn verify(&self) -> Result<(), Violation> {
        unimplemented!()
    }
    /// feature count-steps: tree nodes + ranges looked at by the latest call.
    #[cfg(feature = "count-steps")]
    pub fn last_steps(&self) -> u64 {
        unimplemented!()
    }
}
