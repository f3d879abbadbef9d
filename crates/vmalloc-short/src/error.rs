//! Errors.

use thiserror::Error;
use vmalloc::FreeError;

/// Why short mappings can't be had. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ShortError {
    /// Blocks can't have so many slots.
    #[error("{slots} slots of a block are not a power of two from 64 to 1024")]
    BadBlock {
        /// How many were asked for.
        slots: u64,
    },
    /// Too little memory for metadata.
    #[error("out of memory for metadata")]
    Metadata,
}

/// Why a short mapping, or a reservation, can't be ended. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum UnmapError {
    /// None begins there.
    #[error(transparent)]
    Free(#[from] FreeError),
    /// It has another number of pages than the call names.
    #[error("{mapped} pages are mapped at {addr:#x}, not {given}")]
    WrongCount {
        /// The address given.
        addr: usize,
        /// Pages mapped there.
        mapped: u64,
        /// Pages named.
        given: u64,
    },
}
