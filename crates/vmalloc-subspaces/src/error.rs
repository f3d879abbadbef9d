//! Why a sub-space cannot be made. Ranges are of addresses, as in the errors of the core.

use thiserror::Error;
use vmalloc::{NoSpace, PageRange, RequestError, SpaceError};

/// Why a sub-space cannot be made. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SubspaceError {
    /// Another sub-space has that name.
    #[error("there is a sub-space {name:?} already, at {range:?}")]
    DuplicateName {
        /// The name.
        name: &'static str,
        /// Where the other one is.
        range: PageRange,
    },
    /// The range is, at least in part, outside the parent.
    #[error("{asked:?} is not inside the parent's {parent:?}")]
    Outside {
        /// The addresses asked for.
        asked: PageRange,
        /// Those of the parent.
        parent: PageRange,
    },
    /// The range overlaps that of another sub-space.
    #[error("{asked:?} overlaps the sub-space {sibling:?} at {range:?}")]
    Overlap {
        /// The addresses asked for.
        asked: PageRange,
        /// The lowest sub-space in the way.
        sibling: &'static str,
        /// Its addresses.
        range: PageRange,
    },
    /// The size, the alignment or the limits are wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No free range is large enough.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// The memory could not be written, so not cleared either, and the platform does not map zeros.
    #[error("the platform does not map zeros, and memory that can't be written can't be cleared")]
    NotZeroed,
    /// No space can be made in the range.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Too little memory for the allocator's own metadata.
    #[error("out of memory for metadata")]
    Metadata,
}
