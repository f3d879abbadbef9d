//! This project's space on Linux.

use super::{Buffers, Memory, PAGE_BYTES, Visitor};
use std::ptr::NonNull;
use vmalloc::SpaceOptions;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};

/// A space with a guard page behind every buffer, that keeps freed pages mapped (as many as is
/// its default) or unmaps them.
pub struct Ours<const RETAIN: bool>(SharedSpace);

impl<const RETAIN: bool> Ours<RETAIN> {
    /// Gives back all that is cached.
    pub(crate) fn purge(&self) {
        self.0.purge().expect("nothing is locked");
    }
}

impl<const RETAIN: bool> Buffers for Ours<RETAIN> {
    const NAME: &'static str = if RETAIN { "vmalloc, caching" } else { "vmalloc, unmap on free" };
    const GUARD: &'static str = "yes";
    const TRAPS: &'static str = if RETAIN { "no" } else { "after the purge" };

    fn build() -> Self {
        let options = if RETAIN { SpaceOptions::default() } else { SpaceOptions::default().unmap_on_free() };
        let space = open(LinuxOptions::new(), options).expect("addresses for a space");
        assert_eq!(1 << space.geometry().page_shift, PAGE_BYTES, "the scenes count pages of 4 KiB");
        Self(space)
    }

    fn version() -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }
}

impl<const RETAIN: bool> Memory for Ours<RETAIN> {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        self.0.allocate(bytes)
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(buffer, bytes) };
    }
}

impl Memory for SharedSpace {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let addr = self.raw().alloc(&vmalloc::Request::new(bytes)).expect("memory for every scene");
        NonNull::new(core::ptr::with_exposed_provenance_mut(addr)).expect("no area at null")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, _bytes: usize) {
        // SAFETY: the caller promises that the buffer is this space's and no longer used.
        unsafe { self.raw().free(buffer.as_ptr().addr()) }.expect("a live buffer");
    }
}

/// Shows `visitor` our allocators, by their options.
pub(super) fn each(visitor: &mut impl Visitor) {
    visitor.visit::<Ours<true>>();
    visitor.visit::<Ours<false>>();
}
