//! Tests of slots, on Linux and on the simulated machine.
//!
//! They share a process, and run at once: a test that counts what its process has, or forks, gets
//! one of its own. Of the heap only the thread is short that a test says.

use vmalloc_sim::heap::FailingAlloc;

#[cfg(not(miri))]
mod common;

mod faults;
#[cfg(not(miri))]
mod fork;
// Their slots of gigabytes are beyond 32 bits.
#[cfg(all(target_pointer_width = "64", not(miri)))]
mod linux;
#[cfg(all(target_pointer_width = "64", not(miri)))]
mod mappings;
#[cfg(all(target_pointer_width = "64", not(miri)))]
mod narrow;
mod refused;
mod threads;

#[global_allocator]
static HEAP: FailingAlloc = FailingAlloc;
