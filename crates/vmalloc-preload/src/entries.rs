//! The symbols that take the place of glibc's.
//!
//! Each tells small from large, or ours from glibc's, by one comparison, and hands the call on.
//! They answer wrong arguments exactly as glibc does, since glibc gets these.

use crate::base::set_errno;
use crate::{glibc, large, start};
use libc::{EINVAL, ENOMEM, c_int, c_void, size_t};
use std::ptr;
use vmalloc_linux::page_bytes;

/// Allocates large sizes from the heap and others from glibc, and where one refuses from the other.
#[inline(always)]
fn served(bytes: usize, align: usize, glibc: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let is_small = start::is_small(bytes);
    let memory = if is_small { ptr::null_mut() } else { large::alloc(bytes, align) };
    match if memory.is_null() { glibc() } else { memory } {
        refused if refused.is_null() && is_small => large::spare(bytes, align),
        memory => memory,
    }
}

/// Allocates memory, as malloc(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    served(bytes, 1, || glibc::malloc(bytes))
}

/// Allocates zeros, as calloc(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(all) if !start::is_small(all) => large::calloc(count, bytes),
        all => {
            // It answers an overflow, too.
            let memory = glibc::calloc(count, bytes);
            match all {
                Some(all) if memory.is_null() => large::spare_zeros(all),
                _ => memory,
            }
        }
    }
}

/// Frees memory, as free(3).
///
/// # Safety
/// `memory` is null, or a block that its owner frees once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        match start::is_ours(memory.addr()) {
            true => large::free(memory),
            false => glibc::free(memory),
        }
    }
}

/// Frees memory, as the `cfree` of old programs.
///
/// # Safety
/// That of [`free`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cfree(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { free(memory) }
}

/// Gives a block another size, as realloc(3).
///
/// # Safety
/// `memory` is null, or a block of the caller's, who uses only what is returned, unless that is
/// null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        match (memory.is_null(), start::is_ours(memory.addr())) {
            (true, _) => malloc(bytes),
            (_, true) if bytes == 0 => {
                large::free(memory);
                ptr::null_mut()
            }
            (_, true) => large::realloc(memory, bytes),
            (_, false) if start::is_small(bytes) => match glibc::realloc(memory, bytes) {
                refused if refused.is_null() && bytes != 0 => large::move_to_spare(memory, bytes),
                moved => moved,
            },
            (_, false) => large::move_from_glibc(memory, bytes),
        }
    }
}

/// Gives an array another size, as reallocarray(3): by the program's realloc. A malloc that was
/// preloaded before this one may have no function of this name.
///
/// # Safety
/// That of [`realloc`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reallocarray(
    memory: *mut c_void,
    count: size_t,
    bytes: size_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    if let Some(resized) = unsafe { glibc::reallocarray(memory, count, bytes) } {
        return resized;
    }
    match count.checked_mul(bytes) {
        // SAFETY: the caller's promise.
        Some(all) => unsafe { realloc(memory, all) },
        None => {
            set_errno(ENOMEM);
            ptr::null_mut()
        }
    }
}

/// Allocates aligned memory, as memalign(3): an alignment that is no power of two is rounded up to
/// one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    let from_glibc = || glibc::memalign(align, bytes);
    match align.checked_next_power_of_two() {
        Some(rounded) => served(bytes, rounded, from_glibc),
        None => from_glibc(),
    }
}

/// Allocates aligned memory, as aligned_alloc(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    if !align.is_power_of_two() {
        return glibc::aligned_alloc(align, bytes);
    }
    memalign(align, bytes)
}

/// Allocates aligned memory, as posix_memalign(3).
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: size_t, bytes: size_t) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return EINVAL;
    }
    let memory = memalign(align, bytes);
    if memory.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(memory) };
    0
}

/// Allocates whole pages' alignment, as valloc(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    served(bytes, page_bytes(), || glibc::valloc(bytes))
}

/// Allocates whole pages, as pvalloc(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    served(bytes, page_bytes(), || glibc::pvalloc(bytes))
}

/// Returns how many bytes of a block can be used, as malloc_usable_size(3).
///
/// # Safety
/// `memory` is null, or a block that is in use.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    if start::is_ours(memory.addr()) {
        return large::usable_size(memory.addr());
    }
    // SAFETY: the caller's promise.
    unsafe { glibc::usable_size(memory) }.unwrap_or(0)
}

/// Gives free memory back to the system, as malloc_trim(3). Returns 1 if there was some.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn malloc_trim(pad: size_t) -> c_int {
    large::trim() | glibc::trim(pad)
}

/// Returns counts, as mallinfo2(3). Large blocks are among those that were mapped.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let mut counts = glibc::mallinfo2();
    let (blocks, bytes) = large::in_use();
    counts.hblks += blocks;
    counts.hblkhd += bytes;
    counts
}
