//! Putting frames behind pages.

use super::Machine;
use crate::fault::Fault;
use crate::plan::Point;
use crate::tlb::{Backing, Entry};
use vmalloc::{PageRange, PlatformError, PlatformFault, Protection};

/// How pages are mapped: by which call, and with pages of which size.
#[derive(Clone, Copy)]
struct Manner {
    call: &'static str,
    point: Point,
    huge_order: Option<u32>,
}

impl Machine {
    pub(crate) fn map(&mut self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.map_as(Manner { call: "map", point: Point::Map, huge_order: None }, range, protection)
    }

    pub(crate) fn map_huge(&mut self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        let manner = Manner { call: "map_huge", point: Point::MapHuge, huge_order: self.options.huge_order };
        self.map_as(manner, range, protection)
    }

    fn map_as(
        &mut self,
        manner: Manner,
        range: PageRange,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.check_ranges(manner.point, &[range]);
        self.check_mapped(range);
        self.check_reuse(range);
        if self.plan.pass(manner.point).is_err() {
            return Err(self.refuse(manner.call, PlatformFault::OutOfMemory));
        }
        self.epoch += 1;
        let mut page = range.start();
        while page < range.end() {
            match self.map_next(page, range.end(), manner, protection) {
                Some(next) => page = next,
                None => {
                    self.undo(PageRange::new(range.start(), page));
                    return Err(self.refuse(manner.call, PlatformFault::OutOfMemory));
                }
            }
        }
        self.unflushed.remove(range);
        self.idle.remove(range);
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

    pub(super) fn check_mapped(&mut self, range: PageRange) {
        let mapped = self.page_table.entries_in(range);
        self.faults.extend(mapped.map(|(page, entry)| Fault::DoubleMap { page, frame: entry.frame }));
    }

    /// Maps a page, or a huge one where that is wanted and possible. Returns where the next one is;
    /// `None` where there is no frame.
    fn map_next(&mut self, page: u64, end: u64, manner: Manner, protection: Protection) -> Option<u64> {
        if let Some(pages) = manner.huge_order.map(|order| 1 << order)
            && page.is_multiple_of(pages)
            && end - page >= pages
            && self.map_huge_page(page, pages, protection)
        {
            return Some(page + pages);
        }
        self.plan.pass(Point::Frame).ok()?;
        let frame = self.memory.take(page)?;
        self.enter(page, frame, protection);
        Some(page + 1)
    }

    /// Maps a huge page if there is a run of frames for it.
    fn map_huge_page(&mut self, page: u64, pages: u64, protection: Protection) -> bool {
        if self.plan.pass(Point::HugePage).is_err() {
            return false;
        }
        let Some(base) = self.memory.take_huge(page, pages) else { return false };
        (0..pages).for_each(|nth| self.enter(page + nth, base + nth, protection));
        self.counts.huge_pages += 1;
        true
    }

    fn enter(&mut self, page: u64, frame: u64, protection: Protection) {
        self.check_alias(frame, page);
        let entry = Entry { frame, epoch: self.epoch, protection, backing: Backing::Own };
        self.page_table.insert(page, entry);
    }

    /// Reports every TLB entry that leads from elsewhere to `frame`, which is `page`'s now.
    fn check_alias(&mut self, frame: u64, page: u64) {
        let reaching = self.tlbs.iter().enumerate().flat_map(|(cpu, tlb)| {
            let entries = tlb.reaching(frame);
            entries.map(move |(other, entry)| (cpu, other, entry))
        });
        let others = reaching.filter(|(_, other, entry)| *other != page && !self.is_past(*other, entry));
        let fault = |(cpu, other, _)| Fault::Aliased { frame, page, other, cpu: Some(cpu) };
        let found: Vec<Fault> = others.map(fault).collect();
        self.faults.extend(found);
    }

    /// Returns whether `entry` may linger at `page`, whichever page has its frame now: the page was
    /// discarded, or its frame is elsewhere.
    pub(super) fn is_past(&self, page: u64, entry: &Entry) -> bool {
        let is_discarded = || self.idle.contains(page) || self.unflushed.contains(page);
        if entry.is_shared() { is_discarded() } else { self.left.contains(&(page, entry.frame)) }
    }

    /// Takes back what a failing map had done. No flush: within the call no CPU has seen these
    /// translations.
    fn undo(&mut self, mapped: Option<PageRange>) {
        for page in mapped.into_iter().flat_map(|range| range.start()..range.end()) {
            if let Some(entry) = self.page_table.remove(page) {
                self.memory.recycle(entry.frame);
            }
        }
    }

    pub(crate) fn zero(&mut self, cpu: usize, range: PageRange) {
        for page in range.start()..range.end() {
            match self.write(cpu, page, 0) {
                Err(Fault::NotMapped { .. }) => self.report(Fault::ZeroedUnmapped { page }),
                Err(Fault::Denied { protection, .. }) => {
                    self.report(Fault::ZeroedReadOnly { page, protection });
                }
                _ => (),
            }
        }
    }
}
