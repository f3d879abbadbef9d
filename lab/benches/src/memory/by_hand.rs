//! The kernel's calls, as programs make them by hand, and what it tells of interrupts and mappings.

use libc::{c_int, c_void, iovec};
use std::fs;
use std::ops::Range;
use std::ptr;

/// Bytes in a page.
pub const PAGE: usize = 4096;
/// The most ranges of one call of process_madvise(2).
pub const VECTOR_MAX: usize = 1024;
/// `PIDFD_SELF_THREAD_GROUP` in `linux/pidfd.h`.
const SELF: c_int = -10_000;

/// Addresses of a mapping of the kernel's, which ends when this is dropped.
#[derive(Debug)]
pub struct Mapped {
    addr: usize,
    bytes: usize,
}

impl Mapped {
    /// Maps so many bytes of memory of the program's own, which may be touched as `access` says.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn new(bytes: usize, access: c_int) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let addr = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        assert_ne!(addr, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self { addr: addr.expose_provenance(), bytes }
    }

    /// Returns the address of the first byte.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Changes the access to a part of it.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn protect(&self, part: Range<usize>, access: c_int) {
        assert!(part.start >= self.addr && part.end <= self.addr + self.bytes, "it is a part");
        let start = ptr::with_exposed_provenance_mut::<c_void>(part.start);
        // SAFETY: the part is of this mapping, which is no memory of Rust's.
        let answer = unsafe { libc::mprotect(start, part.len(), access) };
        assert_eq!(answer, 0, "mprotect: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and of no use to anything any more.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.addr), self.bytes) };
    }
}

/// Drops the pages of one range.
///
/// # Safety
/// The range is of a mapping of the caller's, which does not need its content.
///
/// # Panics
/// When the kernel refuses.
pub unsafe fn drop_range(range: &Range<usize>) {
    let start = ptr::with_exposed_provenance_mut::<c_void>(range.start);
    // SAFETY: the caller's promise.
    let answer = unsafe { libc::madvise(start, range.len(), libc::MADV_DONTNEED) };
    assert_eq!(answer, 0, "madvise: {}", std::io::Error::last_os_error());
}

/// Drops the pages of many ranges, [`VECTOR_MAX`] at most, by one call. Returns false if this
/// kernel does not have it.
///
/// # Safety
/// As for [`drop_range`], for each of them.
pub unsafe fn drop_ranges(ranges: &[Range<usize>]) -> bool {
    let run = |range: &Range<usize>| iovec {
        iov_base: ptr::with_exposed_provenance_mut(range.start),
        iov_len: range.len(),
    };
    let runs: Vec<iovec> = ranges.iter().map(run).collect();
    let (runs, count, advice) = (runs.as_ptr(), runs.len(), libc::MADV_DONTNEED);
    // SAFETY: the kernel reads the array, as long as it is; the rest is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, SELF, runs, count, advice, 0) };
    done as usize == ranges.iter().map(Range::len).sum::<usize>()
}

/// Writes the first byte of each page of a range.
///
/// # Safety
/// It is writable memory with exposed provenance, which nothing else uses.
#[inline]
pub unsafe fn touch(range: &Range<usize>) {
    for addr in range.clone().step_by(PAGE) {
        // SAFETY: the caller's promise. Volatile, as the byte is never read.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(addr).write_volatile(1) };
    }
}

/// Fills a range with zeros.
///
/// # Safety
/// As for [`touch`].
pub unsafe fn clear(range: &Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(range.start).write_bytes(0, range.len()) };
}

/// Returns how many interrupts to flush translations all CPUs have had, of all programs. 0 where
/// the machine does not tell.
pub fn flush_interrupts() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("TLB:")).unwrap_or_default();
    line.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum()
}

/// Returns how many mappings the kernel has for this program.
pub fn kernel_mappings() -> usize {
    fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}
