//! Allocators that take large sizes from a [`Space`](vmalloc_linux::Space), and leave the rest to
//! another allocator.
//!
//! ```text
//!   LargeAlloc<A>          a GlobalAlloc for a whole program ────┐
//!   SplitAllocator<S, A>   an Allocator for single collections   │   sizes from the threshold on
//!   libvmalloc_malloc.so   a malloc for any program, a crate     ├──► LargeHeap ──► Space<Linux>
//!                          of its own                            │
//!                                                                └──► the inner allocator: the rest
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
//! - `allocator-api2-02`, `-03`, `-04`: [`SplitAllocator`] implements the trait of this version of
//!   `allocator-api2`. hashbrown takes 0.2.
//!
//! # What holds
//! - Memory of a large size is whole pages of its own, in the first of which it starts at any line
//!   of the cache. Freed, it stays cached with its pages within
//!   a budget, and decays when its users come back after a second or more: no thread is created.
//! - A pointer belongs to the space if and only if it lies in the one reservation.
//! - Where the machine refuses the reservation, or the space has no more room, the inner allocator
//!   serves every size.

mod bounds;
mod color;
mod gate;
mod global;
mod heap;
mod pace;
mod split;

pub use bounds::Bounds;
pub use gate::{Gate, Inside};
pub use global::LargeAlloc;
pub use heap::{DEFAULT_THRESHOLD, LargeHeap};
pub use split::{GlobalHeap, SplitAllocator};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
