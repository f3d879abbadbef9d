//! The area map, with requests of every policy, against the reference.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_model::script::area_map(input));
