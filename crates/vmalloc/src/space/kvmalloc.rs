//! Memory of any size: small ones from the heap, large ones from the space.

use super::{Request, Space};
use crate::error::{AllocError, FreeError, RequestError};
use crate::platform::DirectMemory;
use core::alloc::Layout;
use core::ptr::NonNull;

impl<P: DirectMemory> Space<P> {
    /// Memory for `layout`, of any content: from the global heap up to a page, and from this space above that, or when the heap has none.
    /// [`kvfree`](Self::kvfree) frees it.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn kvmalloc(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Err(RequestError::ZeroSize.into());
        }
        if layout.size() <= 1 << self.shift {
            // SAFETY: the size is not zero.
            let memory = unsafe { alloc::alloc::alloc(layout) };
            // A heap may stand on this very space. Then its memory would be taken for ours when it is freed.
            match NonNull::new(memory) {
                Some(memory) if !self.is_vmalloc_addr(memory.addr().get()) => return Ok(memory),
                // SAFETY: it was just allocated with this layout.
                Some(memory) => unsafe { alloc::alloc::dealloc(memory.as_ptr(), layout) },
                None => {}
            }
        }
        self.alloc(&Request::new(layout.size()).align(layout.align())).map(|addr| self.pointer(addr))
    }

    /// Frees what [`kvmalloc`](Self::kvmalloc) gave for `layout`.
    ///
    /// # Safety
    /// `memory` came from `kvmalloc` of this space for the same layout, and nothing uses it any more.
    ///
    /// # Errors
    /// [`FreeError`] when it lies in this space and is none of its areas; nothing is changed.
    pub unsafe fn kvfree(&self, memory: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        let addr = memory.as_ptr().expose_provenance();
        if self.is_vmalloc_addr(addr) {
            // SAFETY: the caller's promise.
            return unsafe { self.vfree(addr) };
        }
        // SAFETY: what does not lie in the space came from the heap, with this layout.
        unsafe { alloc::alloc::dealloc(memory.as_ptr(), layout) };
        Ok(())
    }
}
