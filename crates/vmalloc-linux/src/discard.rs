//! Memory that reads as zero again, and the look at which of it was used.

use crate::guard::Guarding;
use crate::guard::chunks::ChunkState;
use crate::guard::userfault::Userfault;
use crate::os::batch::drop_pages;
use crate::os::madvise::Advice;
use crate::os::reservation::Access;
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
                self.restore_special(*range, Access::ReadWrite)?;
            }
        }
        match &self.guarding {
            Guarding::Userfault(userfault) => ranges.iter().try_for_each(|range| {
                let opened = userfault.parts(*range, ChunkState::Open);
                opened.for_each(|part| self.zero_opened(part));
                userfault
                    .parts(*range, ChunkState::Closed)
                    .try_for_each(|part| userfault.empty(&self.memory, part))
            }),
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
        if scanned.is_err() {
            PageRange::new(told, range.end()).into_iter().for_each(found);
        }
    }
}

impl Linux {
    /// Makes pages read as zero where missing pages trap: those of large areas by dropping them,
    /// and those of others by writing.
    pub(crate) fn zero_registered(&self, userfault: &Userfault, range: PageRange) {
        userfault.parts(range, ChunkState::Open).for_each(|part| self.zero_opened(part));
        // SAFETY: the range is mapped, and that of the caller of `zero`.
        userfault.parts(range, ChunkState::Closed).for_each(|part| unsafe { self.clear(part) });
    }

    /// Makes opened pages read as zero. Frames keep their content where their pages are dropped.
    fn zero_opened(&self, part: PageRange) {
        let is_plain = self.table.hulls(part).next().is_none();
        if !is_plain || self.memory.advise(part, Advice::DontNeed).is_err() {
            // SAFETY: the range is mapped, and that of the caller of `zero` or `discard`.
            unsafe { self.clear(part) };
        }
    }
}
