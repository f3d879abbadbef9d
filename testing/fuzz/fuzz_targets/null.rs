//! Spaces on a platform that keeps account, against the oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_programs::machines::play_null(input));
