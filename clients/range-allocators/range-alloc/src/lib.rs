//! The API of range-alloc 0.1.5, over vmalloc's area map. What is not here comes from the published source: see `build.rs`.

mod by_size;
mod free_ranges;

use free_ranges::FreeRanges;
pub use free_ranges::Index;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
