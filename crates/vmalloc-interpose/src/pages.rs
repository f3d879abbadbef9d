//! Addresses as pages.

use vmalloc::PageRange;

pub(crate) use vmalloc_linux::page_bytes;

/// Returns the binary logarithm of the bytes of a page.
fn shift() -> u32 {
    page_bytes().trailing_zeros()
}

/// Returns the pages that hold `len` bytes from `addr` on; `None` if they are none or too many.
pub(crate) fn pages_of(addr: usize, len: usize) -> Option<PageRange> {
    let end = addr.checked_add(len)?.checked_next_multiple_of(page_bytes())?;
    PageRange::new((addr >> shift()) as u64, (end >> shift()) as u64)
}

/// Returns the address of a page.
pub(crate) fn addr_of(page: u64) -> usize {
    (page as usize) << shift()
}

/// Returns the first address and the bytes of pages.
pub(crate) fn bytes_of(range: PageRange) -> (usize, usize) {
    (addr_of(range.start()), addr_of(range.len()))
}
