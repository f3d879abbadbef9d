//! Errors, in the unit of the call: bytes and addresses for a space, pages for a map.

use thiserror::Error;
use vmalloc::{FreeError, PageRange, RequestError};

/// The refusal of congruent areas for want of address space, with its figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "no base aligned to {align} from which {areas} areas of {size} {unit} in all, {extent} from end to end, are free within \
     {within:?}; the largest free range anywhere has {largest}"
)]
pub struct NoCongruentSpace {
    /// Areas asked for.
    pub areas: usize,
    /// The sizes of all of them.
    pub size: u64,
    /// The distance from the base to the end of the last.
    pub extent: u64,
    /// The alignment asked for.
    pub align: u64,
    /// Where it was looked for.
    pub within: PageRange,
    /// The largest free range in the whole space.
    pub largest: u64,
    /// The unit of the figures, for the message: pages, or bytes.
    pub unit: &'static str,
}

/// Why congruent areas can't be had. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CongruentError {
    /// None was asked for.
    #[error("no areas are asked for")]
    NoAreas,
    /// Not as many offsets as sizes.
    #[error("there are {offsets} offsets for {sizes} sizes")]
    LengthsDiffer {
        /// Offsets given.
        offsets: usize,
        /// Sizes given.
        sizes: usize,
    },
    /// An offset is not a multiple of the page size.
    #[error("offset {offset:#x} of area {index} is not at a page boundary")]
    OffsetNotPages {
        /// Which.
        index: usize,
        /// Its offset in bytes.
        offset: u64,
    },
    /// An area has size zero.
    #[error("area {index} has size zero")]
    ZeroSize {
        /// Which.
        index: usize,
    },
    /// An area ends where no number reaches.
    #[error("area {index} ends behind the last address")]
    Overflow {
        /// Which.
        index: usize,
    },
    /// Two areas overlap.
    #[error("areas {first} and {second} overlap")]
    Overlap {
        /// One of them.
        first: usize,
        /// The other, given later.
        second: usize,
    },
    /// The alignment is zero or not a power of two.
    #[error("an alignment of {align} is not a power of two")]
    AlignNotPowerOfTwo {
        /// The alignment asked for.
        align: u64,
    },
    /// The alignment is less than a page.
    #[error("an alignment of {align} bytes is less than a page")]
    AlignNotPages {
        /// The alignment asked for, in bytes.
        align: u64,
    },
    /// The limits are wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Out of address space.
    #[error(transparent)]
    NoSpace(#[from] NoCongruentSpace),
    /// No memory for the allocator's own metadata.
    #[error("out of memory for metadata")]
    Metadata,
}

/// Why congruent areas can't be freed. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CongruentFreeError {
    /// No such areas can have been made.
    #[error(transparent)]
    Request(#[from] CongruentError),
    /// No area of this kind starts where one should.
    #[error("area {index} of the group: {cause}")]
    Area {
        /// Which.
        index: usize,
        /// The reason why it is no area of the group.
        #[source]
        cause: FreeError,
    },
    /// An area has another size.
    #[error("area {index} of the group is {area:?}, not {asked:?}")]
    Size {
        /// Which.
        index: usize,
        /// Where it should be.
        asked: PageRange,
        /// Where it is.
        area: PageRange,
    },
}
