//! The whole core on simulated machines.

mod cookies;
mod errors;
mod faults;
mod gains;
mod growth;
mod mappings;
mod metadata;
mod owned;
mod protocols;
mod refused;
mod root;
mod threads;

use vmalloc::{Platform, Space};
use vmalloc_short::{ShortMaps, ShortMapsOptions};
use vmalloc_sim::heap::FailingAlloc;

#[global_allocator]
static HEAP: FailingAlloc = FailingAlloc;

/// Returns the short mappings of a space.
fn short<P: Platform>(space: &Space<P>) -> ShortMaps<&Space<P>> {
    ShortMaps::of(space).expect("memory for their records")
}

/// Gives a space short mappings in blocks of so many slots.
fn set_block_slots<P: Platform>(space: &Space<P>, slots: u64) {
    ShortMaps::new(space, ShortMapsOptions::new().block_slots(slots)).expect("memory for their records");
}
