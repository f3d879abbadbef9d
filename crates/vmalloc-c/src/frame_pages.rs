//! Frames in reserved areas, page by page.

use crate::error::vmalloc_error;
use crate::exec;
use crate::raw_map;
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};

/// Maps frames by their numbers into a reserved or congruent area, from `addr` on. Pages
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

/// Unmaps `pages` pages of a reserved or congruent area, from `addr` on, all of which show
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
