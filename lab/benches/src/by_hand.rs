//! The kernel's calls, as programs make them by hand, and what it tells of interrupts and mappings.

use libc::{c_int, c_void, iovec};
use rustix::io;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::fs;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::{self, with_exposed_provenance_mut};

/// Bytes in a page.
pub const PAGE: usize = 4096;
/// What a program may do with memory that it uses.
pub const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
/// The most ranges of one call of process_madvise(2).
const VECTOR_MAX: usize = 1024;
/// `PIDFD_SELF_THREAD_GROUP` in `linux/pidfd.h`.
const SELF: c_int = -10_000;
/// `MADV_GUARD_INSTALL` in `linux/mman.h`.
const GUARD_INSTALL: c_int = 102;

/// Addresses of a mapping of the kernel's, which ends when this is dropped.
#[derive(Debug)]
pub struct Mapped {
    addr: usize,
    bytes: usize,
}

impl Mapped {
    /// Maps so many bytes of memory of the program's own, which may be touched as `access` says.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(bytes: usize, access: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) }?;
        Ok(Self { addr: base.expose_provenance(), bytes })
    }

    /// Returns the address of the first byte.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Returns the address behind the last byte.
    pub fn end(&self) -> usize {
        self.addr + self.bytes
    }

    /// Lets it stay mapped, and returns its address.
    pub fn leak(self) -> usize {
        ManuallyDrop::new(self).addr
    }

    /// Takes a mapping back from [`leak`](Self::leak).
    ///
    /// # Safety
    /// It is taken back once, and has so many bytes.
    pub unsafe fn leaked(addr: usize, bytes: usize) -> Self {
        Self { addr, bytes }
    }

    /// Changes the access to a part of it.
    ///
    /// # Errors
    /// When the kernel refuses: a part is a mapping more.
    pub fn protect(&self, part: Range<usize>, access: MprotectFlags) -> io::Result<()> {
        // SAFETY: the part is of this mapping, which is no memory of Rust's.
        unsafe { mprotect(self.part(&part), part.len(), access) }
    }

    /// Marks a part of it as a guard, without a mapping more (Linux 6.13). Returns false if this
    /// kernel has no marks.
    pub fn mark_guard(&self, part: Range<usize>) -> bool {
        // SAFETY: as in `protect`.
        unsafe { libc::madvise(self.part(&part), part.len(), GUARD_INSTALL) == 0 }
    }

    fn part(&self, part: &Range<usize>) -> *mut c_void {
        assert!(part.start >= self.addr && part.end <= self.end(), "it is a part");
        with_exposed_provenance_mut(part.start)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and of no use to anything any more.
        unsafe { munmap(with_exposed_provenance_mut(self.addr), self.bytes) }.expect("a mapping to unmap");
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
    let start = with_exposed_provenance_mut::<c_void>(range.start);
    // SAFETY: the caller's promise.
    let answer = unsafe { libc::madvise(start, range.len(), libc::MADV_DONTNEED) };
    assert_eq!(answer, 0, "madvise: {}", std::io::Error::last_os_error());
}

/// Drops the pages of many ranges, 1024 at most, by one call of process_madvise(2).
///
/// # Safety
/// As for [`drop_range`], for each of them.
///
/// # Panics
/// When the kernel refuses.
pub unsafe fn drop_ranges(ranges: &[Range<usize>]) {
    debug_assert!(ranges.len() <= VECTOR_MAX);
    let run = |range: &Range<usize>| iovec {
        iov_base: with_exposed_provenance_mut(range.start),
        iov_len: range.len(),
    };
    let runs: Vec<iovec> = ranges.iter().map(run).collect();
    let (runs, count, advice) = (runs.as_ptr(), runs.len(), libc::MADV_DONTNEED);
    // SAFETY: the kernel reads the array, as long as it is; the rest is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, SELF, runs, count, advice, 0) };
    assert_eq!(done as usize, ranges.iter().map(Range::len).sum::<usize>(), "process_madvise");
}

/// Writes the first byte of each page of a range.
///
/// # Safety
/// It is writable memory with exposed provenance, which nothing else uses.
#[inline]
pub unsafe fn touch(range: Range<usize>) {
    for addr in range.step_by(PAGE) {
        // SAFETY: the caller's promise. Volatile, as the byte is never read.
        unsafe { with_exposed_provenance_mut::<u8>(addr).write_volatile(1) };
    }
}

/// Fills a range with zeros.
///
/// # Safety
/// As for [`touch`].
pub unsafe fn clear(range: &Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { with_exposed_provenance_mut::<u8>(range.start).write_bytes(0, range.len()) };
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

/// Returns the KiB in a line of a file below /proc/self; 0 where the kernel does not tell.
pub(crate) fn kib(file: &str, line: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|it| it.strip_prefix(line));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
