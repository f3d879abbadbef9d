//! Operations as in the other targets, most of them reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_sim::script::vread(input));
