//! A global allocator that counts, to tell how many heap bytes a structure holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with a counter of live bytes.
///
/// The counter is loaded and stored, not added to atomically: a locked addition per call would be
/// charged to the allocators that use the heap most. So it is exact only while one thread
/// allocates.
#[derive(Debug)]
pub struct CountingHeap;

/// Heap bytes that are allocated now, as requested (without the heap's own headers and rounding).
pub fn live_bytes() -> usize {
    LIVE.load(Relaxed)
}

fn grow(bytes: usize) {
    LIVE.store(LIVE.load(Relaxed).wrapping_add(bytes), Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.store(LIVE.load(Relaxed).wrapping_sub(bytes), Relaxed);
}

// SAFETY: every call goes to `System` unchanged; the counter touches no memory of a caller.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller promises what `System` asks for: a layout of non-zero size.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `block` came from this allocator, hence from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        shrink(layout.size());
        grow(new_size);
        // SAFETY: `block` came from `System` with this layout; the caller vouches for `new_size`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
