//! The space against its oracle, on the null platform.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_model::script::space(input));
