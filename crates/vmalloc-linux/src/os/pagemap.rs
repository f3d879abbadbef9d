//! What proc_pid_pagemap(5) tells: frame numbers to privileged programs, and to each program which
//! of its pages were used (`PAGEMAP_SCAN`, Linux 6.7).

use crate::fork::locks;
use crate::os::own_descriptor::OwnDescriptor;
use crate::os::raw::{Opened, ioctl};
use libc::iovec;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Bits 0–54: the frame number; all zero for a program without `CAP_SYS_ADMIN`.
const FRAME: u64 = (1 << 55) - 1;
/// Bit 63: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// `_IOWR('f', 16, struct pm_scan_arg)`, see `linux/fs.h`.
const PAGEMAP_SCAN: u32 = 0xc060_6610;
/// Categories of pages: in memory, in swap, the page of zeros that a read has put there.
const IN_MEMORY: u64 = 1 << 3;
const IN_SWAP: u64 = 1 << 4;
const OF_ZEROS: u64 = 1 << 5;

/// Runs that one call returns.
const RUNS: usize = 64;

/// The question of a scan, `struct pm_scan_arg`.
#[repr(C)]
#[derive(Debug)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    /// Written by the kernel: where it stopped.
    walk_end: u64,
    runs: u64,
    runs_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// A run of bytes in the answer, `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresentRun {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

/// The page map of the calling process.
#[derive(Debug)]
pub(crate) struct Pagemap(OwnDescriptor);

impl Default for Pagemap {
    fn default() -> Self {
        Self(OwnDescriptor::new(open, |name| name.starts_with(b"/proc/") && name.ends_with(b"/pagemap")))
    }
}

impl Pagemap {
    /// Calls `found` with the runs of pages in `bytes` that were written, or may have been, and
    /// are in memory or in swap. `bytes` begins and ends at a page.
    ///
    /// # Errors
    /// When this kernel or sandbox does not tell. Some runs may have been found before.
    pub(crate) fn written(&self, bytes: iovec, mut found: impl FnMut(PresentRun)) -> Result<(), Errno> {
        let mut answer = [PresentRun { start: 0, end: 0, categories: 0 }; RUNS];
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start: bytes.iov_base.addr() as u64,
            end: (bytes.iov_base.addr() + bytes.iov_len) as u64,
            walk_end: 0,
            runs: answer.as_mut_ptr().expose_provenance() as u64,
            runs_len: RUNS as u64,
            max_pages: 0,
            inverted: OF_ZEROS,
            all_of: OF_ZEROS,
            any_of: IN_MEMORY | IN_SWAP,
            returned: IN_MEMORY,
        };
        while scan.start < scan.end {
            let generation = locks::generation();
            let descriptor = self.0.get()?;
            // SAFETY: the kernel reads and writes `scan`, which is as large as it says, and writes
            // at most `runs_len` elements of `answer`. A descriptor that has become another file's
            // answers with an error.
            let count = unsafe { ioctl(descriptor, PAGEMAP_SCAN, &mut scan) };
            if locks::generation() != generation {
                // The handler of a signal has forked, and this is the child: the descriptor may
                // tell of the parent.
                continue;
            }
            answer.iter().take(count?).for_each(|run| found(*run));
            if scan.walk_end <= scan.start {
                return Err(Errno::IO);
            }
            scan.start = scan.walk_end;
        }
        Ok(())
    }
}

fn open() -> Result<OwnedFd, Errno> {
    rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the frame behind `page`; `None` when no page is there, or the kernel does not tell.
pub(crate) fn frame(page: u64) -> Option<u64> {
    // Opened each time: after a fork the old file would be that of the parent.
    let file = Opened::from(open().ok()?);
    let mut entry = [0; size_of::<u64>()];
    let read = rustix::io::pread(&file, &mut entry, page * size_of::<u64>() as u64).ok()?;
    decode(u64::from_ne_bytes(entry)).filter(|_| read == size_of::<u64>())
}

fn decode(entry: u64) -> Option<u64> {
    let frame = entry & FRAME;
    (entry & PRESENT != 0 && frame != 0).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_present_pages_with_a_number_have_a_frame() {
        assert_eq!(decode(PRESENT | 42), Some(42));
        assert_eq!(decode(PRESENT | 1 << 55 | 42), Some(42));
        assert_eq!(decode(PRESENT), None);
        assert_eq!(decode(42), None);
    }
}
