//! Growing by the C library (glibc: others ignore what `mallopt` is told here, or have none).

use super::super::PAGE_BYTES;
use super::{How, Memory};
use core::ffi::c_void;

/// A block that frees itself.
struct Block {
    start: *mut c_void,
    pages: usize,
}

impl Block {
    fn new(pages: usize) -> Self {
        // SAFETY: a size that is not zero.
        let start = unsafe { libc::malloc(pages * PAGE_BYTES) };
        assert!(!start.is_null(), "memory for a block");
        Self { start, pages }
    }

    fn addr(&self) -> usize {
        self.start.expose_provenance()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::free(self.start) };
    }
}

/// A block, and others that may lie behind it.
///
/// Where it is to be blocked it is without mmap(2), and so without mremap(2): in the heap.
/// `M_MMAP_MAX` = 0 and not a high `M_MMAP_THRESHOLD`: that goes up to 32 MiB only.
pub(super) struct Heap {
    block: Block,
    others: Vec<Block>,
    how: How,
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

impl Memory for Heap {
    fn begin(how: How, pages: usize) -> Self {
        if how == How::Blocked {
            set_mmap_max(0);
        }
        Self { block: Block::new(pages), others: Vec::new(), how }
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

    fn realloc(&mut self, pages: usize) {
        let block = &mut self.block;
        // SAFETY: the block is this one's alone, which knows it by this pointer only.
        block.start = unsafe { libc::realloc(block.start, pages * PAGE_BYTES) };
        assert!(!block.start.is_null(), "memory for a larger block");
        block.pages = pages;
    }

    fn copy(&mut self, pages: usize) {
        let (old, new) = (&self.block, Block::new(pages));
        // SAFETY: both are live, this one's alone, and the new one is the larger.
        unsafe { new.start.copy_from_nonoverlapping(old.start, old.pages * PAGE_BYTES) };
        self.block = new;
    }

    fn addr(&self) -> usize {
        self.block.addr()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if self.how == How::Blocked {
            set_mmap_max(MMAP_MAX);
        }
    }
}
