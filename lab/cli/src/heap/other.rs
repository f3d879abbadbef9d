//! Heaps that can't be told to give memory back.

/// Does nothing.
pub(crate) fn return_large_blocks() {}

/// Does nothing.
pub(crate) fn trim() {}
