//! Atomics, and tables of them: the core's own, or those of a checker of weak memory
//! (`--cfg loom`).

use alloc::boxed::Box;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, AtomicUsize};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize};

/// Returns so many words, all zero: memory that costs nothing until it is touched. `None` if there
/// is too little.
#[cfg(not(loom))]
pub(crate) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    bytemuck::allocation::try_zeroed_slice_box(count).ok()
}

#[cfg(loom)]
pub(crate) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    Some((0..count).map(|_| AtomicU64::new(0)).collect())
}
