//! Addresses as pages.

use vmalloc::PageRange;

/// The pages of the machine.
pub(crate) const PAGE: usize = 4096;
/// The binary logarithm of [`PAGE`].
const SHIFT: u32 = PAGE.trailing_zeros();

/// Returns the pages that hold `len` bytes from `addr` on; `None` if they are none or too many.
pub(crate) fn pages_of(addr: usize, len: usize) -> Option<PageRange> {
    let end = addr.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    PageRange::new((addr >> SHIFT) as u64, (end >> SHIFT) as u64)
}

/// Returns the address of a page.
pub(crate) fn addr_of(page: u64) -> usize {
    (page as usize) << SHIFT
}

/// Returns the first address and the bytes of pages.
pub(crate) fn bytes_of(range: PageRange) -> (usize, usize) {
    (addr_of(range.start()), addr_of(range.len()))
}
