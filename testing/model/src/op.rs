//! Operations as plain data: they name areas by position, so any list of them is a valid program.

use crate::ask::Ask;
use crate::naive::NaiveMap;
use vmalloc_map::PageRange;
use vmalloc_map::{Segment, State};

/// One step of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Place an area.
    Alloc(Ask),
    /// Claim exactly `pages` pages from `at` on; cut where page numbers end.
    AllocAt {
        /// The first page.
        at: Place,
        /// How many.
        pages: u64,
    },
    /// Busy to free.
    Free(Place),
    /// Busy to retired.
    Retire(Place),
    /// Retired to busy.
    Revive(Place),
    /// Retired to free.
    Release(Place),
    /// Look up the page.
    Find(Place),
    /// Cut an area in two, so many pages from its start.
    Split(Place, u64),
    /// Free so many pages from a page of an area on.
    FreePart(Place, u64),
    /// Grow an area in place by so many pages.
    Grow(Place, u64),
    /// Shrink an area in place to so many pages.
    Shrink(Place, u64),
    /// Let the span end so many pages later.
    Extend(u64),
}

/// A page, named by what is there when the operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// This page, inside the space or not.
    Page(u64),
    /// A page of (or next to) the `nth` segment in this state, counted around; the start of the
    /// span when there is none.
    Segment {
        /// The state of the segments that are counted.
        state: State,
        /// The index among them, modulo their number.
        nth: u32,
        /// Where in it.
        spot: Spot,
    },
}

/// Where in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// Its first page.
    Start,
    /// This many pages in, modulo its length.
    Inside(u64),
    /// The page before its first.
    Before,
    /// The page after its last.
    After,
}

impl Place {
    /// Returns the page meant, in the state that `model` is in.
    pub fn page(self, model: &NaiveMap) -> u64 {
        match self {
            Self::Page(page) => page,
            Self::Segment { state, nth, spot } => match nth_segment(model.as_slice(), state, nth) {
                Some(segment) => spot.page(segment.range),
                None => model.span().start(),
            },
        }
    }
}

impl Spot {
    /// Returns the page meant, in the segment `range`.
    pub const fn page(self, range: PageRange) -> u64 {
        match self {
            Self::Start => range.start(),
            Self::Inside(offset) => range.start() + offset % range.len(),
            Self::Before => range.start().saturating_sub(1),
            Self::After => range.end(),
        }
    }
}

fn nth_segment(segments: &[Segment], state: State, nth: u32) -> Option<Segment> {
    let matching = || segments.iter().filter(|segment| segment.state == state);
    let index = (nth as usize).checked_rem(matching().count())?;
    matching().nth(index).copied()
}
