//! Growing by the C library (glibc: others ignore what `mallopt` is told here, or have none).

use super::super::PAGE_BYTES;
use super::Growth;
use core::ffi::c_void;

/// A block that frees itself.
struct Block {
    start: *mut c_void,
    pages: usize,
}

impl Block {
    fn new(pages: usize) -> Self {
        Self { start: allocate(pages), pages }
    }

    fn addr(&self) -> usize {
        self.start.expose_provenance()
    }

    fn realloc(&mut self, pages: usize) {
        // SAFETY: the block is this one's alone, which knows it by this pointer only.
        self.start = unsafe { libc::realloc(self.start, pages * PAGE_BYTES) };
        assert!(!self.start.is_null(), "memory for a larger block");
        self.pages = pages;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::free(self.start) };
    }
}

fn allocate(pages: usize) -> *mut c_void {
    // SAFETY: a size that is not zero.
    let start = unsafe { libc::malloc(pages * PAGE_BYTES) };
    assert!(!start.is_null(), "memory for a block");
    start
}

/// `realloc` as it comes: mremap(2).
pub(super) struct Remapped(Block);

impl Growth for Remapped {
    const NAME: &'static str = "glibc realloc (mremap)";
    const EACH: usize = 1;

    fn begin(pages: usize) -> Self {
        Self(Block::new(pages))
    }

    fn grow(&mut self, pages: usize) {
        self.0.realloc(pages);
    }

    fn addr(&self) -> usize {
        self.0.addr()
    }
}

/// By hand: malloc, memcpy, free.
pub(super) struct Copied(Block);

impl Growth for Copied {
    const NAME: &'static str = "glibc malloc + memcpy + free";
    const EACH: usize = 256;

    fn begin(pages: usize) -> Self {
        Self(Block::new(pages))
    }

    fn grow(&mut self, pages: usize) {
        let new = Block::new(pages);
        // SAFETY: both are live, this one's alone, and the new one is the larger.
        unsafe { new.start.copy_from_nonoverlapping(self.0.start, self.0.pages * PAGE_BYTES) };
        self.0 = new;
    }

    fn addr(&self) -> usize {
        self.0.addr()
    }
}

/// `realloc` without mmap(2), and so without mremap(2): in the heap, with another block behind it.
///
/// `M_MMAP_MAX` = 0 and not a high `M_MMAP_THRESHOLD`: that goes up to 32 MiB only.
pub(super) struct HeapBlocked {
    block: Block,
    others: Vec<Block>,
}

/// glibc's default, restored at the end.
const MMAP_MAX: libc::c_int = 65_536;
/// Larger blocks fill what holes there are, until one comes to lie behind.
const MOST_OTHERS: usize = 16;

#[cfg(target_env = "gnu")]
fn set_mmap_max(count: libc::c_int) {
    // SAFETY: a parameter that only says how later blocks are obtained.
    unsafe { libc::mallopt(libc::M_MMAP_MAX, count) };
}

#[cfg(not(target_env = "gnu"))]
fn set_mmap_max(_count: libc::c_int) {}

impl Growth for HeapBlocked {
    const NAME: &'static str = "glibc realloc, no mremap, blocked";
    const EACH: usize = 256;

    fn begin(pages: usize) -> Self {
        set_mmap_max(0);
        Self { block: Block::new(pages), others: Vec::new() }
    }

    fn obstruct(&mut self) {
        self.others.clear();
        let end = self.block.addr() + self.block.pages * PAGE_BYTES;
        for _ in 0..MOST_OTHERS {
            let other = Block::new(self.block.pages + 2);
            let behind = other.addr().wrapping_sub(end) < PAGE_BYTES;
            self.others.push(other);
            if behind {
                return;
            }
        }
    }

    fn grow(&mut self, pages: usize) {
        self.block.realloc(pages);
    }

    fn addr(&self) -> usize {
        self.block.addr()
    }
}

impl Drop for HeapBlocked {
    fn drop(&mut self) {
        set_mmap_max(MMAP_MAX);
    }
}
