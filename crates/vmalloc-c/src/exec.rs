//! Memory for code, and protection of areas.

use crate::answer::{Argument, Refusal, given};
use crate::error::vmalloc_error;
use crate::options::{self, vmalloc_request};
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};
use vmalloc_linux::Protection;

/// Memory that may be read and written.
pub const VMALLOC_READ_WRITE: u32 = 0;
/// Memory that may be read.
pub const VMALLOC_READ: u32 = 1;
/// Memory that may be read and executed.
pub const VMALLOC_READ_EXECUTE: u32 = 2;

/// Returns the protection of this number.
pub(crate) fn protection(number: u32) -> Result<Protection, Refusal> {
    match number {
        VMALLOC_READ_WRITE => Ok(Protection::ReadWrite),
        VMALLOC_READ => Ok(Protection::Read),
        VMALLOC_READ_EXECUTE => Ok(Protection::ReadExecute),
        other => Err(Argument::Value(other).into()),
    }
}

/// Allocates zeroed memory that is writable at first, and can be made executable. It is never
/// cached. `vmalloc_free` frees it.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_exec(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space, request = options::request(request) => {
        on!(&space.0, it => Ok(it.raw().alloc_exec(&request)?))
    })
}

/// Changes what may be done with an area of `vmalloc_alloc_exec` or `vmalloc_map_frames`:
/// `VMALLOC_READ_WRITE`, `VMALLOC_READ` or `VMALLOC_READ_EXECUTE`. On return it holds for every
/// CPU.
///
/// # Safety
/// The area is the caller's. The program does nothing with it that is not allowed any more. Bytes
/// that are made executable are code for this machine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_protect(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    protection: u32,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail => {
        // SAFETY: the conditions of every call.
        let (space, protection) = (unsafe { given(space) }?, self::protection(protection)?);
        // SAFETY: the caller's condition.
        on!(&space.0, it => Ok(unsafe { it.raw().protect(memory.addr(), protection) }?))
    })
}
