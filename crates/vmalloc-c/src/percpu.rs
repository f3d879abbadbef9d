//! Areas at the same distances from one base.

use crate::answer::{self, Refusal};
use crate::error::vmalloc_error;
use crate::input;
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};

/// Reserves `count` areas of `sizes[i]` bytes at `base + offsets[i]`, all or none, and tells the
/// base, a multiple of `align`. They have no memory: see `vmalloc_map_pages`. The base may be
/// outside of the space, and even `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_congruent(
    space: *mut vmalloc_space,
    offsets: *const usize,
    sizes: *const usize,
    count: usize,
    align: usize,
    base: *mut *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, [offsets, sizes] = lists(offsets, sizes, count) => {
        if base.is_null() {
            return Err(answer::Argument::Null.into());
        }
        let found = on!(&space.0, it => vmalloc_percpu::alloc(it, offsets, sizes, align))?;
        // SAFETY: the conditions of every call.
        unsafe { base.write(std::ptr::with_exposed_provenance_mut(found)) };
        Ok(())
    })
}

/// Frees the areas of `vmalloc_alloc_congruent`, with the same base, offsets and sizes, in any
/// order.
///
/// # Safety
/// The areas are the caller's, who uses nothing any more that is mapped there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free_congruent(
    space: *mut vmalloc_space,
    base: *mut c_void,
    offsets: *const usize,
    sizes: *const usize,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space, [offsets, sizes] = lists(offsets, sizes, count) => {
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { vmalloc_percpu::free(it, base.addr(), offsets, sizes) }?))
    })
}

/// Returns both lists.
///
/// # Safety
/// That of [`input::array`], for each.
unsafe fn lists<'a>(
    offsets: *const usize,
    sizes: *const usize,
    count: usize,
) -> Result<[&'a [usize]; 2], Refusal> {
    // SAFETY: the caller's condition.
    unsafe { Ok([input::array(offsets, count)?, input::array(sizes, count)?]) }
}
