//! polars with `LargeAlloc` as its global allocator: a switch between it and the system's, and the published tests of polars-core.

pub mod published;
mod switch;

pub use switch::Switch;
