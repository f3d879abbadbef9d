//! A space as an allocator for collections.

use super::handle::SpaceRef;
use crate::areas::Tag;
use crate::platform::{DirectMemory, Relocate};
use stable_deref_trait::CloneStableDeref;

/// A space as an `Allocator`, for collections whose memory is large: the unit is a page, and a
/// guard page behind it.
///
/// It implements the trait of each version of the crate `allocator-api2` that has its feature here:
/// `allocator-api2-02`, which hashbrown needs, `allocator-api2-03`, `allocator-api2-04`. The
/// version itself is there under the name of the feature. The error of its `try_reserve` is none of
/// `std::error::Error`, unless the program turns that crate's feature on (`fresh-rust` in 0.4,
/// `std` before).
///
/// Collections with allocators of their own have tags of their own. Memory with a cookie is a
/// [`Buffer`](crate::Buffer).
///
/// ```
/// # #[cfg(feature = "allocator-api2-04")] {
/// # use vmalloc::{DirectMemory, Relocate, Space, SpaceAllocator};
/// # fn example<P: DirectMemory + Relocate>(space: &Space<P>) {
/// use vmalloc::allocator_api2_04::vec::Vec;
///
/// let mut list = Vec::new_in(SpaceAllocator::new(space).tagged("list"));
/// list.extend(0..100_000_u64);
/// assert_eq!(space.find(list.as_ptr() as usize).unwrap().tag, Some("list".into()));
/// # }
/// # }
/// ```
#[derive(Debug)]
pub struct SpaceAllocator<S> {
    space: S,
    tag: Option<Tag>,
}

impl<S: CloneStableDeref> Clone for SpaceAllocator<S> {
    fn clone(&self) -> Self {
        Self { space: self.space.clone(), tag: self.tag }
    }
}

impl<S: CloneStableDeref + Copy> Copy for SpaceAllocator<S> {}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SpaceAllocator<S> {
    /// Returns an allocator on a space.
    pub fn new(space: S) -> Self {
        Self { space, tag: None }
    }

    /// Returns it with a tag for the areas that it allocates.
    #[must_use]
    pub fn tagged(self, tag: impl Into<Tag>) -> Self {
        Self { tag: Some(tag.into()), ..self }
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.space
    }
}

/// Implements the trait of a version of `allocator-api2`.
macro_rules! implement {
    ($feature:literal, $module:ident, $version:ident) => {
        #[cfg(feature = $feature)]
        mod $module {
            use super::*;
            use crate::platform::Platform;
            use crate::space::Request;
            use core::alloc::Layout;
            use core::ptr::NonNull;
            use $version::alloc::{AllocError, Allocator};

            fn memory(addr: usize, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
                let start = NonNull::new(core::ptr::with_exposed_provenance_mut(addr)).ok_or(AllocError)?;
                Ok(NonNull::slice_from_raw_parts(start, bytes))
            }

            /// Returns an empty block: aligned, and never freed.
            fn empty(layout: Layout) -> NonNull<[u8]> {
                let start = NonNull::new(core::ptr::without_provenance_mut(layout.align()));
                NonNull::slice_from_raw_parts(start.unwrap_or(NonNull::dangling()), 0)
            }

            fn alloc<S: SpaceRef>(
                from: &SpaceAllocator<S>,
                layout: Layout,
                request: Request,
            ) -> Result<NonNull<[u8]>, AllocError> {
                if layout.size() == 0 {
                    return Ok(empty(layout));
                }
                let request = from.tag.map_or(request, |tag| request.tag(tag));
                memory(from.space.raw().alloc(&request).map_err(|_| AllocError)?, layout.size())
            }

            /// Resizes a block, in place where that is possible.
            ///
            /// # Safety
            /// The caller owns the block, which has the layout `old`.
            unsafe fn resize<S: SpaceRef<Platform: DirectMemory + Relocate>>(
                from: &SpaceAllocator<S>,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                if old.size() == 0 {
                    return from.allocate(new);
                }
                let addr = block.as_ptr().expose_provenance();
                // SAFETY: the caller owns the area.
                let addr = unsafe { from.space.raw().realloc(addr, &Request::from(new)) };
                memory(addr.map_err(|_| AllocError)?, new.size())
            }

            // SAFETY: blocks are areas of the space, mapped until they are freed, and all copies of
            // the allocator lead to one space (`CloneStableDeref`).
            unsafe impl<S: SpaceRef<Platform: DirectMemory + Relocate>> Allocator for SpaceAllocator<S> {
                fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    alloc(self, layout, Request::from(layout))
                }

                fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    alloc(self, layout, Request::from(layout).zeroed())
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    if layout.size() != 0 {
                        let addr = block.as_ptr().expose_provenance();
                        // SAFETY: the block is an area of this space, which its owner gives up.
                        if let Err(error) = unsafe { self.space.raw().free(addr) } {
                            self.space.platform().fatal(&error);
                        }
                    }
                }

                unsafe fn grow(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    unsafe { resize(self, block, old, new) }
                }

                unsafe fn grow_zeroed(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    let grown = unsafe { resize(self, block, old, new) }?;
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
                    unsafe { resize(self, block, old, new) }
                }
            }
        }
    };
}

implement!("allocator-api2-02", v02, allocator_api2_02);
implement!("allocator-api2-03", v03, allocator_api2_03);
implement!("allocator-api2-04", v04, allocator_api2_04);
