//! Errors: one small type per operation, each with the facts of the refusal, in bytes and
//! addresses. A [`PageRange`] in them is a range of addresses.

use crate::PageRange;
use crate::platform::{Geometry, Origin, PlatformError};
use thiserror::Error;
use vmalloc_map::parts::OutOfMemory;
use vmalloc_map::{FitError, NoArea, NoSpace, RequestError};

/// The refusal of an allocation that found addresses but no memory behind them, with its figures,
/// in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[cfg_attr(feature = "error-texts", error("no memory behind {size} bytes: {cause}"))]
#[cfg_attr(not(feature = "error-texts"), error("Unbacked"))]
pub struct Unbacked {
    /// The size asked for, guard included.
    pub size: u64,
    /// The alignment asked for.
    pub align: u64,
    /// Where they might have been.
    pub within: PageRange,
    /// The largest free range in the whole space: addresses were not what was short.
    pub largest: u64,
    /// The platform's error, after everything freed had been given back to it.
    #[source]
    pub cause: PlatformError,
}

/// Why a space can't be made on a platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("SpaceError")]
pub enum SpaceError {
    /// The span holds page 0. An area there would be at address 0, which is the null pointer and,
    /// to most callers, the sign of failure: the platform has to leave that page out.
    #[cfg_attr(feature = "error-texts", error("the span {span:?} begins at the null address"))]
    NullPage {
        /// The platform's span.
        span: PageRange,
    },
    /// The span ends behind the last address that a pointer can hold.
    #[cfg_attr(feature = "error-texts", error("the span {span:?} ends behind the last address"))]
    BeyondAddresses {
        /// The platform's span, as far as there are numbers.
        span: PageRange,
    },
    /// The platform's geometry and its constant name different page sizes.
    #[cfg_attr(feature = "error-texts", error("pages of 2^{page_shift} bytes, but PAGE_SHIFT is {constant}"))]
    PageShift {
        /// log2 of the page size in bytes, by the geometry.
        page_shift: u32,
        /// log2 of it, by the constant.
        constant: u32,
    },
    /// More nodes than there can be.
    #[cfg_attr(feature = "error-texts", error("{nodes} nodes are more than 128"))]
    TooManyNodes {
        /// How many were asked for.
        nodes: usize,
    },
    /// No memory for the allocator's own metadata.
    #[cfg_attr(feature = "error-texts", error("out of memory for metadata"))]
    Metadata,
}

impl SpaceError {
    /// Checks that each page of the span has an address that is neither null nor out of reach, and
    /// so has its end.
    ///
    /// # Errors
    /// [`NullPage`](Self::NullPage), [`BeyondAddresses`](Self::BeyondAddresses).
    pub const fn check_span(geometry: &Geometry) -> Result<(), Self> {
        let (pages, span) = (geometry.span, geometry.span.times(1 << geometry.page_shift));
        if pages.start() == 0 {
            return Err(Self::NullPage { span });
        }
        if pages.end() > usize::MAX as u64 >> geometry.page_shift {
            return Err(Self::BeyondAddresses { span });
        }
        Ok(())
    }
}

/// Why an allocation failed. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("AllocError")]
pub enum AllocError {
    /// The request itself is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Out of address space.
    #[cfg_attr(feature = "error-texts", error("{0}, or open a larger space (max_bytes on Linux)"))]
    NoSpace(#[from] NoSpace),
    /// The exact range asked for is not all free.
    #[cfg_attr(feature = "error-texts", error("{asked:?} is not all free: {by:?} is taken"))]
    Occupied {
        /// The addresses asked for.
        asked: PageRange,
        /// The lowest area in the way.
        by: PageRange,
    },
    /// A frame that may not be mapped this way: not taken from the supply, or, where device memory
    /// is asked for, none.
    #[cfg_attr(feature = "error-texts", error("frame {frame:#x} may not be mapped here: it is {origin:?}"))]
    BadFrame {
        /// The first such frame.
        frame: u64,
        /// The origin that the platform reports for it.
        origin: Origin,
    },
    /// No memory for the allocator's own metadata.
    #[cfg_attr(feature = "error-texts", error("out of memory for metadata"))]
    Metadata,
    /// Out of memory, or of what else the platform needs to back the area with pages.
    #[error(transparent)]
    Unbacked(#[from] Unbacked),
}

impl From<FitError> for AllocError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Request(error) => Self::Request(error),
            FitError::NoSpace(error) => Self::NoSpace(error),
            FitError::Occupied { asked, by } => Self::Occupied { asked, by },
            _ => Self::Metadata,
        }
    }
}

impl From<OutOfMemory> for AllocError {
    fn from(_: OutOfMemory) -> Self {
        Self::Metadata
    }
}

/// Why a purge is not complete. What it could not unmap waits for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("PurgeError")]
pub enum PurgeError {
    /// No memory for the list of parts that are to be unmapped.
    #[cfg_attr(feature = "error-texts", error("out of memory for the list of parts to unmap"))]
    Metadata,
    /// The platform refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

/// Why an address can't be freed (or resized, or translated). Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("FreeError")]
pub enum FreeError {
    /// No area holds this address.
    #[cfg_attr(feature = "error-texts", error("{addr:#x} is in no area"))]
    NotAnArea {
        /// The address given.
        addr: usize,
    },
    /// The address is inside an area, not at its start.
    #[cfg_attr(feature = "error-texts", error("{addr:#x} is inside the area that starts at {start:#x}"))]
    Interior {
        /// The address given.
        addr: usize,
        /// Where its area starts.
        start: usize,
    },
    /// The address has an offset inside its page: no area, and no range of pages, starts or ends
    /// there.
    #[cfg_attr(feature = "error-texts", error("{addr:#x} is not at the start of a page"))]
    Unaligned {
        /// The address given.
        addr: usize,
    },
    /// An area that was freed before, and waits for reuse or for its purge, holds this address.
    #[cfg_attr(feature = "error-texts", error("{addr:#x} was freed already"))]
    AlreadyFreed {
        /// The address given.
        addr: usize,
    },
    /// A call that never waits would have to wait: for a lock, or until what was there is unmapped.
    #[cfg_attr(feature = "error-texts", error("this has to wait at {addr:#x}: use the call that may wait"))]
    Contended {
        /// The address given.
        addr: usize,
    },
    /// Memory is short: the area cannot be remembered until it is unmapped, and the purge that
    /// would make room for it failed. Free it again later.
    #[cfg_attr(feature = "error-texts", error("no memory to remember {addr:#x}: free it again later"))]
    NoMemory {
        /// The address given.
        addr: usize,
    },
    /// The area is of another kind than this call frees.
    #[cfg_attr(feature = "error-texts", error("the area at {addr:#x} is not of the kind this call is for"))]
    WrongKind {
        /// The address of the area.
        addr: usize,
    },
}

impl FreeError {
    /// Returns the error of a map as that of a space, which has pages of `1 << shift` bytes.
    #[cold]
    pub(crate) fn of(error: NoArea, shift: u32) -> Self {
        let addr = |page: u64| (page << shift) as usize;
        match error {
            NoArea::Interior { page, start } => Self::Interior { addr: addr(page), start: addr(start) },
            NoArea::Retired { page } => Self::AlreadyFreed { addr: addr(page) },
            NoArea::Busy { page } => Self::WrongKind { addr: addr(page) },
            NoArea::Nothing { page } => Self::NotAnArea { addr: addr(page) },
        }
    }
}

/// Why something can't be done with an area. Nothing was changed, unless the call says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("AreaError")]
pub enum AreaError {
    /// The area is not there, or not of the kind that this can be done with.
    #[error(transparent)]
    Area(#[from] FreeError),
    /// The pages are not all inside the area's.
    #[cfg_attr(feature = "error-texts", error("{asked:?} is not inside the area {area:?}"))]
    Beyond {
        /// The addresses asked for.
        asked: PageRange,
        /// Those of the area, without its guard.
        area: PageRange,
    },
    /// Something is mapped there already.
    #[cfg_attr(feature = "error-texts", error("something is mapped at {addr:#x} already"))]
    Mapped {
        /// The address of the first such page.
        addr: usize,
    },
    /// Two of the ranges share pages.
    #[cfg_attr(feature = "error-texts", error("ranges overlap: {first:?} and {second:?}"))]
    Overlap {
        /// The range that starts first.
        first: PageRange,
        /// The next one.
        second: PageRange,
    },
    /// Nothing that the call is for is mapped there: no memory of the area's own to take away, or
    /// no frames that were mapped from there on.
    #[cfg_attr(feature = "error-texts", error("nothing that this call is for is mapped at {addr:#x}"))]
    NotMapped {
        /// The address of the first such page.
        addr: usize,
    },
    /// The frames are of another space, which would give them back while this one shows them.
    #[cfg_attr(feature = "error-texts", error("the frames are of another space"))]
    ForeignFrames,
    /// Addresses, metadata or memory for it ran out, or the request is wrong.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The platform refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

impl From<FitError> for AreaError {
    fn from(error: FitError) -> Self {
        Self::Alloc(error.into())
    }
}

impl From<RequestError> for AreaError {
    fn from(error: RequestError) -> Self {
        Self::Alloc(error.into())
    }
}
