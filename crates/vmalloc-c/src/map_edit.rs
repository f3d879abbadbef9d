//! Areas of an address map cut, grown and shrunk, and its figures.

use crate::answer;
use crate::error::vmalloc_error;
use crate::input::{self, Versioned};
use crate::map::{owned, vmalloc_map};
use crate::stats::tell;
use libc::c_int;
use vmalloc_linux::PageRange;

/// Figures of a map.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_map_stats {
    /// `sizeof(vmalloc_map_stats)`: `VMALLOC_MAP_STATS_INIT` sets it.
    pub size: usize,
    /// The first page.
    pub start: u64,
    /// The page behind the last.
    pub end: u64,
    /// Areas in use.
    pub areas: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
}

// SAFETY: `repr(C)`, numbers of eight bytes, the size first.
unsafe impl Versioned for vmalloc_map_stats {
    const FIRST: usize = 56;
}

/// Frees the pages `[start, end)`, a part of one area. What is left of it on either side stays in
/// use, as areas of their own.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_release_part(
    map: *mut vmalloc_map,
    start: u64,
    end: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.free_part(PageRange::try_from(start..end)?)?))
}

/// Cuts the area that starts at `start` into two areas. The second starts at `at`.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_split(
    map: *mut vmalloc_map,
    start: u64,
    at: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.split(start, at).map(drop)?))
}

/// Makes the area that starts at `start` larger, to `pages` pages. It answers `-EEXIST` if the
/// pages behind it are taken.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_grow(
    map: *mut vmalloc_map,
    start: u64,
    pages: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.grow_in_place(start, pages).map(drop)?))
}

/// Makes the area that starts at `start` smaller, to `pages` pages. The rest is free.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_shrink(
    map: *mut vmalloc_map,
    start: u64,
    pages: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.shrink_in_place(start, pages).map(drop)?))
}

/// Makes the map larger: it ends at `end` from now on.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_extend(
    map: *mut vmalloc_map,
    end: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.extend(end).map(drop)?))
}

/// Hands out `count` areas of `sizes[i]` pages at `base + offsets[i]`, all or none, and tells the
/// highest base that is possible, a multiple of `align`.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_alloc_congruent(
    map: *mut vmalloc_map,
    offsets: *const u64,
    sizes: *const u64,
    count: usize,
    align: u64,
    base: *mut u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => {
        // SAFETY: the conditions of every call.
        let (offsets, sizes) = unsafe { (input::array(offsets, count)?, input::array(sizes, count)?) };
        if base.is_null() {
            return Err(answer::Argument::Null.into());
        }
        // SAFETY: the conditions of every call.
        unsafe { tell(base, vmalloc_percpu::alloc_in_map(map, offsets, sizes, align, None)?) }
    })
}

/// Tells the figures of a map.
///
/// # Safety
/// No other thread changes the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_get_stats(
    map: *const vmalloc_map,
    stats: *mut vmalloc_map_stats,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map > stats, detail; map => {
        let map = &map.map;
        vmalloc_map_stats {
            size: size_of::<vmalloc_map_stats>(),
            start: map.span().start(),
            end: map.span().end(),
            areas: map.area_count(),
            free_pages: map.free_pages(),
            largest_free_pages: map.largest_free(),
            metadata_bytes: map.metadata_bytes() as u64,
        }
    })
}

/// Checks every invariant of a map. It answers `VMALLOC_E_DAMAGED` if one does not hold.
///
/// # Safety
/// No other thread changes the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_verify(map: *const vmalloc_map, detail: *mut vmalloc_error) -> c_int {
    call!(code_of_map, detail; map => Ok(map.map.verify()?))
}
