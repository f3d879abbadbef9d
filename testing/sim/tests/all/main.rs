//! The whole core on simulated machines.

mod between_locks;
mod blocks;
mod errors;
mod faults;
mod gains;
mod groups;
mod growth;
mod mappings;
mod messages;
mod metadata;
mod nodes;
mod notifiers;
mod owned;
mod protocols;
mod records;
mod refused;
mod resize;
mod root;
mod space;
mod span;
mod stats;
mod walk;
mod walks;

use vmalloc::{Platform, Request, Space};
use vmalloc_short::ShortMaps;
use vmalloc_sim::Sim;
use vmalloc_sim::heap::FailingAlloc;

#[global_allocator]
static HEAP: FailingAlloc = FailingAlloc;

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

/// Allocates so many pages.
fn alloc<P: Platform>(space: &Space<P>, pages: usize) -> usize {
    space.raw().alloc(&Request::new(pages * PAGE)).expect("there is room")
}

/// Frees an area of the test's.
fn free<P: Platform>(space: &Space<P>, addr: usize) {
    // SAFETY: nothing uses the area any more.
    unsafe { space.raw().free(addr) }.expect("it is busy");
}

/// Returns the short mappings of a space.
fn short<P: Platform>(space: &Space<P>) -> ShortMaps<&Space<P>> {
    ShortMaps::of(space).expect("memory for their records")
}

/// Gives a space short mappings in blocks of so many slots.
fn set_block_slots<P: Platform>(space: &Space<P>, slots: u64) {
    ShortMaps::with_block_slots(space, slots).expect("memory for their records");
}
