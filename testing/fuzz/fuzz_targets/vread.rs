//! The same, for the most part read.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_sim::script::vread(input));
