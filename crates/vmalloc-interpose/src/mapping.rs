//! mmap(2) and munmap(2).

use crate::kernel::{self, Answer, Map};
use crate::pages::{bytes_of, page_bytes, pages_of};
use crate::state::{self, Held};
use libc::c_int;
use vmalloc::PageRange;

const PLAIN: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
/// Flags that a served mapping may have beside these: they say nothing about where it is.
const HARMLESS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;
const FIXED: c_int = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;

/// Maps memory.
///
/// # Safety
/// That of mmap(2).
pub(crate) unsafe fn mmap(map: &Map) -> Answer {
    if map.flags & FIXED != 0 {
        if let Some(range) = pages_of(map.addr, map.len).filter(|_| map.addr.is_multiple_of(page_bytes()))
            && let Some(inside) = state::inside(range)
            && let Some(held) = state::enter()
        {
            // SAFETY: the caller's promise.
            return unsafe { fixed(held, map, range, inside) };
        }
    } else if let Some(addr) = serve(map) {
        return Ok(addr);
    }
    // SAFETY: the caller's promise. No page is in the reservation.
    unsafe { kernel::mmap(map) }
}

/// Maps fresh private memory, for reading and writing, at an address of this library's choice.
/// Everything else is the kernel's.
fn serve(map: &Map) -> Option<usize> {
    let is_plain = map.flags & !HARMLESS == PLAIN && map.access == READ_WRITE;
    let pages = pages_of(0, map.len)?;
    if !is_plain || map.addr != 0 || map.offset != 0 || !state::is_served(bytes_of(pages).1) {
        return None;
    }
    let pages = pages.len();
    let mut held = state::enter_open()?;
    let reused = if map.flags == PLAIN { held.reuse(pages) } else { None };
    reused.or_else(|| held.map(pages, map.access, map.flags))
}

/// Maps over pages of the reservation. Gaps become the program's.
///
/// # Safety
/// That of mmap(2).
unsafe fn fixed(mut held: Held, map: &Map, range: PageRange, inside: PageRange) -> Answer {
    let mut map = *map;
    if map.flags & libc::MAP_FIXED_NOREPLACE != 0 {
        if inside != range || held.has_live(inside) {
            // SAFETY: it replaces nothing: pages of the reservation are mapped.
            return unsafe { kernel::mmap(&map) };
        }
        map.flags = map.flags & !libc::MAP_FIXED_NOREPLACE | libc::MAP_FIXED;
    }
    if map.flags & libc::MAP_HUGETLB != 0 {
        // Its length is rounded up to the size of a huge page, which only the kernel knows.
        return Err(libc::ENOMEM);
    }
    let gaps = held.claim_gaps(inside)?;
    held.touch(inside);
    // SAFETY: the caller's promise, and gaps are claimed.
    unsafe { kernel::mmap(&map) }.inspect_err(|_| held.unclaim(&gaps))
}

/// Unmaps memory.
///
/// # Safety
/// That of munmap(2).
pub(crate) unsafe fn munmap(addr: usize, len: usize) -> Answer {
    if let Some(range) = pages_of(addr, len).filter(|_| addr.is_multiple_of(page_bytes()))
        && let Some(inside) = state::inside(range)
        && let Some(mut held) = state::enter()
    {
        let behind = PageRange::new(inside.end(), range.end());
        let before = PageRange::new(range.start(), inside.start());
        for (addr, len) in [behind, before].into_iter().flatten().map(bytes_of) {
            // SAFETY: the caller's pages.
            unsafe { kernel::munmap(addr, len) }?;
        }
        return held.unmap(inside);
    }
    // SAFETY: the caller's pages. None is in the reservation.
    unsafe { kernel::munmap(addr, len) }
}
