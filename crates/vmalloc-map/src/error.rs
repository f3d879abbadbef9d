//! Errors: one small type per operation, each with the facts of the refusal. Figures are in pages,
//! or in bytes and addresses after [`FitError::in_bytes`], as a space of `vmalloc` tells them.

use crate::PageRange;
use crate::shared::OutOfMemory;
use core::ops::Range;
use thiserror::Error;

/// A request that can never be met, whatever is free. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("RequestError")]
pub enum RequestError {
    /// Nothing was asked for.
    #[cfg_attr(feature = "error-texts", error("the size is zero"))]
    ZeroSize,
    /// The record is 0, which stands for none. A space of `vmalloc` says so.
    #[cfg_attr(feature = "error-texts", error("a record of 0 stands for none"))]
    ZeroRecord,
    /// The size, rounded up to pages and with its guard, is more than `isize::MAX` bytes: no object
    /// is as large, and no slice could cover it (the rule of [`Layout`](core::alloc::Layout)). A
    /// space of `vmalloc` says so.
    #[cfg_attr(feature = "error-texts", error("a size of {bytes} bytes is not representable"))]
    SizeOverflow {
        /// The size asked for, in bytes.
        bytes: usize,
    },
    /// The alignment is zero or not a power of two (in the unit the request was made in).
    #[cfg_attr(feature = "error-texts", error("an alignment of {align} is not a power of two"))]
    AlignNotPowerOfTwo {
        /// The alignment asked for.
        align: u64,
    },
    /// The node does not exist. A map has none: a space of `vmalloc` says so.
    #[cfg_attr(feature = "error-texts", error("there is no node {node}: there are {nodes}"))]
    NoSuchNode {
        /// The node asked for.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// The limits are empty or reversed, or hold no whole page.
    #[cfg_attr(feature = "error-texts", error("the limits {start:#x}..{end:#x} hold no page"))]
    LimitsReversed {
        /// First page or byte allowed.
        start: u64,
        /// The one after the last.
        end: u64,
    },
    /// The limits or the exact range lie, at least in part, outside the space.
    #[cfg_attr(feature = "error-texts", error("{asked:?} is not inside {space:?}"))]
    OutsideSpace {
        /// The range asked for.
        asked: PageRange,
        /// The whole span.
        space: PageRange,
    },
}

impl TryFrom<Range<u64>> for PageRange {
    type Error = RequestError;

    fn try_from(Range { start, end }: Range<u64>) -> Result<Self, RequestError> {
        Self::new(start, end).ok_or(RequestError::LimitsReversed { start, end })
    }
}

/// The refusal of an allocation for want of address space, with its figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[cfg_attr(
    feature = "error-texts",
    error(
        "no {size} {unit} free, aligned to {align}, within {within:?}; the largest free range anywhere has {largest}: \
     free some, or widen the limits"
    )
)]
#[cfg_attr(not(feature = "error-texts"), error("NoSpace"))]
pub struct NoSpace {
    /// The size asked for, guard included.
    pub size: u64,
    /// The alignment asked for.
    pub align: u64,
    /// Where it was looked for.
    pub within: PageRange,
    /// The largest free range in the whole space; may be large enough but misaligned or outside the
    /// limits.
    pub largest: u64,
    /// The unit of the figures, for the message: pages, or bytes.
    pub unit: &'static str,
}

/// Why a map hands out no range. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("FitError")]
pub enum FitError {
    /// The request itself is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No free range fits.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// The exact range asked for is not all free.
    #[cfg_attr(feature = "error-texts", error("{asked:?} is not all free: {by:?} is taken"))]
    Occupied {
        /// The range asked for.
        asked: PageRange,
        /// The lowest area in the way.
        by: PageRange,
    },
    /// No memory for the map's own records.
    #[cfg_attr(feature = "error-texts", error("out of memory for metadata"))]
    Metadata,
}

impl FitError {
    /// Returns the error with bytes and addresses for pages of so many bytes, or as far as there
    /// are numbers: for messages to callers who count in bytes.
    #[must_use]
    pub fn in_bytes(self, page_bytes: u64) -> Self {
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let addrs = |pages: PageRange| pages.times(page_bytes);
        match self {
            Self::Request(RequestError::LimitsReversed { start, end }) => {
                RequestError::LimitsReversed { start: bytes(start), end: bytes(end) }.into()
            }
            Self::Request(RequestError::OutsideSpace { asked, space }) => {
                RequestError::OutsideSpace { asked: addrs(asked), space: addrs(space) }.into()
            }
            Self::NoSpace(NoSpace { size, align, within, largest, .. }) => {
                let (size, align, largest) = (bytes(size), bytes(align), bytes(largest));
                NoSpace { size, align, within: addrs(within), largest, unit: "bytes" }.into()
            }
            Self::Occupied { asked, by } => Self::Occupied { asked: addrs(asked), by: addrs(by) },
            error => error,
        }
    }
}

impl From<OutOfMemory> for FitError {
    fn from(_: OutOfMemory) -> Self {
        Self::Metadata
    }
}

/// Why a page names no area that the call can take. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("NoArea")]
pub enum NoArea {
    /// No area holds this page.
    #[cfg_attr(feature = "error-texts", error("page {page:#x} is in no area"))]
    Nothing {
        /// The page given.
        page: u64,
    },
    /// The page is inside an area, not at its start.
    #[cfg_attr(feature = "error-texts", error("page {page:#x} is inside the area that starts at {start:#x}"))]
    Interior {
        /// The page given.
        page: u64,
        /// Where its area starts.
        start: u64,
    },
    /// The area is retired: it was freed before.
    #[cfg_attr(feature = "error-texts", error("page {page:#x} was freed already"))]
    Retired {
        /// The page given.
        page: u64,
    },
    /// The call takes a retired area without a token: this one is busy, or the map gives tokens.
    #[cfg_attr(feature = "error-texts", error("page {page:#x} is busy, or comes back only for a token"))]
    Busy {
        /// The page given.
        page: u64,
    },
}
