//! A global allocator that can be changed while the program runs, so that one run measures both.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc_malloc::LargeAlloc;

/// Ours for new blocks while it is on, and else the system's. Each block goes back to the allocator that it came from.
pub struct Switch {
    is_ours: AtomicBool,
    ours: LargeAlloc,
}

impl Switch {
    /// Returns a switch that is off.
    #[must_use]
    pub const fn new() -> Self {
        Self { is_ours: AtomicBool::new(false), ours: LargeAlloc::system() }
    }

    /// Has new blocks come from ours, or from the system's allocator.
    pub fn set(&self, is_ours: bool) {
        // It is a choice for speed alone, and publishes nothing.
        self.is_ours.store(is_ours, Ordering::Relaxed);
    }

    /// Returns whether the block at an address is ours.
    pub fn is_ours(&self, addr: usize) -> bool {
        self.ours.heap().is_some_and(|heap| heap.contains(addr))
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: both allocators keep the promises, and ours passes on the blocks that are not its own.
unsafe impl GlobalAlloc for Switch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.is_ours.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            true => unsafe { self.ours.alloc(layout) },
            // SAFETY: the caller's promise.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.is_ours.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            true => unsafe { self.ours.alloc_zeroed(layout) },
            // SAFETY: the caller's promise.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise. Ours frees blocks of the system's by the system's.
        unsafe { self.ours.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        match self.is_ours.load(Ordering::Relaxed) || self.is_ours(memory.addr()) {
            // SAFETY: the caller's promise. Ours moves blocks of the system's.
            true => unsafe { self.ours.realloc(memory, layout, new_size) },
            // SAFETY: the caller's promise; the block is the system's.
            false => unsafe { System.realloc(memory, layout, new_size) },
        }
    }
}
