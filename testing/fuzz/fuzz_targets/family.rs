//! Mappings of every kind on a simulated machine whose steps fail, against a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmalloc_sim::script::family(input));
