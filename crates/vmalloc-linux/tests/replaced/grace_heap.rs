//! Frees with an embedded record take no heap of their own: only the collector's, once a batch.

use crate::heap::allocations;
use vmalloc_linux::rcu::{Grace, Head};
use vmalloc_linux::{LinuxOptions, open};

#[test]
fn an_embedded_record_needs_no_heap_but_a_batch_does() {
    const FREES: u64 = 20_000;
    let space = open(LinuxOptions::new().max_bytes(1 << 30), vmalloc::SpaceOptions::default()).unwrap();
    let grace = Grace::new(&space);
    let before = allocations();
    for _ in 0..FREES {
        let addr = space.raw().alloc(&vmalloc::Request::new(4096)).unwrap();
        let head = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut::<Head>(addr)).unwrap();
        // SAFETY: a page of this loop alone, which begins with its head and is forgotten.
        unsafe { grace.free_embedded(head) }.unwrap();
    }
    let taken = allocations() - before;
    // Nothing else pins, so batches are as large as this thread's share of collecting makes them:
    // over a hundred.
    assert!(taken < FREES / 50, "{taken} allocations for {FREES} frees");
    // Nor do they pile up: what is pending is a few batches.
    assert!(grace.pending() < FREES / 20, "{} frees are pending", grace.pending());
    grace.settle().unwrap();
    assert_eq!(space.stats().busy_areas, 0);
}
