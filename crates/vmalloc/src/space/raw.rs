//! The unsafe layer: areas by their addresses.

use super::Space;
use crate::platform::Platform;
use core::fmt;

/// The unsafe layer of a space: areas are made, changed and ended by address (`usize`).
///
/// The calls that make an area are safe, for an address alone allows nothing. The calls that end
/// one are unsafe: nothing may use the area any more, and its owner calls them once. All of them
/// check what they can, and answer with an error that changes nothing. The
/// [types that own areas](crate#what-owns-what) keep these promises by themselves.
///
/// | makes | ends | what |
/// |---|---|---|
/// | [`alloc`](Self::alloc), [`alloc_shared`](Self::alloc_shared), [`alloc_exec`](Self::alloc_exec) | [`free`](Self::free) | memory |
/// | [`reserve`](Self::reserve) | [`unreserve`](Self::unreserve) | addresses, for memory or frames page by page |
/// | [`map`](Self::map), [`map_device`](Self::map_device), [`map_shared`](Self::map_shared) | [`unmap`](Self::unmap) | given frames |
///
/// ```
/// # use vmalloc::{DirectMemory, Request, Space};
/// fn first_byte<P: DirectMemory>(space: &Space<P>) -> Result<u8, Box<dyn std::error::Error>> {
///     let addr = space.raw().alloc(&Request::new(5000).zeroed())?;
///     // SAFETY: the area is mapped, and this function's alone until it frees it.
///     unsafe {
///         let byte = std::ptr::with_exposed_provenance::<u8>(addr).read();
///         space.raw().free(addr)?;
///         Ok(byte)
///     }
/// }
/// ```
pub struct Raw<'s, P: Platform> {
    pub(super) space: &'s Space<P>,
    pub(super) context: P::Context,
}

impl<P: Platform> Raw<'_, P> {
    /// Returns this layer with a context for [`Platform::map`] and [`Platform::map_huge`]. Its
    /// calls map memory with that: for areas that they allocate, grow or move, and where they
    /// commit. The space does not read it: a call that must not wait says so in its
    /// [`Request`](super::Request) as well. Frames are mapped without a context.
    ///
    /// Cached memory is reused without a call of the platform, whatever its context was. A kernel
    /// that needs memory of one memory node sets
    /// [`unmap_on_free`](crate::SpaceOptions::unmap_on_free), or has a
    /// [node](crate::Request::node) of the space for each.
    #[doc(alias = "__vmalloc")]
    #[doc(alias = "vmalloc_node")]
    #[must_use]
    #[inline(always)]
    pub fn with(self, context: P::Context) -> Self {
        Self { context, ..self }
    }
}

impl<P: Platform> Clone for Raw<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Raw<'_, P> {}

impl<P: Platform> fmt::Debug for Raw<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Raw").field(self.space).finish()
    }
}
