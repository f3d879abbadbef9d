//! The words that freed areas begin with, while they wait on a stack through themselves.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Reads the word at `addr`.
///
/// # Safety
/// It can be read, its provenance is exposed, and no thread writes it meanwhile.
#[inline]
pub unsafe fn word_at(addr: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { with_exposed_provenance::<usize>(addr).read() }
}

/// Writes the word at `addr`.
///
/// # Safety
/// It can be written, its provenance is exposed, and no other thread uses it meanwhile.
#[inline]
pub unsafe fn set_word_at(addr: usize, value: usize) {
    // SAFETY: the caller's promise.
    unsafe { with_exposed_provenance_mut::<usize>(addr).write(value) }
}
