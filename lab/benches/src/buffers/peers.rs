//! Peers that are not built by default.

use super::{Buffers, Memory, PAGE_BYTES, Visitor};
use std::ptr::NonNull;

/// Shows `visitor` both.
pub(super) fn each(visitor: &mut impl Visitor) {
    visitor.visit::<Snmalloc>();
    visitor.visit::<Rpmalloc>();
}

/// snmalloc, called directly.
#[derive(Debug)]
pub(super) struct Snmalloc;

impl Snmalloc {
    /// That of its crate, which has the same number; a test compares it with the lock file.
    const VERSION: &'static str = "0.7.6";
}

impl Buffers for Snmalloc {
    const NAME: &'static str = "snmalloc";

    fn build() -> Self {
        Self
    }

    fn version() -> String {
        Self::VERSION.to_owned()
    }
}

impl Memory for Snmalloc {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        // SAFETY: the alignment is a power of two, and the size is not zero.
        let buffer = unsafe { snmalloc_sys::sn_rust_alloc(PAGE_BYTES, bytes) };
        NonNull::new(buffer.cast()).expect("memory for every scene")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize) {
        // SAFETY: `buffer` came from `sn_rust_alloc` with this alignment and size and is freed
        // once, as the caller promises.
        unsafe { snmalloc_sys::sn_rust_dealloc(buffer.as_ptr().cast(), PAGE_BYTES, bytes) };
    }
}

/// rpmalloc, called directly.
#[derive(Debug)]
pub(super) struct Rpmalloc;

impl Rpmalloc {
    /// That of its crate; a test compares it with the lock file.
    const VERSION: &'static str = "0.2.3+b097fd0";
}

impl Buffers for Rpmalloc {
    const NAME: &'static str = "rpmalloc";

    fn build() -> Self {
        // SAFETY: may be called by any thread, any number of times.
        let code = unsafe { rpmalloc_sys::rpmalloc_initialize() };
        assert_eq!(code, 0, "rpmalloc can't be initialized");
        // SAFETY: the allocator is initialized; a thread may say again that it uses it.
        unsafe { rpmalloc_sys::rpmalloc_thread_initialize() };
        Self
    }

    fn version() -> String {
        format!("1.4.3, crate {}", Self::VERSION)
    }
}

impl Memory for Rpmalloc {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        // SAFETY: the alignment is a power of two, and `build` has initialized the allocator for
        // this thread.
        let buffer = unsafe { rpmalloc_sys::rpaligned_alloc(PAGE_BYTES, bytes) };
        NonNull::new(buffer.cast()).expect("memory for every scene")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, _bytes: usize) {
        // SAFETY: `buffer` came from `rpaligned_alloc` and is freed once, as the caller promises.
        unsafe { rpmalloc_sys::rpfree(buffer.as_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        for (name, version) in [("snmalloc-sys", Snmalloc::VERSION), ("rpmalloc-sys", Rpmalloc::VERSION)] {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
            assert!(lock.contains(&entry), "{entry}");
        }
    }
}
