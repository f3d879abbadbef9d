//! Errors.

use thiserror::Error;
use vmalloc::{AllocError, AreaError};
use vmalloc_linux::Error;

/// The refusal of a pool or of a stack. Nothing is lost or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// A stack of less than a page was asked for.
    #[error("a stack of {bytes} bytes is smaller than a page of {page_bytes}")]
    TooSmall {
        /// The size asked for.
        bytes: usize,
        /// The size of a page.
        page_bytes: usize,
    },
    /// A stack was asked for that is larger than all addresses of the pool.
    #[error("a stack of {bytes} bytes is larger than the {most} bytes of the pool")]
    TooLarge {
        /// The size asked for.
        bytes: usize,
        /// The most that a stack of this pool can have.
        most: usize,
    },
    /// The alignment is not a power of two, or larger than all addresses of the pool.
    #[error("a stack can't be aligned to {align} bytes")]
    BadAlign {
        /// The alignment asked for.
        align: usize,
    },
    /// A growable stack was to begin, or to grow, with more than it may have at most.
    #[error("{bytes} bytes are more than the {most} that the stack may grow to")]
    BeyondMost {
        /// The size asked for.
        bytes: usize,
        /// The most that the stack may have.
        most: usize,
    },
    /// Another thread grows the stack at this moment.
    #[error("another thread grows the stack at this moment")]
    Growing,
    /// No space could be opened for the pool.
    #[error(transparent)]
    Open(#[from] Error),
    /// The pool is out of addresses or memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The pages of a growable stack could not be committed.
    #[error(transparent)]
    Commit(#[from] AreaError),
}
