//! Children of forks, and memory that may trap.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Seconds after which a child is ended: one that hangs must not hang its test.
const PATIENCE_S: u32 = 120;

/// Runs `body` in a child of a fork, and returns the wait status with which that ends: 0 if `body`
/// returns true.
///
/// The child has one thread. It runs `body` alone, which keeps to what works after a fork, and no
/// destructor behind it.
///
/// # Panics
/// When the fork fails.
pub fn status_of_child(body: impl FnOnce() -> bool) -> c_int {
    // SAFETY: see above.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a fork failed");
    if child == 0 {
        // SAFETY: no conditions.
        unsafe { libc::alarm(PATIENCE_S) };
        let well = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: no conditions.
        unsafe { libc::_exit(c_int::from(!well)) };
    }
    let mut status = 0;
    // SAFETY: room for a status; the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Runs `body` in a child, as [`status_of_child`] does, and waits for it to end well.
///
/// # Panics
/// When `body` returns false or panics there, or the child dies.
#[track_caller]
pub fn in_forked_child(body: impl FnOnce() -> bool) {
    let status = status_of_child(body);
    assert_eq!(status, 0, "the child ended with wait status {status:#x}");
}

/// Runs `body` in a child, as [`status_of_child`] does. Returns what that wrote to standard error,
/// and its wait status.
///
/// # Panics
/// When there is no pipe, or the text is none.
pub fn output_of_child(body: impl FnOnce()) -> (String, c_int) {
    let (mut read, write) = io::pipe().expect("two descriptors");
    let status = status_of_child(|| {
        // SAFETY: both are open; no core file is wanted of the child.
        unsafe {
            libc::dup2(write.as_raw_fd(), libc::STDERR_FILENO);
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
        }
        body();
        true
    });
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).expect("a text");
    (text, status)
}

/// Returns the byte at `addr`; `None` where touching it traps. The kernel touches it for us: a
/// system call that is given an address that traps fails with `EFAULT`.
///
/// # Panics
/// When there is no pipe, or the kernel refuses for another reason.
pub fn peek(addr: usize) -> Option<u8> {
    let (mut read, write) = io::pipe().expect("two descriptors");
    // SAFETY: the kernel checks the address.
    let written = unsafe { libc::write(write.as_raw_fd(), ptr::with_exposed_provenance(addr), 1) };
    if written != 1 {
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
        return None;
    }
    let mut byte = [0];
    read.read_exact(&mut byte).expect("it was written");
    Some(byte[0])
}

/// Returns how many pages of a range of addresses have memory, as the kernel counts them.
///
/// # Panics
/// When they are not all mapped.
pub fn resident(range: Range<usize>) -> usize {
    // SAFETY: it only tells.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut present = vec![0_u8; range.len().div_ceil(page_bytes)];
    let start = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the answer has room for each page. The kernel only looks.
    let answer = unsafe { libc::mincore(start, range.len(), present.as_mut_ptr()) };
    assert_eq!(answer, 0, "{:#x} is not mapped", range.start);
    present.iter().filter(|&&page| page & 1 != 0).count()
}
