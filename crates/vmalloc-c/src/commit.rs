//! Memory at chosen addresses inside an area of `vmalloc_reserve`.

use crate::answer::Refusal;
use crate::error::vmalloc_error;
use crate::input;
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};
use std::ops::Range;
use vmalloc_linux::RequestError;

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_range {
    /// The first address.
    pub start: *mut c_void,
    /// Bytes from there on.
    pub bytes: usize,
}

/// Returns the ranges of a caller as ranges of addresses.
///
/// # Safety
/// That of [`input::array`].
unsafe fn ranges(given: *const vmalloc_range, count: usize) -> Result<Vec<Range<usize>>, Refusal> {
    // SAFETY: the caller's condition.
    let given = unsafe { input::array(given, count) }?;
    let mut ranges = Vec::new();
    ranges.try_reserve_exact(given.len()).map_err(|_| Refusal::Metadata)?;
    for range in given {
        let start = range.start.addr();
        let end = start.checked_add(range.bytes).ok_or(RequestError::SizeOverflow { bytes: range.bytes })?;
        ranges.push(start..end);
    }
    Ok(ranges)
}

/// Puts memory behind ranges of whole pages in areas of `vmalloc_reserve`, all or none, in any
/// order. New memory reads as zero.
///
/// # Safety
/// The areas are the caller's. None of the pages is committed or mapped, and no other thread
/// commits or decommits them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_commit(
    space: *mut vmalloc_space,
    ranges: *const vmalloc_range,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, ranges = self::ranges(ranges, count) => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().commit(&ranges) }?))
    })
}

/// Takes the memory behind ranges of areas of `vmalloc_reserve` away, committed or not. On return
/// an access traps.
///
/// # Safety
/// The areas are the caller's, who uses the ranges no more, and none of the pages shows frames
/// (`vmalloc_unmap_pages` is for those). No other thread commits or decommits them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_decommit(
    space: *mut vmalloc_space,
    ranges: *const vmalloc_range,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, ranges = self::ranges(ranges, count) => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().decommit(&ranges) }?))
    })
}

/// Makes ranges read as zero, and gives their memory back to the system: committed ones, or memory
/// of `vmalloc_alloc`. They stay usable.
///
/// # Safety
/// The areas are the caller's, who needs the content no more and does not use it meanwhile. The
/// pages are committed, or memory of `vmalloc_alloc`: none shows frames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_discard(
    space: *mut vmalloc_space,
    ranges: *const vmalloc_range,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, ranges = self::ranges(ranges, count) => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().discard(&ranges) }?))
    })
}

/// Makes committed ranges read as zero, in the way that costs least if they are used again: small
/// ones are filled with zeros, large ones are discarded.
///
/// # Safety
/// That of `vmalloc_discard`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_reset(
    space: *mut vmalloc_space,
    ranges: *const vmalloc_range,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, ranges = self::ranges(ranges, count) => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().reset(&ranges) }?))
    })
}
