//! Memory as bytes, which says in its type whether it began as zeros.

use super::handle::{Area, Memory, SpaceRef};
use crate::platform::{DirectMemory, Relocate};
use crate::space::{Request, Resize};
use crate::{AllocError, AreaError};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// The content that a buffer begins with.
pub trait Content: super::handle::sealed::Sealed {
    /// True if the memory began as zeros.
    #[doc(hidden)]
    const ZEROED: bool;
}

/// Zeros.
#[derive(Debug)]
pub struct Zeroed;

/// Zeros, or bytes that an earlier area of the same space left there: initialized, of no meaning.
#[derive(Debug)]
pub struct Stale;

impl super::handle::sealed::Sealed for Zeroed {}
impl super::handle::sealed::Sealed for Stale {}
impl Content for Zeroed {
    const ZEROED: bool = true;
}
impl Content for Stale {
    const ZEROED: bool = false;
}

/// Owned memory as bytes, by default with a guard page behind it. Freed when dropped.
///
/// ```
/// # use vmalloc::{Buffer, DirectMemory, Request, Space};
/// # use std::sync::Arc;
/// # fn example<P: DirectMemory + 'static>(space: Arc<Space<P>>) -> Result<(), Box<dyn std::error::Error>> {
/// let request = Request::new(100_000).align(1 << 16).tag("frame");
/// let mut frame: Buffer<_, vmalloc::Zeroed> = Buffer::new(space, &request)?;
/// frame[99_999] = 1;
/// assert_eq!(frame.as_ptr() as usize % (1 << 16), 0);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<S: SpaceRef<Platform: DirectMemory>, C: Content = Zeroed> {
    area: Area<S>,
    /// The alignment, in bytes, that stays when the buffer moves.
    align: usize,
    content: PhantomData<C>,
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> Buffer<S, C> {
    /// Allocates a buffer as `request` says: its size, alignment, limits, pages and tag.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let request = if C::ZEROED { request.zeroed() } else { *request };
        let align = request.alignment();
        Ok(Self { area: Area::new(space, &request)?, align, content: PhantomData })
    }

    /// Returns the address of the first byte, which can be looked up in the space.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.area.addr()
    }

    /// Returns how many bytes it could have without being resized: at least as many as it has.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.area.capacity()
    }

    /// Makes the buffer larger without moving it. New bytes begin as the buffer did.
    ///
    /// # Errors
    /// [`AreaError`] when the addresses behind it are not free; nothing is changed.
    pub fn grow_in_place(&mut self, bytes: usize) -> Result<(), AreaError> {
        let (grown, before) = (self.len(), self.capacity());
        if bytes <= grown {
            return Ok(());
        }
        self.area.grow_in_place(bytes)?;
        let (now, maps_zeroed) = (self.capacity(), self.area.space().geometry().maps_zeroed);
        // New pages that are zeros already are not touched.
        self.clear(grown, if maps_zeroed { before } else { now }, bytes);
        Ok(())
    }

    /// Makes the buffer smaller without moving it. Whole pages behind it are given back.
    ///
    /// # Errors
    /// [`AreaError`] when memory for metadata is short; nothing is changed.
    pub fn shrink_in_place(&mut self, bytes: usize) -> Result<(), AreaError> {
        if bytes < self.len() {
            // SAFETY: this owns the area, and nothing uses the bytes behind, for `self` is borrowed
            // exclusively.
            unsafe { self.area.raw().shrink_in_place(self.addr(), bytes) }?;
            self.clear(bytes, self.len().min(self.capacity()), bytes);
        }
        Ok(())
    }

    /// Fills bytes of its pages with zeros, if it began as zeros, and has `bytes` bytes then. Those
    /// behind may become its own later, as zeros.
    fn clear(&mut self, from: usize, to: usize, bytes: usize) {
        if C::ZEROED {
            self.area.moved_to(self.addr(), to);
            self[from..].fill(0);
        }
        self.area.moved_to(self.addr(), bytes);
    }

    /// Gives the memory up without freeing it. Returns its address and its layout.
    #[must_use = "the memory is lost without its address"]
    pub fn into_raw(self) -> (NonNull<u8>, Layout) {
        let layout = Layout::from_size_align(self.len(), self.align).unwrap_or(Layout::new::<u8>());
        // No page of a span is page 0.
        let memory = NonNull::new(self.area.as_ptr()).unwrap_or(NonNull::dangling());
        let _ = self.area.leak();
        (memory, layout)
    }

    /// Owns memory that was given up by [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// `memory` and `layout` came from `into_raw` of a buffer of this space, and have no other
    /// owner.
    pub unsafe fn from_raw(space: S, memory: NonNull<u8>, layout: Layout) -> Self {
        let area = Area::own(space, memory.as_ptr().expose_provenance(), layout.size(), Memory::default());
        Self { area, align: layout.align(), content: PhantomData }
    }
}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>, C: Content> Buffer<S, C> {
    /// Resizes the buffer, in place where that is possible. Its alignment stays. New bytes begin as
    /// the buffer did. Cost as [`Raw::realloc`](crate::Raw::realloc).
    ///
    /// # Errors
    /// [`AreaError`] when memory or addresses run out; nothing is changed.
    pub fn resize(&mut self, bytes: usize) -> Result<(), AreaError> {
        let resize = Resize::new(bytes).align(self.align);
        let resize = if C::ZEROED { resize.zeroed() } else { resize };
        // SAFETY: this owns the area, and nothing uses the old address: `self` is borrowed
        // exclusively.
        let addr = unsafe { self.area.raw().realloc_written(self.addr(), &resize, self.len()) }?;
        self.area.moved_to(addr, bytes);
        Ok(())
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> Deref for Buffer<S, C> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the area is mapped, readable and owned by this buffer until it is dropped
        // (`DirectMemory`); its pages read as zeros or as what was written last, so every byte is
        // initialized.
        unsafe { core::slice::from_raw_parts(self.area.as_ptr(), self.area.len()) }
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> DerefMut for Buffer<S, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.area.as_ptr(), self.area.len()) }
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> AsRef<[u8]> for Buffer<S, C> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> AsMut<[u8]> for Buffer<S, C> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, C: Content> fmt::Debug for Buffer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("addr", &format_args!("{:#x}", self.addr()))
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
