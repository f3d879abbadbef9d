//! Looks at memory from outside of the library: what has memory.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use vmalloc_linux::page_bytes;

/// Returns whether there is memory behind a page, or the page of zeros: proc_pid_pagemap(5) tells.
pub fn has_memory(addr: usize) -> bool {
    const PRESENT: u64 = 1 << 63;
    let mut entry = [0; size_of::<u64>()];
    let map = File::open("/proc/self/pagemap").expect("a process may look at itself");
    let offset = (addr / page_bytes() * size_of::<u64>()) as u64;
    map.read_exact_at(&mut entry, offset).expect("there is an entry for it");
    u64::from_ne_bytes(entry) & PRESENT != 0
}

/// The argument of the `PAGEMAP_SCAN` ioctl, in the order of the kernel's documentation.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    most_regions: u64,
    most_pages: u64,
    inverted: u64,
    mask: u64,
    any: u64,
    told: u64,
}

/// A run of pages that the kernel tells of.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The number of the ioctl: read and write, of 96 bytes, 'f', 16.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
/// The category of pages in memory.
const IS_PRESENT: u64 = 1 << 3;
/// The category of the page of zeros, which takes no memory.
const IS_ZERO_PAGE: u64 = 1 << 5;

/// Returns how many pages of a range have memory of their own; `None` where the kernel does not
/// tell (before Linux 6.7).
pub fn resident(range: Range<usize>) -> Option<u64> {
    let map = File::open("/proc/self/pagemap").expect("a process may look at itself");
    let (mut regions, mut pages, mut start) = ([Region::default(); 64], 0, range.start as u64);
    while start < range.end as u64 {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: range.end as u64,
            regions: regions.as_mut_ptr().expose_provenance() as u64,
            most_regions: regions.len() as u64,
            inverted: IS_ZERO_PAGE,
            mask: IS_PRESENT | IS_ZERO_PAGE,
            told: IS_PRESENT,
            ..Scan::default()
        };
        // SAFETY: the argument is as the kernel asks for, with room for as many regions.
        let found = unsafe { libc::ioctl(map.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let found = usize::try_from(found).ok()?;
        pages += regions[..found]
            .iter()
            .map(|region| (region.end - region.start) / page_bytes() as u64)
            .sum::<u64>();
        start = scan.walk_end;
    }
    Some(pages)
}
