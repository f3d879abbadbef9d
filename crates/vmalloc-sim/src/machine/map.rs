//! Putting frames behind pages.

use super::Machine;
use crate::fault::Fault;
use crate::plan::Point;
use crate::tlb::Entry;
use vmalloc::{PageRange, PlatformError, PlatformFault};

/// Why there is no frame.
enum NoFrame {
    Injected,
    Exhausted,
}

impl Machine {
    pub(crate) fn map(&mut self, range: PageRange) -> Result<(), PlatformError> {
        self.check_ranges(Point::Map, &[range]);
        self.check_mapped(range);
        self.check_reuse(range);
        if self.plan.pass(Point::Map).is_err() {
            return Err(self.refuse("map", PlatformFault::OutOfMemory));
        }
        self.epoch += 1;
        for page in range.start()..range.end() {
            if let Err(cause) = self.map_page(page) {
                self.undo(PageRange::new(range.start(), page));
                self.counts.out_of_frames += u64::from(matches!(cause, NoFrame::Exhausted));
                return Err(self.refuse("map", PlatformFault::OutOfMemory));
            }
        }
        self.unflushed.remove(range);
        self.counts.maps += 1;
        Ok(())
    }

    /// Reports what makes `range` unfit to be handed out, with or without memory.
    pub(crate) fn check_reuse(&mut self, range: PageRange) {
        let page = self.unflushed.page_in(range);
        self.faults.extend(page.map(|page| Fault::ReusedBeforeFlush { page }));
        for (cpu, tlb) in self.tlbs.iter().enumerate() {
            let held = tlb.entries_in(range);
            let fault =
                |(page, entry): (u64, Entry)| Fault::ReusedWhileHeld { page, cpu, frame: entry.frame };
            self.faults.extend(held.map(fault));
        }
    }

    fn check_mapped(&mut self, range: PageRange) {
        let mapped = self.page_table.range(range.start()..range.end());
        self.faults.extend(mapped.map(|(&page, entry)| Fault::DoubleMap { page, frame: entry.frame }));
    }

    fn map_page(&mut self, page: u64) -> Result<(), NoFrame> {
        self.plan.pass(Point::Frame).map_err(|_| NoFrame::Injected)?;
        let frame = self.frames.take(page).ok_or(NoFrame::Exhausted)?;
        self.check_alias(frame, page);
        self.page_table.insert(page, Entry { frame, epoch: self.epoch });
        Ok(())
    }

    /// Reports every TLB entry that leads from elsewhere to `frame`, which is `page`'s now.
    fn check_alias(&mut self, frame: u64, page: u64) {
        for (cpu, tlb) in self.tlbs.iter().enumerate() {
            let others = tlb.pages_of(frame).filter(|&other| other != page);
            let fault = |other| Fault::Aliased { frame, page, other, cpu: Some(cpu) };
            self.faults.extend(others.map(fault));
        }
    }

    /// Takes back what a failing map had done. No flush: within the call nobody has seen these translations.
    fn undo(&mut self, mapped: Option<PageRange>) {
        for page in mapped.into_iter().flat_map(|range| range.start()..range.end()) {
            if let Some(entry) = self.page_table.remove(&page) {
                self.frames.recycle(entry.frame);
            }
        }
    }

    pub(crate) fn zero(&mut self, cpu: usize, range: PageRange) {
        for page in range.start()..range.end() {
            if self.write(cpu, page, 0) == Err(Fault::NotMapped { cpu, page }) {
                self.report(Fault::ZeroedUnmapped { page });
            }
        }
    }
}
