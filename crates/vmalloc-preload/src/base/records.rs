//! The heap of the library's own records.
//!
//! Records come from the global allocator of the library. The C library's malloc would not do: it
//! may be the very library, or another one that maps memory through it, and a call would wait for
//! itself. So it is dlmalloc over mappings that the kernel is asked for, under one lock. The lock
//! is the innermost of all: nothing is called under it but the kernel.
//!
//! A record of [`MAPPED_FROM`] bytes or more is a mapping of its own: the tables of a whole span
//! are. Only the touched part of them is ever backed by memory. dlmalloc would write their zeros.

use dlmalloc::{Allocator, Dlmalloc};
use lock_api::{Mutex, MutexGuard};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;
use vmalloc_linux::{FutexLock, page_bytes};

/// The size from which on a record is mapped: few are as large, and live as long as their owner.
const MAPPED_FROM: usize = 128 << 10;

/// Mappings for dlmalloc.
struct Mappings;

// SAFETY: what is returned are mappings of their own, of as many bytes, and all zero.
unsafe impl Allocator for Mappings {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let memory = map(size);
        if memory.is_null() { (memory, 0, 0) } else { (memory, size, 0) }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        // dlmalloc allocates and copies then.
        ptr::null_mut()
    }

    fn free_part(&self, memory: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: dlmalloc gives back the end of a mapping of its own.
        unsafe { unmap(memory.wrapping_add(new), old - new) }
    }

    fn free(&self, memory: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc gives back a mapping of its own.
        unsafe { unmap(memory, size) }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        page_bytes()
    }
}

/// Maps zeros. Returns null when there is no memory.
///
/// By rustix, which asks the kernel itself: the C library's function may be one of a library to
/// preload, which allocates, and would wait for the lock that is held here.
fn map(bytes: usize) -> *mut u8 {
    let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
    let memory = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, kind) };
    memory.map_or(ptr::null_mut(), <*mut c_void>::cast)
}

/// Unmaps memory. Returns false if the system refuses: at its limit on
/// mappings.
///
/// # Safety
/// The pages were mapped by [`map`], and nothing uses them.
unsafe fn unmap(memory: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { munmap(memory.cast(), bytes) }.is_ok()
}

/// A heap of records, for the global allocator of a library.
pub(crate) struct Records(Mutex<FutexLock, Dlmalloc<Mappings>>);

impl Records {
    /// Returns a heap without a mapping.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Dlmalloc::new_with_allocator(Mappings)))
    }

    /// Holds the lock, for a fork.
    pub(crate) fn quiesce(&self) {
        MutexGuard::leak(self.0.lock());
    }

    /// Releases the lock after a fork, on both sides.
    ///
    /// # Safety
    /// This thread, or the one it was forked from, has called [`quiesce`](Self::quiesce), and not
    /// this since.
    pub(crate) unsafe fn resume(&self) {
        // SAFETY: by the caller's promise the lock is held, and its guard was leaked.
        unsafe { self.0.force_unlock() };
    }
}

/// Returns true if a record is a mapping of its own.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_FROM && layout.align() <= page_bytes()
}

// SAFETY: dlmalloc keeps the promises of an allocator for the thread that holds it, and a mapping
// is its owner's. The layout, which callers repeat, tells which of them a record came from.
unsafe impl GlobalAlloc for Records {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: the size and the alignment of a layout are valid.
        unsafe { self.0.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: as above.
        unsafe { self.0.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's record, of this layout.
        unsafe {
            match is_mapped(layout) {
                // If it is refused, addresses are lost.
                true => drop(unmap(memory, layout.size())),
                false => self.0.lock().free(memory, layout.size(), layout.align()),
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size fits with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if !is_mapped(layout) && !is_mapped(new) {
            // SAFETY: the caller's record, of this layout.
            return unsafe { self.0.lock().realloc(memory, layout.size(), layout.align(), new_size) };
        }
        // SAFETY: the caller promises that the new size is not zero.
        let to = unsafe { self.alloc(new) };
        if !to.is_null() {
            // SAFETY: both records are the caller's, and have as many bytes.
            unsafe { ptr::copy_nonoverlapping(memory, to, layout.size().min(new_size)) };
            // SAFETY: the caller's record, of which the content is elsewhere now.
            unsafe { self.dealloc(memory, layout) };
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates zeros, and writes to all of them.
    fn zeros(records: &Records, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not zero.
        let record = unsafe { records.alloc_zeroed(layout) };
        assert!(!record.is_null() && record.addr().is_multiple_of(layout.align()));
        // SAFETY: the record just allocated.
        let content = unsafe { std::slice::from_raw_parts_mut(record, layout.size()) };
        assert!(content.iter().all(|&byte| byte == 0));
        content.fill(7);
        record
    }

    #[test]
    fn a_record_keeps_its_content_on_its_way_to_a_mapping_and_back() {
        let records = Records::new();
        let sizes = [40, 4000, MAPPED_FROM, 10 * MAPPED_FROM, MAPPED_FROM, 100];
        let mut layout = Layout::from_size_align(sizes[0], 8).unwrap();
        let mut record = zeros(&records, layout);
        for size in &sizes[1..] {
            // SAFETY: the record and its layout.
            record = unsafe { records.realloc(record, layout, *size) };
            layout = Layout::from_size_align(*size, 8).unwrap();
            // SAFETY: 40 bytes are in each of these sizes.
            assert!(unsafe { std::slice::from_raw_parts(record, 40) }.iter().all(|&byte| byte == 7));
        }
        // SAFETY: the record and its layout.
        unsafe { records.dealloc(record, layout) };
    }

    #[test]
    fn freed_records_are_zeros_again() {
        let records = Records::new();
        for (size, align) in
            [(64, 16), (5000, 64), (MAPPED_FROM, page_bytes()), (MAPPED_FROM, 8 * page_bytes())]
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            for _ in 0..3 {
                let record = zeros(&records, layout);
                // SAFETY: the record just allocated, and its layout.
                unsafe { records.dealloc(record, layout) };
            }
        }
    }

    #[test]
    fn a_record_beyond_all_memory_is_refused_and_errno_kept() {
        super::super::set_errno(libc::EXDEV);
        let layout = Layout::from_size_align(1 << 62, 8).unwrap();
        // SAFETY: the size is not zero.
        assert!(unsafe { Records::new().alloc(layout) }.is_null());
        assert_eq!(super::super::errno::errno(), libc::EXDEV);
    }

    /// Without it, a fork could leave a child whose records no thread may ever use.
    #[test]
    fn nobody_gets_a_record_between_the_steps_of_a_fork() {
        let records = Records::new();
        records.quiesce();
        assert!(records.0.try_lock().is_none());
        // SAFETY: held by the line above.
        unsafe { records.resume() };
        assert!(records.0.try_lock().is_some());
    }
}
