//! This project's space, on whatever platform lends real memory.

use super::{Buffers, PAGE_BYTES, Visitor};
use std::ptr::NonNull;
use vmalloc::{Config, DirectMemory, Space};

/// What a retaining space may keep mapped: about half of what the steady scene has live.
const RETAIN_BYTES: usize = 64 << 20;

/// A platform that can be built without being told anything.
pub trait Machine: DirectMemory + Sized {
    /// The platform with a span reserved.
    fn reserve() -> Self;
}

/// A space with a guard page behind every buffer, that keeps freed pages mapped or not.
pub struct Ours<M: Machine, const RETAIN: bool>(Space<M>);

impl<M: Machine, const RETAIN: bool> Buffers for Ours<M, RETAIN> {
    const NAME: &'static str = if RETAIN { "vmalloc, retaining" } else { "vmalloc, unmap on free" };
    const GUARD: &'static str = "yes";
    const TRAPS: &'static str = if RETAIN { "no" } else { "yes" };

    fn build() -> Self {
        let mut config = Config::default();
        config.guard = true;
        config.retain_bytes = if RETAIN { RETAIN_BYTES } else { 0 };
        let space = Space::new(M::reserve(), config).expect("metadata for an empty space");
        assert_eq!(1 << space.platform().page_shift(), PAGE_BYTES, "the scenes count pages of 4 KiB");
        Self(space)
    }

    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        self.0.vmalloc(bytes).expect("memory for every scene")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, _bytes: usize) {
        self.0.vfree(buffer.as_ptr().addr()).expect("a live buffer");
    }
}

/// Shows `visitor` our configurations.
pub(super) fn each(_visitor: &mut impl Visitor) {}
