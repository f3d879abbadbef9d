//! A space as an allocator for collections.

use super::handle::SpaceRef;
use crate::platform::{DirectMemory, Platform, Relocate};
use crate::space::{Request, Space};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::NonNull;
use stable_deref_trait::CloneStableDeref;

/// A space as an `Allocator`, for collections whose memory is large: the unit is a page, and a
/// guard page behind it.
///
/// ```
/// # use vmalloc::{DirectMemory, Relocate, Space, SpaceAllocator};
/// # fn example<P: DirectMemory + Relocate>(space: &Space<P>) {
/// let mut list = allocator_api2::vec::Vec::new_in(SpaceAllocator::new(space));
/// list.extend(0..100_000_u64);
/// assert!(space.find(list.as_ptr() as usize).is_some());
/// # }
/// ```
#[derive(Debug)]
pub struct SpaceAllocator<S>(S);

impl<S: CloneStableDeref> Clone for SpaceAllocator<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: CloneStableDeref + Copy> Copy for SpaceAllocator<S> {}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SpaceAllocator<S> {
    /// Returns an allocator on a space.
    pub fn new(space: S) -> Self {
        Self(space)
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.0
    }
}

impl<P: DirectMemory + Relocate> Space<P> {
    /// Returns an allocator for collections on this space: `Vec::new_in(space.as_allocator())`.
    pub fn as_allocator(&self) -> SpaceAllocator<&Self> {
        SpaceAllocator::new(self)
    }
}

fn memory(addr: usize, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
    let start = NonNull::new(core::ptr::with_exposed_provenance_mut(addr)).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(start, bytes))
}

/// Returns an empty block: aligned, and never freed.
fn empty(layout: Layout) -> NonNull<[u8]> {
    let start = NonNull::new(core::ptr::without_provenance_mut(layout.align()));
    NonNull::slice_from_raw_parts(start.unwrap_or(NonNull::dangling()), 0)
}

// SAFETY: blocks are areas of the space, mapped until they are freed, and all copies of the
// allocator lead to one space (`CloneStableDeref`).
unsafe impl<S: SpaceRef<Platform: DirectMemory + Relocate>> Allocator for SpaceAllocator<S> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty(layout));
        }
        let addr = self.0.raw().alloc(&Request::from(layout)).map_err(|_| AllocError)?;
        memory(addr, layout.size())
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty(layout));
        }
        let request = Request::from(layout).zeroed();
        memory(self.0.raw().alloc(&request).map_err(|_| AllocError)?, layout.size())
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            let addr = block.as_ptr().expose_provenance();
            // SAFETY: the block is an area of this space, which its owner gives up.
            if let Err(error) = unsafe { self.0.raw().free(addr) } {
                self.0.platform().fatal(&error);
            }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.resize(block, old, new, Request::from(new)) }
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        let grown = unsafe { self.resize(block, old, new, Request::from(new)) }?;
        let start: NonNull<u8> = grown.cast();
        // SAFETY: the block has the new size, and the caller owns it.
        unsafe { start.add(old.size()).write_bytes(0, new.size() - old.size()) };
        Ok(grown)
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.deallocate(block, old) };
            return Ok(empty(new));
        }
        // SAFETY: the caller's promise.
        unsafe { self.resize(block, old, new, Request::from(new)) }
    }
}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SpaceAllocator<S> {
    /// Resizes a block, in place where that is possible.
    ///
    /// # Safety
    /// The caller owns the block, which has the layout `old`.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        request: Request,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        let addr = block.as_ptr().expose_provenance();
        // SAFETY: the caller owns the area.
        let addr = unsafe { self.0.raw().realloc(addr, &request) }.map_err(|_| AllocError)?;
        memory(addr, new.size())
    }
}
