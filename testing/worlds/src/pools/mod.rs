//! Worlds of pools on a space: of slots, of stacks, and of the blocks of allocators.

pub(crate) mod heap;
pub(crate) mod slots;
pub(crate) mod stacks;
