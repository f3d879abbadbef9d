//! The limits that the machine sets, read without touching the heap.

use crate::os::futex::FutexLock;
use crate::os::raw::Opened;
use crate::os::reservation::{Access, Mapping};
use crate::page_size::page_bytes;
use lock_api::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MprotectFlags, mprotect};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;

/// Returns `RLIMIT_AS` in bytes.
pub(crate) fn address_space_bytes() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Returns the bytes of address space in use, which the kernel compares with `RLIMIT_AS`. 0 where
/// `/proc` does not tell.
pub(crate) fn used_bytes(page_bytes: usize) -> u64 {
    // proc_pid_statm(5): the first field is the total size in pages.
    read_number(c"/proc/self/statm").unwrap_or(0) * page_bytes as u64
}

/// Returns true if the system refuses memory that it might not have (`vm.overcommit_memory=2`).
pub(crate) fn overcommit_is_strict() -> bool {
    read_number(c"/proc/sys/vm/overcommit_memory") == Some(2)
}

/// Returns the bytes of addresses that the processor and the kernel give a program.
pub(crate) fn machine_bytes() -> u64 {
    // SAFETY: it reads a word that the kernel has written at the start.
    let highest = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    // The name of the program lies at the end of the first stack, just below the last address.
    if highest == 0 { 1 << (usize::BITS - 1) } else { (highest as u64 + 1).next_power_of_two() }
}

/// Returns `vm.max_map_count`: how many mappings a program may have.
pub(crate) fn max_map_count() -> Option<u64> {
    read_number(c"/proc/sys/vm/max_map_count")
}

/// Returns the size of a huge page, if this kernel makes them out of ordinary memory.
pub(crate) fn huge_page_bytes() -> Option<u64> {
    read_number(c"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
}

/// Returns how many mappings this program has: the lines of `/proc/self/maps`. Takes about half a
/// microsecond a mapping.
pub(crate) fn map_count() -> Option<u64> {
    // One line more than the kernel counts: the vsyscall page is not a mapping of the program's.
    count_lines(c"/proc/self/maps")
}

/// Returns true if the kernel refuses to make as many mappings as the largest change of one makes.
/// It is asked, with pages that need no memory: counting takes milliseconds at the limit.
pub(crate) fn mappings_exhausted() -> bool {
    /// mprotect(2) of a page between two others makes two mappings, and mremap(2) is refused where
    /// fewer than three are left.
    const SPLIT_PAGES: [usize; 3] = [1, 3, 5];
    let page = page_bytes();
    let bytes = (SPLIT_PAGES.len() * 2 + 1) * page;
    let pages = match Mapping::new(bytes, Access::None) {
        Ok(pages) => pages,
        Err(errno) => {
            let left = address_space_bytes().map_or(u64::MAX, |limit| limit.saturating_sub(used_bytes(page)));
            return errno == Errno::NOMEM && left >= bytes as u64;
        }
    };
    SPLIT_PAGES.iter().any(|nth| {
        let place = pages.base().as_ptr().wrapping_byte_add(nth * page);
        // SAFETY: a page of the mapping just made, which nothing uses.
        unsafe { mprotect(place, page, MprotectFlags::READ) == Err(Errno::NOMEM) }
    })
}

fn open(path: &CStr) -> Option<Opened> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok().map(Opened::from)
}

/// Returns the decimal number that a file begins with.
pub(crate) fn read_number(path: &CStr) -> Option<u64> {
    let mut text = [0; 24];
    let file = open(path)?;
    let length = rustix::io::read(&file, &mut text).ok()?;
    let digits = text[..length].split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Room for what a count reads at once, some thirty lines: it may come at the end of a small stack.
/// A thread that finds the room in use reads in small parts, as a child of a fork does whose user
/// was another thread.
static TEXT: Mutex<FutexLock, [u8; 2048]> = Mutex::new([0; 2048]);

fn count_lines(path: &CStr) -> Option<u64> {
    let (mut text, mut little) = (TEXT.try_lock(), [0; 64]);
    let text = text.as_deref_mut().map_or(&mut little[..], |text| &mut text[..]);
    let file = open(path)?;
    let mut lines = 0;
    loop {
        match rustix::io::read(&file, &mut *text).ok()? {
            0 => return Some(lines),
            length => lines += text[..length].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn the_kernel_tells_its_limits() {
        let place = 0;
        assert!(max_map_count() > Some(0));
        assert!(map_count() > Some(3));
        assert!(!mappings_exhausted());
        assert!(used_bytes(crate::page_bytes()) > 1 << 20);
        assert!(
            machine_bytes() > (&raw const place).addr() as u64
                && machine_bytes() >> 2 < (&raw const place).addr() as u64
        );
    }
}
