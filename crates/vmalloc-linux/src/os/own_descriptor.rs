//! A descriptor that belongs to the calling process: after a fork the child opens its own.

use crate::fork::locks;
use rustix::fd::{IntoRawFd, OwnedFd, RawFd};
use rustix::fs::{CWD, readlinkat_raw};
use rustix::io::Errno;
use rustix::process::getpid;
use std::ffi::CStr;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a process's number: Linux gives none above 2²².
const PID_BITS: u32 = 22;

/// A descriptor of the calling process, opened when it is first needed.
///
/// One word: the process in the upper half, its descriptor in the lower. The process is its number
/// and the generation of forks, since a child in a new PID namespace may have its parent's number.
/// The child of a fork sees that the descriptor is not its own, and opens another.
#[derive(Debug)]
pub(crate) struct OwnDescriptor {
    word: AtomicU64,
    open: fn() -> Result<OwnedFd, Errno>,
    is_its_name: fn(&[u8]) -> bool,
}

impl OwnDescriptor {
    /// Makes one that `open` opens, and that has a name in `/proc/self/fd` by which it is told from
    /// files of the program.
    pub(crate) const fn new(open: fn() -> Result<OwnedFd, Errno>, is_its_name: fn(&[u8]) -> bool) -> Self {
        Self { word: AtomicU64::new(0), open, is_its_name }
    }

    /// Returns the descriptor of this process.
    pub(crate) fn get(&self) -> Result<RawFd, Errno> {
        // Relaxed: nothing but the word is published. A system call, as the C library no longer
        // caches the number, but a cheap one.
        let (process, word) = (process(), self.word.load(Ordering::Relaxed));
        if word >> 32 == process {
            return Ok(word as u32 as RawFd);
        }
        self.reopen(process, word)
    }

    #[cold]
    fn reopen(&self, process: u64, stale: u64) -> Result<RawFd, Errno> {
        let opened = (self.open)()?.into_raw_fd();
        let word = process << 32 | u64::from(opened as u32);
        match self.word.compare_exchange(stale, word, Ordering::Relaxed, Ordering::Relaxed) {
            // The parent's descriptor stays open in the child: the program may have closed all
            // descriptors after the fork and opened others, and its number may be one of theirs by
            // now.
            Ok(_) => Ok(opened),
            // Another thread of this process was faster: its descriptor is as good.
            Err(theirs) => {
                // SAFETY: opened above, and no other thread has seen it.
                unsafe { rustix::io::close(opened) };
                Ok(theirs as u32 as RawFd)
            }
        }
    }
}

impl Drop for OwnDescriptor {
    fn drop(&mut self) {
        let word = *self.word.get_mut();
        let descriptor = word as u32 as RawFd;
        // Where the program has closed it, the number may be a file's by now.
        if word >> 32 == process() && is_named(descriptor, self.is_its_name) {
            // SAFETY: opened by this process, for this alone.
            unsafe { rustix::io::close(descriptor) };
        }
    }
}

/// Returns true if `descriptor` is open and its name in `/proc/self/fd` is one of those that
/// `is_name` knows, or the system refuses to tell. False where `/proc` is missing: a descriptor
/// that stays open does less harm than a file of the program's that is closed.
pub(crate) fn is_named(descriptor: RawFd, is_name: impl FnOnce(&[u8]) -> bool) -> bool {
    if descriptor < 0 {
        return false;
    }
    let (mut path, mut link) = ([0_u8; 32], [0_u8; 64]);
    // The buffer has room for any number, and a zero behind it.
    let _ = write!(&mut path[..31], "/proc/self/fd/{descriptor}");
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    match readlinkat_raw(CWD, path, &mut link) {
        Ok(len) => is_name(&link[..len]),
        Err(errno) => errno != Errno::NOENT,
    }
}

/// Returns a number of this process that no other has that shares memory with it by forks, and that
/// is never 0.
pub(crate) fn process() -> u64 {
    let pid = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    (pid | locks::generation() << PID_BITS) & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, pidfd_open};

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no pidfd_open")]
    fn a_descriptor_is_opened_by_the_process_that_asks() {
        let own = OwnDescriptor::new(|| pidfd_open(getpid(), PidfdFlags::empty()), |_| true);
        let first = own.get().unwrap();
        assert_eq!(own.get(), Ok(first));
        // As a forked child finds it: a word of another process.
        let stale = own.word.load(Ordering::Relaxed) ^ 1 << 40;
        own.word.store(stale, Ordering::Relaxed);
        let second = own.get().unwrap();
        assert_eq!(own.get(), Ok(second));
        assert_ne!(first, second, "the first is another process's");
    }
}
