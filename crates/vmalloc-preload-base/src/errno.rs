//! The error number of a thread.

use libc::c_int;

/// Returns `errno`.
#[inline]
#[must_use]
pub fn errno() -> c_int {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
#[inline]
pub fn set_errno(code: c_int) {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = code };
}

/// Puts `errno` back to its value of before, when this is dropped.
#[derive(Debug)]
pub struct SavedErrno(c_int);

impl SavedErrno {
    /// Remembers `errno`.
    #[inline]
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
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
