//! Frames in reserved areas, page by page.

use crate::error::vmalloc_error;
use crate::exec;
use crate::options::{self, vmalloc_request};
use crate::raw_map;
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};

/// Reserves addresses, as `vmalloc_reserve` does. `vmalloc_free_sparse` or `vmalloc_unreserve`
/// frees them.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_sparse(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, request = options::request(request) => {
        on!(&space.0, it => Ok(it.raw().reserve(&request)?))
    })
}

/// Frees an area of `vmalloc_alloc_sparse` or `vmalloc_reserve`, as `vmalloc_unreserve` does. The
/// frames that are mapped there stay their owner's.
///
/// # Safety
/// The area is the caller's, who uses nothing any more that is mapped there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free_sparse(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().unreserve(addr.addr()) }?))
    })
}

/// Maps frames by their numbers into a reserved, sparse or congruent area, from `addr` on. Pages
/// that show frames already are refused.
///
/// # Safety
/// The frames stay taken until they are unmapped. None of the pages is committed. No other thread
/// maps, unmaps or frees them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_pages(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    numbers: *const u64,
    count: usize,
    protection: u32,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, frames = raw_map::frames(numbers, count) => {
        let protection = exec::protection(protection)?;
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().map_pages(addr.addr(), frames, protection) }?))
    })
}

/// Unmaps `pages` pages of a reserved, sparse or congruent area, from `addr` on, all of which show
/// frames. On return no CPU reaches the frames through them.
///
/// # Safety
/// The program uses the frames through these pages no more. No other thread maps, unmaps or frees
/// them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_unmap_pages(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    pages: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().unmap_pages(addr.addr(), pages) }?))
    })
}
