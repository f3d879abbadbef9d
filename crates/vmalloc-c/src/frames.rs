//! Frames: pages of memory that can be mapped at several addresses.

use crate::answer::{self, Argument, given, given_mut};
use crate::error::vmalloc_error;
use crate::space::{Of, Part, Whole, make_on, on, vmalloc_space};
use libc::c_int;
use std::sync::Arc;
use vmalloc_linux::{Frame, Frames};

/// Owned frames. They go back when the handle and all mappings of them have ended.
pub struct vmalloc_frames(pub(crate) Of<Frames<Whole>, Frames<Part>>);

/// Takes `count` frames of any content, all or none.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_take(
    space: *mut vmalloc_space,
    count: usize,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_frames {
    call!(handle, detail; space => {
        Ok(vmalloc_frames(make_on!(&space.0, it => Frames::new(Arc::clone(it), count)?)))
    })
}

/// Takes `count` consecutive frames, the first at a multiple of `align`, a power of two. They can
/// be mapped for a short while at no cost.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_take_run(
    space: *mut vmalloc_space,
    count: usize,
    align: u64,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_frames {
    call!(handle, detail; space => {
        Ok(vmalloc_frames(make_on!(&space.0, it => Frames::consecutive(Arc::clone(it), count, align)?)))
    })
}

/// Gives the handle of frames up. They go back when the last mapping of them has ended. `NULL` is
/// allowed.
///
/// # Safety
/// The program uses the handle no more, nor frames by their numbers that it has mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_free(frames: *mut vmalloc_frames) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(frames) };
}

/// Returns how many frames there are, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_count(frames: *const vmalloc_frames) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(frames) }.map_or(0, |frames| on!(&frames.0, it => it.len()))
}

/// Returns the numbers of the frames, in the order in which they are mapped. They are there until
/// the handle ends. `NULL` for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_numbers(frames: *const vmalloc_frames) -> *const u64 {
    // SAFETY: the conditions of every call.
    let numbers = unsafe { given(frames) }.map(|frames| on!(&frames.0, it => it.as_ptr()));
    // A frame is its number (`repr(transparent)`).
    numbers.map_or(std::ptr::null(), <*const Frame>::cast)
}

/// Changes the order of two frames, for mappings that are made from now on.
///
/// # Safety
/// No other thread uses the handle meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_frames_swap(
    frames: *mut vmalloc_frames,
    one: usize,
    other: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; frames = given_mut(frames) => {
        let count = on!(&frames.0, it => it.len());
        if one.max(other) >= count {
            return Err(Argument::Count(one.max(other)).into());
        }
        on!(&mut frames.0, it => it.swap(one, other));
        Ok(())
    })
}
