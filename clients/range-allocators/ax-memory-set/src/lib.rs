//! The API of ax-memory-set 0.8.0, over vmalloc's area map. What is not here comes from the published source: see `build.rs`.
#![cfg_attr(not(test), no_std)]

mod areas;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
