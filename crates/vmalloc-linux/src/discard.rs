//! Memory that reads as zero again, and the look at which of it was used.

use crate::os::batch::drop_pages;
use crate::platform::Linux;
use vmalloc::{Discard, PageRange, PlatformError};

// SAFETY:
// - When madvise(2) has returned, the kernel has taken the pages back, and flushed all CPUs. The
//   next touch of private memory finds zeros. Pages that are not plain are replaced before.
// - A page that the page map does not report is neither in memory nor in swap, or is the page of
//   zeros. Where the page map can't be asked, all pages are reported.
unsafe impl Discard for Linux {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for range in ranges {
            self.check(*range)?;
            if !self.table.is_plain(*range) {
                self.restore(*range)?;
                self.guarding.map(&self.memory, *range)?;
            }
        }
        drop_pages(&self.memory, ranges)
    }

    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        let (shift, mut told) = (self.memory.page_shift(), range.start());
        let scanned = self.pagemap.written(self.memory.run(range), |run| {
            if let Some(run) = PageRange::new(run.start >> shift, run.end >> shift) {
                told = run.end();
                found(run);
            }
        });
        if scanned.is_err()
            && let Some(rest) = PageRange::new(told, range.end())
        {
            found(rest);
        }
    }
}
