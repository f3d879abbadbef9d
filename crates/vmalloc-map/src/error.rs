//! Errors: one small type per operation, each with the facts of the refusal. Figures are in pages.

use crate::PageRange;
use crate::shared::OutOfMemory;
use thiserror::Error;

/// A request that can never be met, whatever is free. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing was asked for.
    #[error("the size is zero")]
    ZeroSize,
    /// The size, rounded up to pages and with its guard, is more than `isize::MAX` bytes: no object
    /// is as large, and no slice could cover it (the rule of [`Layout`](core::alloc::Layout)). A
    /// space of `vmalloc` says so.
    #[error("a size of {bytes} bytes is not representable")]
    SizeOverflow {
        /// The size asked for, in bytes.
        bytes: usize,
    },
    /// The alignment is zero or not a power of two (in the unit the request was made in).
    #[error("alignment {align} is not a power of two")]
    AlignNotPowerOfTwo {
        /// The alignment asked for.
        align: u64,
    },
    /// The phase is not smaller than the alignment.
    #[error("phase {phase} is not below the alignment {align} (pages)")]
    PhaseTooLarge {
        /// The phase asked for, in pages.
        phase: u64,
        /// The alignment, in pages.
        align: u64,
    },
    /// The boundary is not a power of two, or smaller than the request.
    #[error("boundary {boundary} is not a power of two of at least {pages} pages")]
    BadBoundary {
        /// The boundary asked for, in pages.
        boundary: u64,
        /// The size, in pages.
        pages: u64,
    },
    /// The node does not exist. A map has none: a space of `vmalloc` says so.
    #[error("there is no node {node}: there are {nodes}")]
    NoSuchNode {
        /// The node asked for.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// The limits are empty or reversed.
    #[error("limits {start:#x}..{end:#x} are empty or reversed")]
    LimitsReversed {
        /// First page allowed.
        start: u64,
        /// Page after the last one allowed.
        end: u64,
    },
    /// The limits or the exact range lie, at least in part, outside the space.
    #[error("{asked:?} is not inside the space {space:?}")]
    OutsideSpace {
        /// The pages asked for.
        asked: PageRange,
        /// The pages of the space.
        space: PageRange,
    },
}

impl TryFrom<core::ops::Range<u64>> for PageRange {
    type Error = RequestError;

    fn try_from(range: core::ops::Range<u64>) -> Result<Self, RequestError> {
        let core::ops::Range { start, end } = range;
        Self::new(start, end).ok_or(RequestError::LimitsReversed { start, end })
    }
}

/// The refusal of an allocation for want of address space, with its figures, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "no {}{} free, aligned to {}, within {:?}; the largest free range anywhere has {}: free some, or widen the limits",
    .pages.saturating_mul(*.page_bytes),
    if *.page_bytes == 1 { "" } else { " bytes" },
    .align.saturating_mul(*.page_bytes),
    .within.times(*.page_bytes),
    .largest.saturating_mul(*.page_bytes)
)]
pub struct NoSpace {
    /// Pages asked for, guard included.
    pub pages: u64,
    /// Alignment asked for, in pages.
    pub align: u64,
    /// Where it was looked for.
    pub within: PageRange,
    /// The largest free range in the whole space, in pages; may be large enough but misaligned or
    /// outside the limits.
    pub largest: u64,
    /// Bytes of a page, for the message; 1 in a map, whose unit is what its user makes of it.
    pub page_bytes: u64,
}

/// Why a map hands out no range. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The request itself is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No free range fits.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// The exact range asked for is not all free.
    #[error("{asked:?} is not all free: {by:?} is taken")]
    Occupied {
        /// The pages asked for.
        asked: PageRange,
        /// The lowest area in the way.
        by: PageRange,
    },
    /// No memory for the map's own records.
    #[error("out of memory for metadata")]
    Metadata,
}

impl From<OutOfMemory> for FitError {
    fn from(_: OutOfMemory) -> Self {
        Self::Metadata
    }
}

/// Why a page names no area that the call can take. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoArea {
    /// No area holds this page.
    #[error("page {page:#x} is in no area")]
    Nothing {
        /// The page given.
        page: u64,
    },
    /// The page is inside an area, not at its start.
    #[error("page {page:#x} is inside the area that starts at {start:#x}")]
    Interior {
        /// The page given.
        page: u64,
        /// Where its area starts.
        start: u64,
    },
    /// The area is retired: it was freed before.
    #[error("the area at page {page:#x} was freed already")]
    Retired {
        /// The page given.
        page: u64,
    },
    /// The call takes a retired area without a token: this one is busy, or the map gives tokens.
    #[error("the area at page {page:#x} is busy, or comes back only for a token")]
    Busy {
        /// The page given.
        page: u64,
    },
}
