//! An allocator for collections.

use crate::DEFAULT_THRESHOLD;
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use stable_deref_trait::CloneStableDeref;
use vmalloc::{DirectMemory, Platform, Relocate, Request, Resize, SpaceRef, Tag};

/// A space as an `Allocator`, for collections whose memory is large: the unit is a page, and a
/// guard page behind it. Small sizes may go to another allocator `A`.
///
/// It is there with one of these features, and implements the trait of each version of the crate
/// `allocator-api2` that has one: `allocator-api2-02`, which hashbrown needs, `allocator-api2-03`,
/// `allocator-api2-04`. The version itself is there under the name of the feature. The error of its
/// `try_reserve` is none of `std::error::Error`, unless the program turns that crate's feature on
/// (`fresh-rust` in 0.4, `std` before).
///
/// Collections with allocators of their own have tags of their own. Memory with a record is a
/// [`Buffer`](vmalloc::Buffer).
///
/// ```
/// use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
/// use vmalloc_malloc::SpaceAllocator;
/// use vmalloc_malloc::allocator_api2_04::vec::Vec;
///
/// let space = open(LinuxOptions::new(), SpaceOptions::default())?;
/// let mut list = Vec::new_in(SpaceAllocator::new(&*space).tagged("list"));
/// list.extend(0..100_000_u64);
/// assert_eq!(space.find(list.as_ptr() as usize).unwrap().tag, Some("list".into()));
///
/// let mut list = Vec::new_in(SpaceAllocator::beside_heap(&*space));
/// list.push(1_u64);
/// assert!(!space.contains(list.as_ptr() as usize), "a small list is on the heap");
/// list.extend(0..100_000);
/// assert!(space.contains(list.as_ptr() as usize), "a large one is in the space");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SpaceAllocator<S, A = NoHeap> {
    space: S,
    tag: Option<Tag>,
    inner: A,
    threshold: usize,
}

/// The program's global allocator, as an `Allocator` of every version.
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalHeap;

/// No other allocator: it has empty blocks only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeap;

impl<S: CloneStableDeref, A: Clone> Clone for SpaceAllocator<S, A> {
    fn clone(&self) -> Self {
        Self {
            space: self.space.clone(),
            tag: self.tag,
            inner: self.inner.clone(),
            threshold: self.threshold,
        }
    }
}

impl<S: CloneStableDeref + Copy, A: Copy> Copy for SpaceAllocator<S, A> {}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SpaceAllocator<S> {
    /// Returns an allocator on a space: every size comes from there.
    pub fn new(space: S) -> Self {
        Self { space, tag: None, inner: NoHeap, threshold: 1 }
    }
}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>> SpaceAllocator<S, GlobalHeap> {
    /// Returns an allocator on a space and on the global heap, with the default threshold of
    /// 32 KiB. The space is not that of the program's own `LargeAlloc`, whose blocks do not start
    /// at a page: a free of one through this allocator ends the program.
    pub fn beside_heap(space: S) -> Self {
        // SAFETY: the global allocator is a constant of the program, made before any space. It has
        // addresses of a space only where its own `unsafe` code takes them there. `LargeAlloc` does
        // so in one that it has opened for itself. If `space` is that one, each of its blocks that
        // starts at a page is a whole area, which the space frees and resizes as the global
        // allocator would; the space refuses all others, and a refused free ends the program.
        unsafe { Self::over(space, GlobalHeap, DEFAULT_THRESHOLD) }
    }
}

impl<S: SpaceRef<Platform: DirectMemory + Relocate>, A> SpaceAllocator<S, A> {
    /// Returns an allocator that takes sizes of `threshold` bytes and more from `space`, and hands
    /// the rest to `inner`, and what the space has no room for. With a page as the threshold it is
    /// Linux's `kvmalloc`.
    ///
    /// # Safety
    /// `inner` hands out no address of `space`, now or later, in this or any copy of it: a block
    /// goes back to where its address belongs. An arena in a block of `space` is no such allocator.
    ///
    /// ```compile_fail,E0133
    /// # use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
    /// # use vmalloc_malloc::{GlobalHeap, SpaceAllocator};
    /// let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
    /// let both = SpaceAllocator::over(&*space, GlobalHeap, 4096);
    /// ```
    #[doc(alias = "kvmalloc")]
    pub unsafe fn over(space: S, inner: A, threshold: usize) -> Self {
        Self { space, tag: None, inner, threshold: threshold.max(1) }
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

    /// Returns whether a block is in the space. An empty one never is.
    fn has(&self, block: NonNull<u8>, layout: Layout) -> bool {
        layout.size() != 0 && self.space.contains(block.as_ptr().addr())
    }

    /// Allocates an area, if that is for the space and it has room.
    fn area(&self, layout: Layout, is_zeroed: bool) -> Option<NonNull<[u8]>> {
        if layout.size() < self.threshold {
            return None;
        }
        let request = Request::from(layout);
        let request = if is_zeroed { request.zeroed() } else { request };
        let request = self.tag.map_or(request, |tag| request.tag(tag));
        memory(self.space.raw().alloc(&request).ok()?, layout)
    }

    /// Resizes a block of the space, in place where that is possible. On `None` it is as it was.
    ///
    /// # Safety
    /// The caller owns the block.
    unsafe fn resized(&self, block: NonNull<u8>, new: Layout) -> Option<NonNull<[u8]>> {
        let addr = block.as_ptr().expose_provenance();
        // SAFETY: the caller owns the area.
        memory(
            unsafe { self.space.raw().realloc(addr, &Resize::new(new.size()).align(new.align())) }.ok()?,
            new,
        )
    }

    /// Frees a block of the space.
    ///
    /// # Safety
    /// The caller owns the block, and gives it up.
    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the block is an area of this space, which its owner gives up.
        if let Err(error) = unsafe { self.space.raw().free(block.as_ptr().expose_provenance()) } {
            self.space.platform().fatal(&error);
        }
    }
}

/// Returns the block at `addr`.
fn memory(addr: usize, layout: Layout) -> Option<NonNull<[u8]>> {
    let start = NonNull::new(ptr::with_exposed_provenance_mut(addr))?;
    Some(NonNull::slice_from_raw_parts(start, layout.size()))
}

/// Implements the trait of a version of `allocator-api2`.
macro_rules! implement {
    ($feature:literal, $module:ident, $version:ident) => {
        #[cfg(feature = $feature)]
        mod $module {
            use super::*;
            use $version::alloc::{AllocError, Allocator, Global};

            type Block = Result<NonNull<[u8]>, AllocError>;

            // SAFETY: blocks are areas of the space, mapped until they are freed, or the inner
            // allocator's. A block goes back to where it came from: an address is in the space or
            // not, by the promise that `over` asks for, and an empty block is always the inner
            // allocator's. All copies lead to one space (`CloneStableDeref`), and to copies of one
            // inner allocator.
            unsafe impl<S, A> Allocator for SpaceAllocator<S, A>
            where
                S: SpaceRef<Platform: DirectMemory + Relocate>,
                A: Allocator,
            {
                fn allocate(&self, layout: Layout) -> Block {
                    self.area(layout, false).map_or_else(|| self.inner.allocate(layout), Ok)
                }

                fn allocate_zeroed(&self, layout: Layout) -> Block {
                    self.area(layout, true).map_or_else(|| self.inner.allocate_zeroed(layout), Ok)
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    // SAFETY: the caller's promise, and the block is that allocator's.
                    unsafe {
                        match self.has(block, layout) {
                            true => self.free(block),
                            false => self.inner.deallocate(block, layout),
                        }
                    }
                }

                unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
                    // SAFETY: the caller's promise, and the block is that allocator's.
                    unsafe {
                        match (self.has(block, old), new.size() >= self.threshold) {
                            (true, _) => self
                                .resized(block, new)
                                .map_or_else(|| copy(self, block, old, new, self.inner.allocate(new)?), Ok),
                            (false, true) => copy(self, block, old, new, self.allocate(new)?),
                            (false, false) => self.inner.grow(block, old, new),
                        }
                    }
                }

                unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
                    // SAFETY: the caller's promise; `grow` returns a block of the new size, of
                    // which the first `old.size()` bytes are those of the old one.
                    unsafe {
                        if !self.has(block, old) {
                            return match new.size() >= self.threshold {
                                true => copy(self, block, old, new, self.allocate_zeroed(new)?),
                                false => self.inner.grow_zeroed(block, old, new),
                            };
                        }
                        let grown = self.grow(block, old, new)?;
                        let rest = grown.cast::<u8>().add(old.size());
                        rest.write_bytes(0, new.size() - old.size());
                        Ok(grown)
                    }
                }

                unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
                    // SAFETY: the caller's promise, and the block is that allocator's.
                    unsafe {
                        if !self.has(block, old) {
                            return self.inner.shrink(block, old, new);
                        }
                        let stays = new.size() >= self.threshold;
                        let shrunk = if stays { self.resized(block, new) } else { None };
                        // An alignment that it did not have may need another place.
                        shrunk.map_or_else(|| copy(self, block, old, new, self.inner.allocate(new)?), Ok)
                    }
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
            ) -> Block {
                let bytes = old.size().min(new.size());
                // SAFETY: the caller owns both, which have as many bytes.
                unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to.cast::<u8>().as_ptr(), bytes) };
                // SAFETY: the caller's block, of this layout.
                unsafe { both.deallocate(block, old) };
                Ok(to)
            }

            // SAFETY: its blocks are empty.
            unsafe impl Allocator for NoHeap {
                fn allocate(&self, layout: Layout) -> Block {
                    if layout.size() != 0 {
                        return Err(AllocError);
                    }
                    let start = NonNull::new(ptr::without_provenance_mut(layout.align()));
                    Ok(NonNull::slice_from_raw_parts(start.ok_or(AllocError)?, 0))
                }

                unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}
            }

            // SAFETY: the global allocator of that version keeps these promises, and has no state.
            unsafe impl Allocator for GlobalHeap {
                fn allocate(&self, layout: Layout) -> Block {
                    Global.allocate(layout)
                }

                fn allocate_zeroed(&self, layout: Layout) -> Block {
                    Global.allocate_zeroed(layout)
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    // SAFETY: the caller's promise.
                    unsafe { Global.deallocate(block, layout) };
                }

                unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
                    // SAFETY: the caller's promise.
                    unsafe { Global.grow(block, old, new) }
                }

                unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
                    // SAFETY: the caller's promise.
                    unsafe { Global.grow_zeroed(block, old, new) }
                }

                unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Block {
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
