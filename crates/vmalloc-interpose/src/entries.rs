//! The symbols that take the place of the C library's.

use crate::kernel::{self, Answer, Change, Map, Remap};
use crate::{change, mapping, moving, state};
use libc::{c_int, c_uchar, c_uint, c_void, off_t, size_t};
use std::ptr;
use vmalloc_preload_base::set_errno;

/// Turns an answer into that of the C library, for calls that return an address.
fn addressed(answer: Answer) -> *mut c_void {
    match answer {
        Ok(addr) => ptr::with_exposed_provenance_mut(addr),
        Err(code) => {
            set_errno(code);
            libc::MAP_FAILED
        }
    }
}

/// Turns an answer into that of the C library, for calls that return 0.
fn done(answer: Answer) -> c_int {
    match answer {
        Ok(value) => value as c_int,
        Err(code) => {
            set_errno(code);
            -1
        }
    }
}

/// Maps memory, as mmap(2).
///
/// # Safety
/// That of mmap(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap(
    addr: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    addressed(unsafe { mapping::mmap(&Map { addr: addr.addr(), len, access, flags, file, offset }) })
}

/// Maps memory, as mmap(2), by its name for files of any size.
///
/// # Safety
/// That of mmap(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap64(
    addr: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(addr, len, access, flags, file, offset) }
}

/// Unmaps memory, as munmap(2).
///
/// # Safety
/// That of munmap(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(addr: *mut c_void, len: size_t) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { mapping::munmap(addr.addr(), len) })
}

/// Resizes or moves a mapping, as mremap(2). C declares the last argument as one that may be left
/// out; only `MREMAP_FIXED` and `MREMAP_DONTUNMAP` look at it.
///
/// # Safety
/// That of mremap(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mremap(
    addr: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let remap = Remap { addr: addr.addr(), old, new, flags, to: to.addr() };
    // SAFETY: the caller's promise.
    addressed(unsafe { moving::mremap(&remap) })
}

/// Sets the access to pages, as mprotect(2).
///
/// # Safety
/// That of mprotect(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mprotect(addr: *mut c_void, len: size_t, access: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { change::change(addr.addr(), len, Change::Protect(access)) })
}

/// Sets the access to pages and their key, as pkey_mprotect(2).
///
/// # Safety
/// That of pkey_mprotect(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pkey_mprotect(
    addr: *mut c_void,
    len: size_t,
    access: c_int,
    key: c_int,
) -> c_int {
    // As in the C library: without a key it is mprotect(2), also where there are no keys.
    let change = if key == -1 { Change::Protect(access) } else { Change::ProtectWithKey(access, key) };
    // SAFETY: the caller's promise.
    done(unsafe { change::change(addr.addr(), len, change) })
}

/// Gives advice about pages, as madvise(2).
///
/// # Safety
/// That of madvise(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(addr: *mut c_void, len: size_t, advice: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { change::change(addr.addr(), len, Change::Advise(advice)) })
}

/// Gives advice about pages, as posix_madvise(3): it answers with the code of an error.
///
/// # Safety
/// No conditions: the content stays.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_madvise(addr: *mut c_void, len: size_t, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        // As in the C library: advice that may be ignored, where madvise(2) drops the content.
        return 0;
    }
    // SAFETY: no conditions.
    unsafe { change::change(addr.addr(), len, Change::Advise(advice)) }.err().unwrap_or(0)
}

/// Locks pages in memory, as mlock(2).
///
/// # Safety
/// No conditions: the content stays.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlock(addr: *const c_void, len: size_t) -> c_int {
    // SAFETY: no conditions.
    done(unsafe { change::change(addr.addr(), len, Change::Lock) })
}

/// Locks pages in memory, as mlock2(2).
///
/// # Safety
/// No conditions: the content stays.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlock2(addr: *const c_void, len: size_t, flags: c_uint) -> c_int {
    // As in the C library, which has mlock(2) where this is missing.
    let change = if flags == 0 { Change::Lock } else { Change::LockWith(flags as c_int) };
    // SAFETY: no conditions.
    done(unsafe { change::change(addr.addr(), len, change) })
}

/// Unlocks pages, as munlock(2).
///
/// # Safety
/// No conditions: the content stays.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munlock(addr: *const c_void, len: size_t) -> c_int {
    // SAFETY: no conditions.
    done(unsafe { change::change(addr.addr(), len, Change::Unlock) })
}

/// Locks all pages, as mlockall(2). From then on all mappings are the kernel's.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    state::stop();
    done(kernel::mlockall(flags))
}

/// Writes pages back, as msync(2).
///
/// # Safety
/// That of msync(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn msync(addr: *mut c_void, len: size_t, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { change::change(addr.addr(), len, Change::Sync(flags)) })
}

/// Tells which pages are resident, as mincore(2).
///
/// # Safety
/// As many bytes as there are pages may be written at `answers`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mincore(addr: *mut c_void, len: size_t, answers: *mut c_uchar) -> c_int {
    let change = Change::Residency(answers.expose_provenance());
    // SAFETY: the caller's promise.
    done(unsafe { change::change(addr.addr(), len, change) })
}

/// Returns the reservation, for tests: its first address and, where `bytes` is not null, its size.
/// The address is 0 before the first mapping was served.
///
/// # Safety
/// `bytes` is null or may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vmalloc_mmap_reservation(bytes: *mut size_t) -> *mut c_void {
    let (base, size) = state::reservation().map_or((0, 0), crate::pages::bytes_of);
    // SAFETY: the caller's promise.
    if let Some(bytes) = unsafe { bytes.as_mut() } {
        *bytes = size;
    }
    ptr::with_exposed_provenance_mut(base)
}
