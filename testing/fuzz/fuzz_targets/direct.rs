//! Areas that grow, shrink and move, on a simulated machine with memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_sim::script::direct(input));
