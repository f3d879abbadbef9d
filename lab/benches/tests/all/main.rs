//! Tests of the benchmarks: programs whose reader goes away.

mod pipes;
