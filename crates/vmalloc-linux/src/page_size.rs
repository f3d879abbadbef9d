//! The size of a page, which Linux tells when it runs.

/// Returns the bytes of a page of this machine: those of every page of a space of this platform.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: no condition. This question has an answer on every Linux.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
