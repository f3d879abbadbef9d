//! Tests of the allocators. This program has one of them itself.

mod collections;
mod examples;
mod global;

use std::alloc::System;
use vmalloc_malloc::LargeAlloc;

const THRESHOLD: usize = 8192;

#[global_allocator]
static HEAP: LargeAlloc = LargeAlloc::new(System, THRESHOLD);
