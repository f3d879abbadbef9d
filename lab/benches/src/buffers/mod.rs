//! Large buffers: allocate, write one byte a page, free.

/// An allocator that is called directly: its name and guards, how it is built, its version, and how
/// it gives and takes page-aligned buffers.
macro_rules! called {
    (
        $(#[$about:meta])* $vis:vis $name:ident, $text:expr, $guard:expr, $build:expr, $version:expr,
        |$bytes:ident| $give:expr, |$buffer:ident, $len:ident| $take:expr
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $vis struct $name;

        impl Buffers for $name {
            const NAME: &'static str = $text;
            const GUARD: &'static str = $guard;

            fn build() -> Self {
                $build
            }

            fn version() -> String {
                $version
            }
        }

        impl Memory for $name {
            fn allocate(&mut self, $bytes: usize) -> NonNull<u8> {
                // SAFETY: the alignment is a power of two, the size a multiple of it and not zero,
                // and the allocator is ready.
                let buffer = unsafe { $give };
                NonNull::new(buffer.cast()).expect("memory for every scene")
            }

            unsafe fn free(&mut self, buffer: NonNull<u8>, $len: usize) {
                let $buffer = buffer.as_ptr().cast();
                // SAFETY: the buffer came from `allocate` with this size and is freed once, as the
                // caller promises.
                unsafe { $take };
            }
        }
    };
}

mod allocators;
mod contest;
mod live;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod rss;

pub use allocators::{Glibc, Jemalloc, Mimalloc, Mmap};
pub(crate) use contest::bounce;
pub use contest::{Row, SCENES, Scene, run};
pub(crate) use live::Live;
pub use ours::Ours;
pub use rss::per_live;

use std::ptr::NonNull;

/// Bytes in a page.
pub const PAGE_BYTES: usize = crate::by_hand::PAGE;

/// Page-aligned buffers that are allocated and freed.
pub trait Memory {
    /// A buffer of `bytes`, a multiple of the page size, that can be read and written.
    fn allocate(&mut self, bytes: usize) -> NonNull<u8>;

    /// Frees a buffer.
    ///
    /// # Safety
    /// `buffer` came from `allocate(bytes)` of this allocator and is no longer used.
    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize);
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        (**self).allocate(bytes)
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { (**self).free(buffer, bytes) };
    }
}

/// An allocator of buffers.
pub trait Buffers: Memory {
    /// How tables name it.
    const NAME: &'static str;
    /// Says if an unmapped page follows every buffer.
    const GUARD: &'static str = "no";
    /// Says if touching a buffer after it was freed traps.
    const TRAPS: &'static str = "no";

    /// One ready for use.
    fn build() -> Self;

    /// Returns its version, by what it says of itself; else by that of the crate that carries it.
    fn version() -> String;
}

/// Something done with each allocator, whose type differs every time.
pub trait Visitor {
    /// Called once for an allocator.
    fn visit<B: Buffers + 'static>(&mut self);
}

/// Shows `visitor` all allocators, ours first.
pub fn each(visitor: &mut impl Visitor) {
    ours::each(visitor);
    visitor.visit::<Mmap<0>>();
    visitor.visit::<Mmap<1>>();
    visitor.visit::<Glibc>();
    visitor.visit::<Mimalloc>();
    visitor.visit::<Jemalloc>();
    #[cfg(feature = "peers")]
    peers::each(visitor);
}

/// Writes one byte to each page of a buffer.
///
/// # Safety
/// `buffer` points to `bytes` writable bytes that nothing else uses.
#[inline]
pub(crate) unsafe fn touch(buffer: NonNull<u8>, bytes: usize) {
    let start = buffer.as_ptr().expose_provenance();
    // SAFETY: the caller's promise.
    unsafe { crate::by_hand::touch(start..start + bytes) };
}

#[cfg(test)]
mod tests;
