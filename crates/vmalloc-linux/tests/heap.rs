//! The platform never touches the heap, so that a global allocator may stand on it.

mod common;

use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use vmalloc::{PageRange, Platform};
use vmalloc_linux::{BatchAdvise, CHUNK_PAGES, Guards, Linux, Options};

struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// Everything a platform is asked for in its life.
fn live(guards: Guards, vectors: BatchAdvise, ranges: &mut [PageRange]) {
    let options = Options::new().max_bytes(1 << 40).guards(guards).batch_advise(vectors);
    let Ok(linux) = Linux::reserve(options) else { return };
    for (index, range) in ranges.iter_mut().enumerate() {
        *range = pages(&linux, index as u64 * 8, 3);
        map(&linux, *range);
    }
    let huge = pages(&linux, 40 * CHUNK_PAGES + 3, 20 * CHUNK_PAGES);
    map(&linux, huge);
    linux.do_unmap(ranges).unwrap();
    linux.do_unmap(&[huge]).unwrap();
    linux.do_flush(ranges).unwrap();
    let outside = PageRange::from_len(linux.geometry().span.end(), 1).unwrap();
    assert!(linux.do_map(outside).is_err());
    std::hint::black_box((linux.entropy(), linux.cpu(), linux.geometry().cpus));
}

#[test]
fn the_platform_never_touches_the_heap() {
    let mut ranges = vec![PageRange::from_len(0, 1).unwrap(); 1500];
    for guards in Guards::all() {
        // A reservation that takes part in forks by itself, and its stash.
        let few = if guards == Guards::Userfault { 4 } else { 0 };
        for vectors in BatchAdvise::all() {
            let before = ALLOCATIONS.get();
            live(guards, vectors, &mut ranges);
            assert!(ALLOCATIONS.get() - before <= few, "with {guards:?} and {vectors:?}");
        }
    }
}
