//! Tests of the benchmarks: programs whose reader goes away, and mappings that are counted.

#[cfg(feature = "buffers")]
mod crowd;
mod pipes;
