//! What `/proc` tells a process of a test: less than the machine's, or nothing.
#![allow(unsafe_code)]

use crate::not_run;
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{Error, Result};
use std::os::unix::ffi::OsStringExt;
use std::process;
use std::ptr;

/// `vm.max_map_count` of most machines. A process gets there in a second.
const FEW: u64 = 65_530;
/// At a limit of a million, tests of the kernel's own refusals take minutes: each counts mappings.
const MANY: u64 = 1 << 17;
const MAX_MAP_COUNT: &CStr = c"/proc/sys/vm/max_map_count";

/// Returns `vm.max_map_count`. Where the machine's takes a test long to reach, `/proc` tells this
/// process a smaller one from here on. `None` where that is not allowed.
///
/// The kernel's own limit stays what it is. For tests in processes of their own.
///
/// # Panics
/// If `/proc` does not tell, or if no file can be written.
#[must_use]
pub fn map_limit() -> Option<u64> {
    let max = told_limit();
    if max <= FEW {
        return Some(max);
    }
    let file = std::env::temp_dir().join(format!("vmalloc-map-limit-{}", process::id()));
    fs::write(&file, format!("{FEW}\n")).expect("a file of the test");
    let from = CString::new(file.clone().into_os_string().into_vec()).expect("a path has no NUL");
    let told = private_mounts().and_then(|()| mount(&from, MAX_MAP_COUNT, libc::MS_BIND));
    fs::remove_file(file).expect("the test's file is there");
    match told {
        Ok(()) => Some(told_limit()),
        Err(error) => {
            not_run(
                "the limit on mappings",
                format_args!("it is {max}, and no smaller one can be told: {error}"),
            );
            None
        }
    }
}

/// Returns the limit at which the kernel refuses mappings; `None` where that takes too long to reach.
///
/// # Panics
/// If `/proc` does not tell.
#[must_use]
pub fn kernel_map_limit() -> Option<u64> {
    let max = told_limit();
    if max > MANY {
        not_run("the kernel's limit on mappings", format_args!("{max} mappings would take too long"));
    }
    (max <= MANY).then_some(max)
}

fn told_limit() -> u64 {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").expect("/proc tells the limit");
    text.trim().parse().expect("the limit is a number")
}

/// Takes `/proc` away from this process. Returns false where that is not allowed.
#[must_use]
pub fn without_proc() -> bool {
    // SAFETY: the path is a C string.
    let detach = || answered(unsafe { libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH) });
    let done = private_mounts().and_then(|()| detach());
    if let Err(error) = &done {
        not_run("without_proc", format_args!("/proc can't be unmounted: {error}"));
    }
    done.is_ok() && !fs::exists("/proc/self").unwrap_or(false)
}

/// Gives this process a view of the mounts of its own. What changes there no other process sees.
fn private_mounts() -> Result<()> {
    // SAFETY: this call takes no memory of ours.
    answered(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)
}

fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> Result<()> {
    // SAFETY: the paths are C strings, and no file system reads the two null pointers.
    answered(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), ptr::null(), flags, ptr::null()) })
}

fn answered(result: libc::c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
