//! The heap of this program: the system's, which counts what it is asked for, notes what must not
//! be asked for now, and leaves large memory to a space where a test has opened one for that.

use super::{atomic, global};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

/// Returns how often this thread has allocated.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

struct Heap;

// SAFETY: each piece of memory is the system's or a space's, from its allocation to its end.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        atomic::not_atomic("alloc");
        // SAFETY: passed on.
        global::alloc(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        atomic::not_atomic("dealloc");
        // SAFETY: the caller gives the memory up.
        if !unsafe { global::free(ptr) } {
            // SAFETY: passed on.
            unsafe { System.dealloc(ptr, layout) }
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;
