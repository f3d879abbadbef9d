//! Congruent areas of a map against the reference, and of a space on the simulator.

mod map;
mod space;
mod threads;

use vmalloc_sim::heap::FailingAlloc;

#[global_allocator]
static HEAP: FailingAlloc = FailingAlloc;
