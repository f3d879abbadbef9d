//! Events as `tracing` has them, all with the target `vmalloc`.

use tracing::{debug, warn};
use vmalloc::{PageRange, PlatformError};

/// Tells that memory is put behind pages that had none.
#[inline]
pub(crate) fn growth(range: PageRange, page_shift: u32) {
    debug!(target: "vmalloc", addr = range.start() << page_shift, bytes = range.len() << page_shift, "growth");
}

/// Tells that the memory of freed ranges goes back to the system.
#[inline]
pub(crate) fn purge(ranges: &[PageRange], page_shift: u32) {
    let bytes = || ranges.iter().map(PageRange::len).sum::<u64>() << page_shift;
    debug!(target: "vmalloc", ranges = ranges.len(), bytes = bytes(), "purge");
}

/// Tells that the system has refused something.
#[cold]
pub(crate) fn refusal(error: &PlatformError) {
    warn!(target: "vmalloc", call = error.call, fault = %error.fault, code = error.code, "refusal");
}

/// Tells how many bytes of addresses were asked for, and how many there are.
#[cold]
pub(crate) fn reservation(asked: usize, bytes: usize) {
    debug!(target: "vmalloc", asked = asked, bytes = bytes, "reservation");
}
