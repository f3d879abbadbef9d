//! Memory of any size: small pieces from the heap, large ones from the space.

use super::{Raw, Request};
use crate::platform::DirectMemory;
use crate::{AllocError, FreeError, RequestError};
use core::alloc::Layout;
use core::ptr::NonNull;

impl<P: DirectMemory> Raw<'_, P> {
    /// Allocates memory for `layout`, of any content: from the global heap up to a page, and from
    /// this space above that, or when the heap has none. Returns its address.
    /// [`free_or_heap`](Self::free_or_heap) frees it.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "kvmalloc")]
    pub fn alloc_or_heap(&self, layout: Layout) -> Result<usize, AllocError> {
        if layout.size() == 0 {
            return Err(RequestError::ZeroSize.into());
        }
        if layout.size() <= 1 << self.shift() {
            // SAFETY: the size is not zero.
            let memory = unsafe { alloc::alloc::alloc(layout) };
            // A heap may stand on this very space. Then its memory would be taken for ours when it
            // is freed.
            match NonNull::new(memory) {
                Some(memory) if !self.contains(memory.addr().get()) => {
                    return Ok(memory.as_ptr().expose_provenance());
                }
                // SAFETY: it was just allocated with this layout.
                Some(memory) => unsafe { alloc::alloc::dealloc(memory.as_ptr(), layout) },
                None => {}
            }
        }
        self.alloc(&Request::from(layout))
    }

    /// Frees memory that [`alloc_or_heap`](Self::alloc_or_heap) returned at `addr` for `layout`.
    ///
    /// # Safety
    /// `addr` came from `alloc_or_heap` of this space for the same layout, and nothing uses the
    /// memory any more.
    ///
    /// # Errors
    /// [`FreeError`] when it lies in this space and is none of its areas; nothing is changed.
    #[doc(alias = "kvfree")]
    pub unsafe fn free_or_heap(&self, addr: usize, layout: Layout) -> Result<(), FreeError> {
        if self.contains(addr) {
            // SAFETY: the caller's area, which nothing uses any more.
            return unsafe { self.free(addr) };
        }
        // SAFETY: an address outside the space came from the heap, with this layout.
        unsafe { alloc::alloc::dealloc(core::ptr::with_exposed_provenance_mut(addr), layout) };
        Ok(())
    }
}
