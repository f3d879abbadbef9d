//! The published tests of the API, unchanged.

include!(concat!(env!("OUT_DIR"), "/tests/std.rs"));
