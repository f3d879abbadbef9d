//! Owned memory: a buffer that frees itself, and says in its type whether it began as zeros.

use super::{Request, Space};
use crate::error::AllocError;
use crate::platform::DirectMemory;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// The content that a buffer begins with.
pub trait Content: sealed::Sealed {}

/// Zeros.
#[derive(Debug)]
pub struct Zeroed;

/// Zeros, or what an earlier area of the same space left there: initialized bytes, of no meaning.
#[derive(Debug)]
pub struct Stale;

impl Content for Zeroed {}
impl Content for Stale {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Zeroed {}
    impl Sealed for super::Stale {}
}

/// An owned area of memory, by default with a guard page behind it. Freed when dropped.
pub struct Buffer<'s, P: DirectMemory, C: Content = Zeroed> {
    space: &'s Space<P>,
    start: NonNull<u8>,
    bytes: usize,
    content: PhantomData<C>,
}

// SAFETY: a buffer owns its memory alone, and a space may be used from every thread (`P: Sync`).
unsafe impl<P: DirectMemory + Send, C: Content> Send for Buffer<'_, P, C> {}
// SAFETY: a shared buffer only lends its bytes out for reading.
unsafe impl<P: DirectMemory, C: Content> Sync for Buffer<'_, P, C> {}

impl<P: DirectMemory> Space<P> {
    /// An owned buffer of `bytes` zeros.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn zeroed_buffer(&self, bytes: usize) -> Result<Buffer<'_, P, Zeroed>, AllocError> {
        Buffer::new(self, &Request::new(bytes).zeroed(), bytes)
    }

    /// An owned buffer of `bytes` bytes that need not be zeros: cheaper when a cached area is at hand.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn buffer(&self, bytes: usize) -> Result<Buffer<'_, P, Stale>, AllocError> {
        Buffer::new(self, &Request::new(bytes), bytes)
    }
}

impl<'s, P: DirectMemory, C: Content> Buffer<'s, P, C> {
    fn new(space: &'s Space<P>, request: &Request, bytes: usize) -> Result<Self, AllocError> {
        let start = space.pointer(space.alloc(request)?);
        Ok(Self { space, start, bytes, content: PhantomData })
    }

    /// Gives the memory up without freeing it; [`from_raw`](Self::from_raw) or [`Space::vfree`] takes it back.
    pub fn into_raw(self) -> NonNull<[u8]> {
        let slice = NonNull::slice_from_raw_parts(self.start, self.bytes);
        core::mem::forget(self);
        slice
    }

    /// Takes back what [`into_raw`](Self::into_raw) gave up.
    ///
    /// # Safety
    /// `memory` came from `into_raw` of a buffer of this space and of this content, and is owned by nobody.
    pub unsafe fn from_raw(space: &'s Space<P>, memory: NonNull<[u8]>) -> Self {
        Self { space, start: memory.cast(), bytes: memory.len(), content: PhantomData }
    }
}

impl<P: DirectMemory, C: Content> Deref for Buffer<'_, P, C> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the area is mapped, readable and owned by this buffer until it is dropped (`DirectMemory`); its
        // pages read as zeros or as what was written last, so every byte is initialized.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl<P: DirectMemory, C: Content> DerefMut for Buffer<'_, P, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl<P: DirectMemory, C: Content> Drop for Buffer<'_, P, C> {
    fn drop(&mut self) {
        // SAFETY: the buffer owned the area, and is gone.
        if let Err(error) = unsafe { self.space.vfree(self.start.as_ptr().expose_provenance()) } {
            self.space.platform.fatal(&error);
        }
    }
}
