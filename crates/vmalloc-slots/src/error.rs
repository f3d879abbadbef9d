//! Errors: one small type for each operation.

use thiserror::Error;
use vmalloc::AreaError;

/// Why no pool of slots can be made. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SlotsError {
    /// A slot has no bytes.
    #[error("the size of a slot is zero")]
    ZeroSize,
    /// The head does not fit into the slot.
    #[error("a head of {head} bytes is larger than its slot of {slot}")]
    HeadBeyondSlot {
        /// Bytes of the head asked for.
        head: usize,
        /// Bytes of a slot.
        slot: usize,
    },
    /// One slot with its guards is larger than the span of the space, or than any address.
    #[error(
        "a slot of {slot} bytes with guards of {guards} is larger than the span of {span}: open a larger space (max_bytes on Linux)"
    )]
    BeyondSpan {
        /// Bytes of a slot.
        slot: usize,
        /// Bytes of both its guards; `usize::MAX` if there are more.
        guards: usize,
        /// Bytes of the span.
        span: u64,
    },
    /// The pool may have no slots, or more than can be numbered.
    #[error("{slots} slots are not from 1 to 2^31")]
    BadCount {
        /// The most slots asked for.
        slots: usize,
    },
    /// Too little memory for the pool's own metadata.
    #[error("out of memory for metadata")]
    Metadata,
}

/// Why no slot can be had, or why one can't grow. Nothing was lost or changed, but waiting slots
/// may have been reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SlotError {
    /// All slots are busy.
    #[error("all {slots} slots are busy")]
    Exhausted {
        /// The most slots of the pool.
        slots: usize,
    },
    /// The slot is not as large.
    #[error("{asked} bytes are more than the slot has: {slot}")]
    Beyond {
        /// Bytes asked for.
        asked: usize,
        /// Bytes of the slot.
        slot: usize,
    },
    /// The space or the platform has no addresses or no memory, or waiting slots can't be reset.
    #[error(transparent)]
    Area(#[from] AreaError),
}

impl From<vmalloc::AllocError> for SlotError {
    fn from(error: vmalloc::AllocError) -> Self {
        Self::Area(error.into())
    }
}
