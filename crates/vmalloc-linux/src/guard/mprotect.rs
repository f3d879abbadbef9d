//! Guard pages as inaccessible mappings, for kernels without guard marks.
//!
//! The whole span begins inaccessible. `map` makes a range accessible, `unmap` drops its pages and
//! makes it inaccessible again. The kernel keeps each maximal run of equal access as one mapping
//! (it merges neighbours itself). So an area with its guard page costs two, and `vm.max_map_count`
//! is the limit on areas.
//!
//! `map` draws them from the [`Budget`](crate::os::map_count::Budget), which refuses before the
//! kernel would. `unmap` draws none, and gives them back. Should the eighth that the budget leaves
//! alone be used up as well, `unmap` fails with the same fault.
//!
//! A scattered purge drops all pages by vectors first, at one interrupt a vector. The mprotect(2)
//! for each range after it then finds nothing to change in the page tables, and interrupts no CPU.

use crate::error::protect_error;
use crate::os::batch::drop_pages;
use crate::os::map_count::{BUDGET, SPLIT};
use crate::os::reservation::{Access, Reservation};
use vmalloc::{PageRange, PlatformError};

/// Guards by inaccessible mappings.
#[derive(Debug)]
pub(crate) struct Mprotect;

impl Mprotect {
    pub(crate) fn map(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        BUDGET.take(SPLIT)?;
        memory.protect(range, Access::ReadWrite).map_err(|errno| {
            // A range over several mappings may be half done. Going back splits nothing, so it
            // can't fail for want of mappings.
            let _ = memory.protect(range, Access::None);
            protect_error(errno)
        })
    }

    pub(crate) fn unmap(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        drop_pages(memory, ranges)?;
        // All are tried, even after a failure: those that merge make room for those that split.
        let close = |range: &PageRange| {
            memory.protect(*range, Access::None).map_err(protect_error)?;
            BUDGET.give_back(SPLIT);
            Ok(())
        };
        ranges.iter().map(close).fold(Ok(()), Result::and)
    }
}
