//! The error number of a thread.

use libc::c_int;

/// Returns `errno`.
#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
#[inline]
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = code };
}

/// Puts `errno` back to its value of before, when this is dropped.
pub(crate) struct SavedErrno(c_int);

impl SavedErrno {
    /// Remembers `errno`.
    #[inline]
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for SavedErrno {
    #[inline]
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_is_put_back() {
        set_errno(libc::EXDEV);
        let saved = SavedErrno::new();
        set_errno(libc::EPERM);
        drop(saved);
        assert_eq!(errno(), libc::EXDEV);
    }
}
