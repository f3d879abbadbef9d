//! The power to make memory read as zero again.

use super::{Platform, PlatformError};
use crate::PageRange;

/// A platform that can drop the memory behind mapped pages, and tell which of them were used.
///
/// # Safety
/// After [`discard`](Self::discard) has returned `Ok`, the pages read as zero on every CPU, can be
/// written, and no CPU reaches the memory that was behind them. [`touched`](Self::touched) reports
/// every page that may hold anything but zeros.
pub unsafe trait Discard: Platform {
    /// Makes the pages of `ranges`, which are mapped, read as zero, and stay mapped. The memory
    /// that was behind them may go back to the machine. One call and one flush for all of them, as
    /// far as the machine has such a call. May run on several CPUs at once, for different ranges.
    ///
    /// Ranges are disjoint and ascending, and neighbours are joined.
    ///
    /// # Safety
    /// The caller owns all of `ranges`, they are mapped by [`map`](Platform::map), and nothing
    /// needs their content.
    ///
    /// # Errors
    /// Each page reads as zero, or as it did before.
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;

    /// Calls `found` with the runs of pages inside `range` that may hold anything but zeros,
    /// ascending. A platform that can't tell reports all of it, which is the default.
    ///
    /// # Safety
    /// The caller owns `range`, and all of it is mapped.
    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        found(range);
    }
}
