//! Allocators of Rust that take memory from a [`Space`](vmalloc::Space): all of it, or large sizes,
//! and leave the rest to another allocator.
//!
//! ```text
//!   SpaceAllocator<S, A>   an Allocator for single collections ──► any Space; small sizes: A
//!
//!   LargeAlloc<A>          a GlobalAlloc for a whole program ────┐   sizes from the threshold on
//!   libvmalloc_malloc.so   a malloc for any program, a crate     ├──► LargeHeap ──► Space<Linux>
//!                          of its own                            └──► A, or the C library: the rest
//! ```
//!
//! ```
//! use vmalloc_malloc::LargeAlloc;
//!
//! #[global_allocator]
//! static HEAP: LargeAlloc = LargeAlloc::system();
//!
//! let large = vec![1_u8; 1 << 20];
//! assert!(HEAP.heap().is_some_and(|heap| heap.contains(large.as_ptr().addr())));
//! ```
//!
//! # Features
//! - `linux`, on by default: `LargeAlloc` and `LargeHeap`. Without it the crate is `no_std`.
//! - `allocator-api2-02`, `-03`, `-04`: `SpaceAllocator` implements the trait of this version of
//!   `allocator-api2`. hashbrown takes 0.2.
//!
//! # What holds for `LargeAlloc`
//! - Memory of a large size is whole pages of its own, in the first of which it starts at any line
//!   of the cache. Freed, it stays cached with its pages within
//!   a budget, and decays when its users come back after a second or more: no thread is created.
//! - A pointer belongs to the space if and only if it lies in the one reservation.
//! - Where the machine refuses the reservation, or the space has no more room, the inner allocator
//!   serves every size.
#![cfg_attr(not(feature = "linux"), no_std)]

#[cfg(any(feature = "allocator-api2-02", feature = "allocator-api2-03", feature = "allocator-api2-04"))]
mod collections;

#[cfg(feature = "linux")]
mod bounds;
#[cfg(feature = "linux")]
mod color;
#[cfg(feature = "linux")]
mod exact;
#[cfg(feature = "linux")]
mod gate;
#[cfg(feature = "linux")]
mod global;
#[cfg(feature = "linux")]
mod heap;
#[cfg(feature = "linux")]
mod pace;

#[cfg(feature = "allocator-api2-02")]
pub use allocator_api2_02;
#[cfg(feature = "allocator-api2-03")]
pub use allocator_api2_03;
#[cfg(feature = "allocator-api2-04")]
pub use allocator_api2_04;
#[cfg(any(feature = "allocator-api2-02", feature = "allocator-api2-03", feature = "allocator-api2-04"))]
pub use collections::{GlobalHeap, NoHeap, SpaceAllocator};
#[cfg(feature = "linux")]
pub use {
    bounds::Bounds,
    gate::{Gate, Inside},
    global::LargeAlloc,
    heap::LargeHeap,
};

/// The size from which on memory comes from the space: eight pages. Below, a page more or less
/// would be a large part.
pub const DEFAULT_THRESHOLD: usize = 32 << 10;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
