//! The API of free-list 0.3.4, over vmalloc's area map. What is not here comes from the published source: see `build.rs`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod list;
mod page_list;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
