//! Memory that reads as zero again, and the look at which of it was used.

use crate::guard::Guarding;
use crate::guard::chunks::State;
use crate::guard::userfault::Userfault;
use crate::os::batch::drop_pages;
use crate::os::madvise::Advice;
use crate::platform::Linux;
use vmalloc::{Discard, PageRange, PlatformError};

// SAFETY:
// - When madvise(2) has returned, the kernel has taken the pages back, and flushed all CPUs. The
//   next touch of private memory finds zeros. Pages that are not plain are replaced before.
// - A page that the page map does not report is neither in memory nor in swap, or is the page of
//   zeros. Where the page map can't be asked, and where frames are mapped, all pages are reported.
unsafe impl Discard for Linux {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        for range in ranges {
            self.check(*range)?;
            if !self.table.is_plain(*range) {
                self.restore_mapped(*range)?;
            }
        }
        match &self.guarding {
            Guarding::Userfault(userfault) => {
                ranges.iter().for_each(|range| self.zero_registered(userfault, *range));
                Ok(())
            }
            Guarding::PteMarkers(_) | Guarding::Mprotect(_) => drop_pages(&self.memory, ranges),
        }
    }

    unsafe fn touched(&self, range: PageRange, found: &mut dyn FnMut(PageRange)) {
        if !self.table.is_plain(range) {
            // A frame may hold something that this mapping has not shown yet.
            return found(range);
        }
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

impl Linux {
    /// Makes pages read as zero where missing pages trap: those of large areas by dropping them.
    /// Others stay where they are, for a dropped page would trap.
    pub(crate) fn zero_registered(&self, userfault: &Userfault, range: PageRange) {
        let opened = userfault.parts(range, State::Open);
        // SAFETY: the range is mapped, and that of the caller of `zero` or `discard`.
        let clear = |part| unsafe { self.clear(part) };
        opened.filter(|part| self.memory.advise(*part, Advice::DontNeed).is_err()).for_each(clear);
        userfault.parts(range, State::Closed).for_each(clear);
    }
}
