//! A global allocator.

use crate::DEFAULT_THRESHOLD;
use crate::heap::LargeHeap;
use once_cell::race::OnceBox;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use vmalloc_linux::LinuxOptions;

/// The milliseconds between two decays.
const DECAY_MS: u64 = 1000;

/// The bytes of freed memory that may stay cached.
const CACHE_BYTES: usize = 384 << 20;

thread_local! {
    /// True while this thread is inside a call of the heap.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A global allocator that takes sizes from a threshold on from a space, and hands the rest to `A`.
///
/// The space is opened by the first large allocation. It takes its own lists from the global
/// allocator as well, which is this one: calls that come from inside the space go to `A`.
#[derive(Debug)]
pub struct LargeAlloc<A = System> {
    inner: A,
    threshold: usize,
    /// Empty until the first large allocation; `None` if the machine refused.
    heap: OnceBox<Option<LargeHeap>>,
}

impl LargeAlloc<System> {
    /// Returns an allocator over the system's, with the default threshold of 32 KiB.
    #[must_use]
    pub const fn system() -> Self {
        Self::new(System, DEFAULT_THRESHOLD)
    }
}

impl<A> LargeAlloc<A> {
    /// Returns an allocator that takes sizes of `threshold` bytes and more from a space, and hands
    /// the rest to `inner`.
    #[must_use]
    pub const fn new(inner: A, threshold: usize) -> Self {
        Self { inner, threshold, heap: OnceBox::new() }
    }

    /// Returns the heap of large blocks: `None` before the first one, or if the machine refused to
    /// reserve addresses.
    #[must_use]
    pub fn heap(&self) -> Option<&LargeHeap> {
        self.heap.get()?.as_ref()
    }

    /// Returns the heap, if it may serve a block of `bytes` bytes, and opens it for the first one.
    fn heap_for(&self, bytes: usize) -> Option<&LargeHeap> {
        if bytes < self.threshold || IS_INSIDE.get() {
            return None;
        }
        match self.heap.get() {
            Some(heap) => heap.as_ref(),
            None => inside(|| self.heap.get_or_init(|| Box::new(open()))).as_ref(),
        }
    }

    /// Returns a block of the heap, if that may serve it and has room.
    fn large(&self, layout: Layout, alloc: fn(&LargeHeap, usize, usize) -> *mut u8) -> Option<*mut u8> {
        let heap = self.heap_for(layout.size())?;
        Some(inside(|| alloc(heap, layout.size(), layout.align()))).filter(|memory| !memory.is_null())
    }

    /// Returns the heap, if it has handed out the block at `addr`.
    fn heap_of(&self, addr: usize) -> Option<&LargeHeap> {
        self.heap().filter(|heap| heap.contains(addr))
    }
}

/// Opens the heap. Of two threads that do so at once, one drops what it opened: nothing waits, so a
/// fork meanwhile does no harm.
#[cold]
fn open() -> Option<LargeHeap> {
    let options = LinuxOptions::new().drain_thread(false).frame_bytes(0).populate(true);
    LargeHeap::open(options, LargeHeap::space_options(CACHE_BYTES), DECAY_MS).ok()
}

/// Runs `body`, whose own allocations are left to the inner allocator.
fn inside<T>(body: impl FnOnce() -> T) -> T {
    let outer = IS_INSIDE.replace(true);
    let result = body();
    IS_INSIDE.set(outer);
    result
}

// SAFETY: the heap hands out blocks of the size and alignment asked for, which are their owners'
// until they are freed; the rest is the inner allocator's promise. A block goes back to the
// allocator that it came from, for an address is in the reservation or not.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LargeAlloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.large(layout, LargeHeap::alloc).unwrap_or_else(|| unsafe { self.inner.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.large(layout, LargeHeap::alloc_zeroed)
            .unwrap_or_else(|| unsafe { self.inner.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let Some(heap) = self.heap_of(memory.addr()) else {
            // SAFETY: the caller's promise; the block is the inner allocator's.
            return unsafe { self.inner.dealloc(memory, layout) };
        };
        // SAFETY: the caller's promise. Without memory to remember the block it is lost, which is
        // no reason to end the program.
        let _ = inside(|| unsafe { heap.free(memory.expose_provenance()) });
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let stays = |heap: &LargeHeap| {
            new_size >= self.threshold && layout.align() <= heap.page_bytes() && !IS_INSIDE.get()
        };
        match self.heap_of(memory.addr()) {
            Some(heap) if stays(heap) => {
                // SAFETY: the caller's promise.
                match inside(|| unsafe { heap.realloc(memory.expose_provenance(), new_size, layout.align()) })
                {
                    // SAFETY: the caller's promise. The heap has no room, and changed nothing.
                    Ok(null) if null.is_null() => unsafe {
                        self.copy(memory, layout, new_size, |new| self.inner.alloc(new))
                    },
                    Ok(moved) => moved,
                    Err(_) => ptr::null_mut(),
                }
            }
            None if self.heap_for(new_size).is_none() || layout.size() >= self.threshold => {
                // SAFETY: the caller's promise; the block is the inner allocator's.
                unsafe { self.inner.realloc(memory, layout, new_size) }
            }
            _ => {
                // SAFETY: the caller's promise.
                unsafe { self.copy(memory, layout, new_size, |new| self.alloc(new)) }
            }
        }
    }
}

impl<A: GlobalAlloc> LargeAlloc<A> {
    /// Copies a block to a new one, which `alloc` returns, and frees it.
    ///
    /// # Safety
    /// That of [`GlobalAlloc::realloc`]. `alloc` returns a block of the heap or of the inner
    /// allocator, or null.
    unsafe fn copy(
        &self,
        memory: *mut u8,
        layout: Layout,
        new_size: usize,
        alloc: impl FnOnce(Layout) -> *mut u8,
    ) -> *mut u8 {
        // SAFETY: the caller promises that the size does not overflow with this alignment.
        let to = alloc(unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) });
        if !to.is_null() {
            // SAFETY: both blocks have as many bytes, and the caller owns them.
            unsafe { ptr::copy_nonoverlapping(memory, to, layout.size().min(new_size)) };
            // SAFETY: the caller's block, of which the content is elsewhere now.
            unsafe { self.dealloc(memory, layout) };
        }
        to
    }
}
