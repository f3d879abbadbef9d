//! Stacks that grow.

use crate::answer::{self, given, given_mut};
use crate::error::vmalloc_error;
use crate::input;
use crate::stacks::vmalloc_stacks;
use ::vmalloc_stacks::Growable;
use libc::{c_char, c_int, c_void};

/// A stack with memory behind its top part, which grows when the program says so.
pub struct vmalloc_growable(Growable);

/// Makes a stack that begins with `first` bytes of memory and can grow to `most`. With `first` 0 it
/// has none before the first `vmalloc_growable_grow`. `name` may be `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_new(
    stacks: *mut vmalloc_stacks,
    first: usize,
    most: usize,
    name: *const c_char,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_growable {
    call!(handle, detail; stacks, name = input::name(name) => {
        let request = stacks.0.request().bytes(first);
        Ok(vmalloc_growable(name.map_or(request, |name| request.name(name)).growable(most)?))
    })
}

/// Ends a growable stack. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more, and nothing runs on the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_free(stack: *mut vmalloc_growable) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(stack) };
}

/// Returns the address behind the highest byte, or `NULL` for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_top(stack: *const vmalloc_growable) -> *mut c_void {
    // SAFETY: the conditions of every call.
    let top = unsafe { given(stack) }.map_or(0, |stack| stack.0.top());
    std::ptr::with_exposed_provenance_mut(top)
}

/// Returns how many bytes below the top are memory, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_size(stack: *const vmalloc_growable) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(stack) }.map_or(0, |stack| stack.0.len())
}

/// Grows a stack to `bytes`, rounded up to pages: also the code that runs on it may call this. It
/// changes nothing if the stack has as much. It answers `-EBUSY` if another thread grows it at this
/// moment.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_grow(
    stack: *mut vmalloc_growable,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; stack => Ok(stack.0.grow(bytes)?))
}

/// Takes the memory below the top `bytes`, rounded up to pages, away. An access there traps.
///
/// # Safety
/// Nothing on the stack below that is needed, and no other thread uses the handle meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_growable_shrink(
    stack: *mut vmalloc_growable,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    // SAFETY: the caller's condition.
    call!(code, detail; stack = given_mut(stack) => Ok(unsafe { stack.0.shrink(bytes) }?))
}
