//! Mappings of frames by their numbers, and memory that is shown at two addresses.

use crate::answer::Refusal;
use crate::error::vmalloc_error;
use crate::exec;
use crate::input;
use crate::options::{self, vmalloc_request};
use crate::space::{on, vmalloc_space};
use libc::{c_char, c_int, c_void};
use vmalloc_linux::Frame;

/// Returns the frames of these numbers.
///
/// # Safety
/// That of [`input::array`].
pub(crate) unsafe fn frames<'a>(numbers: *const u64, count: usize) -> Result<&'a [Frame], Refusal> {
    // SAFETY: the caller's condition; a frame is its number (`repr(transparent)`).
    unsafe { input::array(numbers.cast::<Frame>(), count) }
}

/// Maps frames by their numbers, in this order, to consecutive pages with a guard page behind them.
/// A frame may be among them twice. `protection` is one of `VMALLOC_READ_WRITE`, `VMALLOC_READ` and
/// `VMALLOC_READ_EXECUTE`; `tag` may be `NULL`. `vmalloc_unmap` ends it.
///
/// # Safety
/// The frames stay taken until the mapping has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_frames(
    space: *mut vmalloc_space,
    numbers: *const u64,
    count: usize,
    protection: u32,
    tag: *const c_char,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, frames = frames(numbers, count), tag = input::name(tag) => {
        let protection = exec::protection(protection)?;
        on!(&space.0, it => Ok(it.raw().map(frames, protection, tag)?))
    })
}

/// Ends a mapping of `vmalloc_map_frames` or `vmalloc_map_shared`.
///
/// # Safety
/// The mapping is the caller's, who uses its addresses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_unmap(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().unmap(addr.addr()) }?))
    })
}

/// Maps frames by their numbers for a short while, writable and without a guard page, at little
/// cost. `vmalloc_unmap_short` ends it, on any thread.
///
/// # Safety
/// The frames stay taken until the mapping has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_short(
    space: *mut vmalloc_space,
    numbers: *const u64,
    count: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, frames = frames(numbers, count) => {
        on!(space.short()?, it => Ok(it.map(frames)?))
    })
}

/// Ends a short mapping of `count` frames. It answers `-EINVAL` for another count.
///
/// # Safety
/// The mapping is the caller's, who uses its addresses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_unmap_short(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller's condition.
        on!(space.short()?, it => Ok(unsafe { it.unmap(addr.addr(), count) }?))
    })
}

/// Allocates zeroed memory that can be shown at other addresses as well, by `vmalloc_map_shared`.
/// `vmalloc_free` frees it. After a `fork` parent and child see each other's writes.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_shared(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, request = options::request(request) => {
        on!(&space.0, it => Ok(it.raw().alloc_shared(&request)?))
    })
}

/// Shows `bytes` bytes at `memory`, whole pages inside an area of `vmalloc_alloc_shared`, at
/// another address as well. `vmalloc_unmap` ends that.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_shared(
    space: *mut vmalloc_space,
    memory: *const c_void,
    bytes: usize,
    protection: u32,
    tag: *const c_char,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, tag = input::name(tag) => {
        let protection = exec::protection(protection)?;
        on!(&space.0, it => Ok(it.raw().map_shared(memory.addr(), bytes, protection, tag)?))
    })
}
