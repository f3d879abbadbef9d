//! Areas that grow, shrink and move, on a simulated machine with memory, against the oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_programs::machines::play_direct(input));
