//! Large buffers: allocate, write one byte a page, free.

mod allocators;
mod contest;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod rss;

pub use allocators::{Glibc, Jemalloc, Mimalloc, Mmap};
pub use contest::{Row, SCENES, Scene, run};
pub use ours::Ours;
pub use rss::per_live;

use std::ptr::NonNull;

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;

/// An allocator of page-aligned buffers.
pub trait Buffers {
    /// How tables name it.
    const NAME: &'static str;
    /// Says if an unmapped page follows every buffer.
    const GUARD: &'static str;
    /// Says if touching a buffer after it was freed traps.
    const TRAPS: &'static str;

    /// One ready for use.
    fn build() -> Self;

    /// Returns its version, by what it says of itself; else by that of the crate that carries it.
    fn version() -> String;

    /// A buffer of `bytes`, a multiple of the page size, that can be read and written.
    fn allocate(&mut self, bytes: usize) -> NonNull<u8>;

    /// Frees a buffer.
    ///
    /// # Safety
    /// `buffer` came from `allocate(bytes)` of this allocator and is no longer used.
    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize);
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
    for offset in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: the offset is below `bytes`, and the caller vouches for all of these. Volatile,
        // as the byte is never read.
        unsafe { buffer.as_ptr().add(offset).write_volatile(1) };
    }
}

#[cfg(test)]
mod tests;
