//! Blocks of short mappings on several CPUs, with every policy, against a list.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_model::script::blocks(input));
