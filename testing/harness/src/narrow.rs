//! Processes with few addresses.
#![allow(unsafe_code)]

use std::ptr;

/// Addresses that stay free below a mapping beyond the narrow part: the first stack grows there.
const STACK_ROOM: usize = 256 << 20;

/// Leaves this process, for good, the addresses of a machine with so many bits: what is free above
/// them is mapped, without access. Returns the bytes that are free below.
///
/// # Panics
/// When the list of mappings can't be read.
#[must_use]
pub fn narrow_addresses(bits: u32) -> usize {
    let (limit, maps) = (1_usize << bits, std::fs::read_to_string("/proc/self/maps"));
    let (mut free, mut from) = (0, 0);
    for line in maps.expect("the list of mappings").lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (start, end) = range.expect("a range begins the line");
        let [start, end] = [start, end].map(|number| usize::from_str_radix(number, 16).unwrap_or(usize::MAX));
        free += start.min(limit).saturating_sub(from);
        let room = if line.ends_with("[stack]") { STACK_ROOM } else { 0 };
        occupy(from.max(limit), start.saturating_sub(room));
        from = end;
    }
    free
}

/// Maps what is free in a range, without access, as far as a program has addresses: the kernel's
/// own mappings lie beyond.
fn occupy(mut start: usize, end: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    for piece in (16..usize::BITS - 1).rev().map(|bits| 1 << bits) {
        while start < end {
            let bytes = piece.min(end - start);
            // SAFETY: nothing that is mapped is replaced.
            let at = unsafe {
                libc::mmap(ptr::without_provenance_mut(start), bytes, libc::PROT_NONE, flags, -1, 0)
            };
            if at == libc::MAP_FAILED {
                break;
            }
            start += bytes;
        }
    }
}

/// Sets the limit of this process on addresses (`ulimit -v`), for good.
///
/// # Panics
/// When that is refused.
pub fn limit_addresses(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes as _, rlim_max: bytes as _ };
    // SAFETY: a limit is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0, "the limit is refused");
}
