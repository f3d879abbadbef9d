//! The API of vm-allocator 0.1.4, over vmalloc's area map. What is not here comes from the published source: see `build.rs`.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(not(feature = "std"))]
extern crate core as std;

/// Has the original's name for the tree, which its other modules use.
mod allocation_engine {
    pub(crate) use crate::area_map::{IntervalTree, NodeState};
}
mod area_map;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
