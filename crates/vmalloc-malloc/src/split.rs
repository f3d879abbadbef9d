//! An allocator for collections.

use crate::heap::DEFAULT_THRESHOLD;
use vmalloc::{SpaceAllocator, SpaceRef, Tag};
use vmalloc_linux::{DirectMemory, Relocate};

/// The program's global allocator, as an `Allocator` of every version.
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalHeap;

/// An allocator for collections that takes sizes from a threshold on from a space, and hands the
/// rest to `A`. It implements the trait of each version of `allocator-api2` that has its feature,
/// as [`SpaceAllocator`] does.
///
/// ```
/// use vmalloc::allocator_api2_04::vec::Vec;
/// use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
/// use vmalloc_malloc::SplitAllocator;
///
/// let space = open(LinuxOptions::new(), SpaceOptions::default())?;
/// let mut list = Vec::new_in(SplitAllocator::new(&*space));
/// list.push(1_u64);
/// assert!(!space.contains(list.as_ptr() as usize), "a small list is not");
/// list.extend(0..100_000);
/// assert!(space.contains(list.as_ptr() as usize), "a large one is in the space");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SplitAllocator<S, A = GlobalHeap> {
    large: SpaceAllocator<S>,
    inner: A,
    threshold: usize,
}

impl<S, A: Clone> Clone for SplitAllocator<S, A>
where
    SpaceAllocator<S>: Clone,
{
    fn clone(&self) -> Self {
        Self { large: self.large.clone(), inner: self.inner.clone(), threshold: self.threshold }
    }
}

impl<S, A: Copy> Copy for SplitAllocator<S, A> where SpaceAllocator<S>: Copy {}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SplitAllocator<S> {
    /// Returns an allocator on a space and on the global heap, with the default threshold of
    /// 32 KiB. The space is not that of the program's own [`LargeAlloc`](crate::LargeAlloc), whose
    /// blocks do not start at a page: a free of one through this allocator ends the program.
    pub fn new(space: S) -> Self {
        // SAFETY: the global allocator is a constant of the program, made before any space. It has
        // addresses of a space only where its own `unsafe` code takes them there. `LargeAlloc` does
        // so in one that it has opened for itself. If `space` is that one, each of its blocks that
        // starts at a page is a whole area, which the space frees and resizes as the global
        // allocator would; the space refuses all others, and a refused free ends the program.
        unsafe { Self::over(space, GlobalHeap, DEFAULT_THRESHOLD) }
    }
}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>, A> SplitAllocator<S, A> {
    /// Returns an allocator that takes sizes of `threshold` bytes and more from `space`, and hands
    /// the rest to `inner`.
    ///
    /// # Safety
    /// `inner` hands out no address of `space`, now or later, in this or any copy of it: a block
    /// goes back to where its address belongs. An arena in a block of `space` is no such allocator.
    ///
    /// ```compile_fail,E0133
    /// # use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
    /// # use vmalloc_malloc::SplitAllocator;
    /// let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
    /// let both = SplitAllocator::over(&*space, vmalloc_malloc::GlobalHeap, 4096);
    /// ```
    pub unsafe fn over(space: S, inner: A, threshold: usize) -> Self {
        Self { large: SpaceAllocator::new(space), inner, threshold: threshold.max(1) }
    }

    /// Returns it with a tag for the areas that it allocates.
    #[must_use]
    pub fn tagged(self, tag: impl Into<Tag>) -> Self {
        Self { large: self.large.tagged(tag), ..self }
    }
}

/// Implements the trait of a version of `allocator-api2`.
macro_rules! implement {
    ($feature:literal, $module:ident, $version:ident) => {
        #[cfg(feature = $feature)]
        mod $module {
            use super::*;
            use std::alloc::Layout;
            use std::ptr::{self, NonNull};
            use vmalloc::$version::alloc::{AllocError, Allocator, Global};

            // SAFETY: both allocators below keep their promises, and a block goes back to the one
            // that it came from: an address is in the space or not, by the promise that `over` asks
            // for, and an empty block is always the inner allocator's. All copies lead to one
            // space, as those of `SpaceAllocator` do, and to copies of one inner allocator.
            unsafe impl<S, A> Allocator for SplitAllocator<S, A>
            where
                S: SpaceRef<Platform: DirectMemory + Relocate>,
                A: Allocator,
            {
                fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    take(self, layout, |large| large.allocate(layout), |inner| inner.allocate(layout))
                }

                fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    take(
                        self,
                        layout,
                        |large| large.allocate_zeroed(layout),
                        |inner| inner.allocate_zeroed(layout),
                    )
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    // SAFETY: the caller's promise, and the block is that allocator's.
                    unsafe {
                        match is_large(self, block, layout) {
                            true => self.large.deallocate(block, layout),
                            false => self.inner.deallocate(block, layout),
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
                    unsafe { grow(self, block, old, new, false) }
                }

                unsafe fn grow_zeroed(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    unsafe { grow(self, block, old, new, true) }
                }

                unsafe fn shrink(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise, and the block is that allocator's.
                    unsafe {
                        match (is_large(self, block, old), new.size() >= self.threshold) {
                            (true, true) => {
                                let shrunk = self.large.shrink(block, old, new);
                                // An alignment that it did not have may need another place.
                                shrunk.or_else(|_| copy(self, block, old, new, self.inner.allocate(new)?))
                            }
                            (false, _) => self.inner.shrink(block, old, new),
                            (true, false) => copy(self, block, old, new, self.inner.allocate(new)?),
                        }
                    }
                }
            }

            /// Allocates from the space, if the block is large and there is room, else from the
            /// other.
            fn take<S, A>(
                both: &SplitAllocator<S, A>,
                layout: Layout,
                large: impl FnOnce(&SpaceAllocator<S>) -> Result<NonNull<[u8]>, AllocError>,
                inner: impl FnOnce(&A) -> Result<NonNull<[u8]>, AllocError>,
            ) -> Result<NonNull<[u8]>, AllocError> {
                let from_space =
                    if layout.size() >= both.threshold { large(&both.large) } else { Err(AllocError) };
                from_space.or_else(|_| inner(&both.inner))
            }

            fn is_large<S: SpaceRef<Platform: DirectMemory + Relocate>, A>(
                both: &SplitAllocator<S, A>,
                block: NonNull<u8>,
                layout: Layout,
            ) -> bool {
                layout.size() != 0 && both.large.space().contains(block.as_ptr().addr())
            }

            /// Grows a block, by zeros if `is_zeroed`.
            ///
            /// # Safety
            /// That of [`Allocator::grow`].
            unsafe fn grow<S, A>(
                both: &SplitAllocator<S, A>,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
                is_zeroed: bool,
            ) -> Result<NonNull<[u8]>, AllocError>
            where
                S: SpaceRef<Platform: DirectMemory + Relocate>,
                A: Allocator,
            {
                let take = |from: &dyn Allocator| match is_zeroed {
                    true => from.allocate_zeroed(new),
                    false => from.allocate(new),
                };
                // SAFETY: the caller's promise, and the block is that allocator's.
                let grow_in = |from: &dyn Allocator| unsafe {
                    match is_zeroed {
                        true => from.grow_zeroed(block, old, new),
                        false => from.grow(block, old, new),
                    }
                };
                match (is_large(both, block, old), new.size() >= both.threshold) {
                    (true, _) => grow_in(&both.large).or_else(|_| {
                        // SAFETY: the caller's block, and a new one.
                        unsafe { copy(both, block, old, new, take(&both.inner)?) }
                    }),
                    (false, false) => grow_in(&both.inner),
                    // SAFETY: as above.
                    (false, true) => unsafe { copy(both, block, old, new, take(both)?) },
                }
            }

            /// Copies a block to `to`, and frees it.
            ///
            /// # Safety
            /// The caller owns both, of these layouts.
            unsafe fn copy(
                both: &impl Allocator,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
                to: NonNull<[u8]>,
            ) -> Result<NonNull<[u8]>, AllocError> {
                let bytes = old.size().min(new.size());
                // SAFETY: the caller owns both, which have as many bytes.
                unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to.cast::<u8>().as_ptr(), bytes) };
                // SAFETY: the caller's block, of this layout.
                unsafe { both.deallocate(block, old) };
                Ok(to)
            }

            // SAFETY: the global allocator of that version keeps these promises, and has no state.
            unsafe impl Allocator for GlobalHeap {
                fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    Global.allocate(layout)
                }

                fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    Global.allocate_zeroed(layout)
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    // SAFETY: the caller's promise.
                    unsafe { Global.deallocate(block, layout) };
                }

                unsafe fn grow(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    unsafe { Global.grow(block, old, new) }
                }

                unsafe fn grow_zeroed(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    unsafe { Global.grow_zeroed(block, old, new) }
                }

                unsafe fn shrink(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    // SAFETY: the caller's promise.
                    unsafe { Global.shrink(block, old, new) }
                }
            }
        }
    };
}

implement!("allocator-api2-02", v02, allocator_api2_02);
implement!("allocator-api2-03", v03, allocator_api2_03);
implement!("allocator-api2-04", v04, allocator_api2_04);
