//! Requests of the threshold and above, and pointers into the reservation.

use crate::base::{SavedErrno, say, set_errno};
use crate::{altered, entries, fork, glibc, start};
use large_heap::LargeHeap;
use libc::{c_int, c_void, size_t};
use std::fmt::Display;
use std::ptr;
use vmalloc_linux::trap_report::{self, Place};
use vmalloc_linux::{Contended, FreeError};

/// The complaint about an address at which no block may start.
const NO_BLOCK: &str = "no block starts there";

/// Allocates zeros from the heap, or from glibc.
#[inline(never)]
pub(crate) fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    if let Some(heap) = start::enter_for(count * bytes) {
        let _errno = SavedErrno::new();
        let memory = heap.alloc_zeroed(count * bytes, 1);
        if !memory.is_null() {
            return memory.cast();
        }
    }
    glibc::calloc(count, bytes)
}

/// Allocates from the heap, if it may serve that. Returns null else, with `errno` as it was.
#[inline(never)]
pub(crate) fn alloc(bytes: usize, align: usize) -> *mut c_void {
    let Some(heap) = start::enter_for(bytes) else { return ptr::null_mut() };
    let _errno = SavedErrno::new();
    heap.alloc(bytes, align).cast()
}

/// Allocates from the heap what glibc has refused, of any size: a limit on addresses counts the
/// heap's already. Returns null, with the `errno` of glibc's refusal, if there is no heap.
#[cold]
#[inline(never)]
pub(crate) fn spare(bytes: usize, align: usize) -> *mut c_void {
    let Some(heap) = start::enter() else { return ptr::null_mut() };
    let _errno = SavedErrno::new();
    heap.alloc(bytes, align).cast()
}

/// Allocates zeros from the heap that glibc has refused. See [`spare`].
#[cold]
#[inline(never)]
pub(crate) fn spare_zeros(bytes: usize) -> *mut c_void {
    let Some(heap) = start::enter() else { return ptr::null_mut() };
    let _errno = SavedErrno::new();
    heap.alloc_zeroed(bytes, 1).cast()
}

/// Moves a block of glibc's to the heap, to a size that glibc has refused. See [`spare`].
///
/// # Safety
/// That of realloc(3): the block is glibc's.
#[cold]
#[inline(never)]
pub(crate) unsafe fn move_to_spare(memory: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's block.
    let Some(old) = (unsafe { glibc::usable_size(memory) }) else { return ptr::null_mut() };
    let to = spare(bytes, 1);
    if !to.is_null() {
        // SAFETY: both blocks have as many bytes, and are the caller's. The old one has no user.
        unsafe {
            copy(memory, to, old.min(bytes));
            glibc::free(memory);
        }
    }
    to
}

/// Frees a block of the heap. A wrong pointer ends the program, as it does in glibc.
///
/// # Safety
/// That of free(3). The address is in the reservation.
#[inline(never)]
pub(crate) unsafe fn free(memory: *mut c_void) {
    let Some(heap) = start::enter() else { return fork::put_off(memory.expose_provenance()) };
    let _errno = SavedErrno::new();
    for late in fork::take_put_off() {
        free_at(&heap, late);
    }
    free_at(&heap, memory.expose_provenance());
}

fn free_at(heap: &LargeHeap, addr: usize) {
    let is_altered = !altered::is_none() && heap.area(addr).is_some_and(|area| altered::forget(&area));
    // SAFETY: a block that its owner has given to `free`.
    let freed = unsafe { if is_altered { heap.free_altered(addr) } else { heap.free(addr) } };
    match freed {
        // For want of memory to remember it the block is lost, which is no misuse.
        Ok(()) | Err(FreeError::NoMemory { .. }) => {}
        Err(FreeError::Unaligned { .. }) => misused("free", addr, &NO_BLOCK),
        Err(error) => misused("free", addr, &error),
    }
}

/// Gives a block of the heap another size. From the threshold down it moves to glibc, as every
/// block does while a thread forks. One with attributes is copied: they end with the old block.
///
/// # Safety
/// That of realloc(3). The address is in the reservation, and `bytes` is not 0.
#[inline(never)]
pub(crate) unsafe fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(heap) = start::enter() else {
        // SAFETY: the caller's block.
        return unsafe { realloc_in_fork(memory, bytes) };
    };
    let addr = memory.expose_provenance();
    let stays = !start::is_small(bytes)
        && (altered::is_none() || !heap.area(addr).is_some_and(|area| altered::meets(&area)));
    if stays {
        let _errno = SavedErrno::new();
        // SAFETY: the caller's block.
        match unsafe { heap.realloc(addr, bytes, 1) } {
            Ok(moved) if !moved.is_null() => return moved.cast(),
            Ok(_) => {}
            Err(error) => {
                misused("realloc", addr, &error);
                return ptr::null_mut();
            }
        }
    }
    let Some(old) = heap.usable_size(addr) else {
        misused("realloc", addr, &NO_BLOCK);
        return ptr::null_mut();
    };
    // A fork need not wait for the copy.
    drop(heap);
    // SAFETY: the caller's block.
    unsafe { move_block(memory, bytes, |to| copy(memory, to, old.min(bytes))) }
}

/// Moves a block to glibc while a thread forks: the size of the block may be known only under a
/// lock which that thread holds.
///
/// # Safety
/// As for [`realloc`].
#[cold]
unsafe fn realloc_in_fork(memory: *mut c_void, bytes: usize) -> *mut c_void {
    let area = start::heap().and_then(|heap| bytes_from(heap, memory.addr()).ok()?);
    // SAFETY: the caller's block.
    unsafe {
        match area {
            Some(old) => move_block(memory, bytes, |to| copy(memory, to, old.min(bytes))),
            None => move_block(memory, bytes, |to| copy_readable(memory, to, bytes)),
        }
    }
}

/// Copies a block to a new one, and frees it. Returns null, with `errno` set, when there is no
/// memory, or `copy` fails.
///
/// # Safety
/// As for [`realloc`].
#[cold]
unsafe fn move_block(
    memory: *mut c_void,
    bytes: usize,
    copy: impl FnOnce(*mut c_void) -> bool,
) -> *mut c_void {
    let to = entries::malloc(bytes);
    if to.is_null() {
        return to;
    }
    if !copy(to) {
        // SAFETY: the block of above, which no thread has seen.
        unsafe { entries::free(to) };
        set_errno(libc::ENOMEM);
        return ptr::null_mut();
    }
    // SAFETY: the caller's block, of which the content is elsewhere now.
    unsafe { free(memory) };
    to
}

/// Copies `bytes` bytes.
///
/// # Safety
/// Both blocks have as many bytes, and are the caller's.
unsafe fn copy(from: *mut c_void, to: *mut c_void, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    true
}

/// Copies up to `bytes` bytes, as far as they can be read. Bytes of the block behind it are of no
/// use, and do no harm. Returns false if the system refuses.
fn copy_readable(from: *mut c_void, to: *mut c_void, bytes: usize) -> bool {
    let from = libc::iovec { iov_base: from, iov_len: bytes };
    let to = libc::iovec { iov_base: to, iov_len: bytes };
    // SAFETY: `to` has as many bytes, and is the caller's. The kernel reads what is mapped.
    unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) > 0 }
}

/// Moves a block of glibc's that grows beyond the threshold to the heap.
///
/// # Safety
/// That of realloc(3): the block is glibc's.
#[inline(never)]
pub(crate) unsafe fn move_from_glibc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    // A block that was large before the heap was ready stays where it is: glibc moves its pages.
    // SAFETY: the caller's block.
    let old = unsafe { glibc::usable_size(memory) }.filter(|&old| start::is_small(old) && old < bytes);
    let to = old.map_or(ptr::null_mut(), |_| alloc(bytes, 1));
    match old {
        Some(old) if !to.is_null() => {
            // SAFETY: both blocks have as many bytes, and are the caller's.
            unsafe { ptr::copy_nonoverlapping(memory.cast::<u8>(), to.cast::<u8>(), old) };
            let _errno = SavedErrno::new();
            // SAFETY: the caller's block, of which the content is elsewhere now.
            unsafe { glibc::free(memory) };
            to
        }
        // SAFETY: the caller's block.
        _ => unsafe { glibc::realloc(memory, bytes) },
    }
}

/// Returns the size of a block of the heap; 0 where none starts.
pub(crate) fn usable_size(addr: usize) -> usize {
    if let Some(heap) = start::enter() {
        return heap.usable_size(addr).unwrap_or(0);
    }
    let Some(heap) = start::heap() else { return 0 };
    match bytes_from(heap, addr) {
        Ok(bytes) => bytes.unwrap_or(0),
        // Known only under a lock that a forking thread holds. No block is smaller.
        Err(_) => start::settings().threshold,
    }
}

/// Returns how many bytes the area has from `addr` on; `None` if there is none.
fn bytes_from(heap: &LargeHeap, addr: usize) -> Result<Option<usize>, Contended> {
    let area = heap.space().try_find(addr)?;
    let shift = heap.space().geometry().page_shift;
    Ok(area.map(|area| ((area.pages as usize) << shift).saturating_sub(addr - area.addr)))
}

/// Gives back what the heap has cached. Returns 1 if there was some.
pub(crate) fn trim() -> c_int {
    let Some(heap) = start::enter() else { return 0 };
    let _errno = SavedErrno::new();
    let idle = |heap: &LargeHeap| {
        let stats = heap.space().stats();
        stats.cached_pages + stats.lazy_pages
    };
    let before = idle(&heap);
    // What the system refuses stays, and is tried again later.
    let _ = heap.space().purge();
    let has_given = before > idle(&heap);
    heap.close_unused();
    // The addresses that it closed are lazy now.
    let _ = heap.space().purge();
    c_int::from(has_given)
}

/// Returns how many blocks are in use, and their bytes.
pub(crate) fn in_use() -> (usize, usize) {
    let Some(heap) = start::enter() else { return (0, 0) };
    heap.in_use()
}

/// Says what is wrong with a pointer, and ends the program, unless the settings say otherwise.
#[cold]
#[inline(never)]
fn misused(call: &str, addr: usize, error: &dyn Display) {
    match trap_report::look_up(addr).map(|found| found.place) {
        Some(Place::Freed(freed)) => say(format_args!("{call}({addr:#x}): in an area {freed}")),
        _ => say(format_args!("{call}({addr:#x}): {error}")),
    }
    if start::settings().abort {
        // SAFETY: no conditions.
        unsafe { libc::abort() };
    }
}
