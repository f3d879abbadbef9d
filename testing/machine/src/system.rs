//! Calls that only the first process of a machine makes.
//!
//! The crate rustix has them as features, which all crates of the workspace would get then.

use std::ffi::CString;
use std::io;

/// Mounts a file system without a device at a folder.
pub(crate) fn mount(folder: &str, kind: &str) -> io::Result<()> {
    let (folder, kind) = (CString::new(folder)?, CString::new(kind)?);
    // SAFETY: the texts end with a zero and outlive the call; a null pointer stands for no data.
    answer(unsafe { libc::mount(kind.as_ptr(), folder.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })
}

/// Unmounts a file system. Programs that have files of it open go on with them.
pub(crate) fn unmount(folder: &str) -> io::Result<()> {
    let folder = CString::new(folder)?;
    // SAFETY: the text ends with a zero and outlives the call.
    answer(unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) })
}

/// Turns the machine off. Returns only with an error.
pub(crate) fn turn_off() -> io::Error {
    // SAFETY: no memory is handed over.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    io::Error::last_os_error()
}

fn answer(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
