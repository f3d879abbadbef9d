//! Freed areas given back: purge, flush, decay, drain, shrink.

use crate::answer::given;
use crate::error::vmalloc_error;
use crate::space::{on, vmalloc_space};
use crate::stats::tell_if_asked;
use libc::c_int;
use vmalloc_linux::DrainStatus;

/// Gives everything that was freed back to the system and to the free addresses, with one flush.
/// On return no CPU reaches anything that was freed before the call.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_purge(space: *mut vmalloc_space, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; space => on!(&space.0, it => Ok(it.purge()?)))
}

/// Unmaps everything that was freed. On return no CPU reaches it. Its addresses may wait for reuse.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_flush(space: *mut vmalloc_space, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; space => on!(&space.0, it => Ok(it.flush()?)))
}

/// Gives back a quarter of the areas that wait for reuse, but none that was needed since the last
/// decay, and unmaps everything lazy. Repeated, it gives everything back.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_decay(space: *mut vmalloc_space, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; space => on!(&space.0, it => Ok(it.decay()?)))
}

/// Drains as the thread of the space does, for programs that forbid that thread: above the
/// threshold it purges, else it decays. Returns 1 if there is a reason to call again, and 0 if not.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_drain(space: *mut vmalloc_space, detail: *mut vmalloc_error) -> c_int {
    call!(number, detail; space => Ok((on!(&space.0, it => it.drain())? == DrainStatus::More).into()))
}

/// Gives back up to `areas` areas that wait for reuse, those with memory first. `*evicted`, which
/// may be `NULL`, becomes their number.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_shrink(
    space: *mut vmalloc_space,
    areas: u64,
    evicted: *mut u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        let count = on!(&space.0, it => it.shrink(areas))?;
        // SAFETY: the conditions of every call.
        unsafe { tell_if_asked(evicted, count) };
        Ok(())
    })
}

/// Returns how many areas `vmalloc_shrink` could give back now, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_shrinkable(space: *const vmalloc_space) -> u64 {
    // SAFETY: the conditions of every call.
    unsafe { given(space) }.map_or(0, |space| on!(&space.0, it => it.shrinkable()))
}
