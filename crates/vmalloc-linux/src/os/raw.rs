//! System calls without the C library.
//!
//! A library to preload may stand in for any function of the C library, and allocate there. Here
//! such a call is made with locks held, for which that allocation would wait. So every call that is
//! made under a lock goes to the kernel itself: through rustix, which does so, or through here for
//! what rustix does not have.

use libc::c_long;
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::ptr;

/// The kernel answers with the negative number of an error, from -1 down to here (`MAX_ERRNO` in
/// `linux/err.h`): no page size.
const LAST_ERROR: i32 = -4095;

/// Makes system call `number`. Arguments that it does not have are ignored.
///
/// # Safety
/// What the kernel does with these arguments is allowed: where they are addresses, the caller may
/// let it read and write there.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let answer = unsafe { ask(number, arguments) };
    match i32::try_from(answer) {
        Ok(answer @ LAST_ERROR..=-1) => Err(Errno::from_raw_os_error(-answer)),
        _ => Ok(answer as usize),
    }
}

/// A descriptor that the kernel itself is asked to close. The drop of an [`OwnedFd`] calls the C
/// library.
#[derive(Debug)]
pub(crate) struct Opened(RawFd);

impl From<OwnedFd> for Opened {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor.into_raw_fd())
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open until this is dropped.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: taken from its owner, for this alone.
        unsafe { rustix::io::close(self.0) };
    }
}

/// Makes an ioctl(2) that exchanges a `T`.
///
/// # Safety
/// `argument` is the structure that `request` exchanges. What the call does beside is allowed.
pub(crate) unsafe fn ioctl<T>(fd: RawFd, request: u32, argument: &mut T) -> Result<usize, Errno> {
    let argument = ptr::from_mut(argument).expose_provenance();
    // SAFETY: the kernel reads and writes a `T`. What else it does is the caller's promise.
    unsafe { call(libc::SYS_ioctl, [fd as usize, request as usize, argument, 0, 0, 0]) }
}

/// # Safety
/// That of [`call`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn ask(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let answer;
    // SAFETY: the registers are those of syscall(2), which changes rcx and r11 beside the answer.
    // What the kernel does in memory is the caller's promise.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// # Safety
/// That of [`call`].
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
unsafe fn ask(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let answer;
    // SAFETY: the registers are those of syscall(2), which changes none beside the answer. What the
    // kernel does in memory is the caller's promise.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => answer,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// Asks the C library, on other machines and for Miri. No library to preload is built there.
///
/// # Safety
/// That of [`call`].
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn ask(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if answer == -1 { -(error() as isize) } else { answer as isize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows few system calls by number")]
    fn answers_are_numbers_and_errors() {
        // SAFETY: neither call touches memory.
        let (process, closed) =
            unsafe { (call(libc::SYS_getpid, [0; 6]), call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0])) };
        assert_eq!(process, Ok(std::process::id() as usize));
        assert_eq!(closed, Err(Errno::BADF));
    }
}
