//! What the tests of other crates ask of their allocators, asked of the area map through thin
//! adapters.
//!
//! The scenarios and the numbers are theirs, the code is ours.

mod axallocator;
mod memory_set;
mod range_alloc;
mod vm_allocator;
