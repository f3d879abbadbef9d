//! The whole core on simulated machines.

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

use vmalloc_sim::heap::FailingAlloc;

#[global_allocator]
static HEAP: FailingAlloc = FailingAlloc;
