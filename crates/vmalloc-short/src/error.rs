//! Errors.

use thiserror::Error;

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
