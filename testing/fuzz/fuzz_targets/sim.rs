//! Everything that a space can do on a simulated machine whose steps fail, against the oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_programs::machines::play_sim(input));
