//! Memory read without faults, and the pages behind it.

use crate::answer::Argument;
use crate::error::vmalloc_error;
use crate::space::{on, vmalloc_space};
use crate::stats::tell_if_asked;
use libc::{c_int, c_void};
use vmalloc_linux::FreeError;

/// Copies `count` bytes at `addr` to `buffer`: mapped memory of areas, and zeros for the rest. It
/// never faults, whatever is freed meanwhile. `*copied`, which may be `NULL`, becomes the number of
/// bytes that were mapped.
///
/// # Safety
/// `buffer` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_read(
    space: *const vmalloc_space,
    addr: *const c_void,
    buffer: *mut c_void,
    count: usize,
    copied: *mut usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        if buffer.is_null() {
            return Err(Argument::Null.into());
        }
        if count > isize::MAX as usize {
            return Err(Argument::Count(count).into());
        }
        // SAFETY: the caller has room for as many bytes, which are made values first.
        let to = unsafe {
            buffer.cast::<u8>().write_bytes(0, count);
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count)
        };
        let mapped = on!(&space.0, it => it.read(addr.addr(), to));
        // SAFETY: the conditions of every call.
        unsafe { tell_if_asked(copied, mapped) };
        Ok(())
    })
}

/// Tells the number of the physical page behind `addr`, which the kernel shows to privileged
/// programs only. It answers `-ENOENT` where it is not told.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_physical_page(
    space: *const vmalloc_space,
    addr: *const c_void,
    page: *mut u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        if page.is_null() {
            return Err(Argument::Null.into());
        }
        let found = on!(&space.0, it => it.physical_page(addr.addr()));
        match found {
            // SAFETY: the conditions of every call.
            Some(found) => unsafe { page.write(found) },
            None if on!(&space.0, it => it.find(addr.addr())).is_none() => {
                return Err(FreeError::NotAnArea { addr: addr.addr() }.into());
            }
            None => return Err(vmalloc_linux::AreaError::NotMapped { addr: addr.addr() }.into()),
        }
        Ok(())
    })
}
