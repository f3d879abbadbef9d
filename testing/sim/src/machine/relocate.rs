//! Moving frames to other pages, and the translations that this leaves behind.

use super::Machine;
use crate::fault::Fault;
use crate::plan::Point;
use crate::tlb::Entry;
use vmalloc::{PageRange, PlatformError, PlatformFault};

impl Machine {
    /// Moves the frames behind `from` to `to`. Only `cpu` notices that they are gone.
    pub(crate) fn relocate(
        &mut self,
        cpu: usize,
        from: PageRange,
        to: PageRange,
    ) -> Result<(), PlatformError> {
        if !self.options.relocates {
            return Err(self.refuse("relocate", PlatformFault::Unsupported));
        }
        let is_possible = self.check_relocation(from, to);
        if !is_possible {
            return Err(self.refuse("relocate", PlatformFault::Other));
        }
        if self.plan.pass(Point::Relocate).is_err() {
            return Err(self.refuse("relocate", PlatformFault::OutOfMemory));
        }
        self.epoch += 1;
        (from.start()..from.end()).zip(to.start()..).for_each(|(from, to)| self.relocate_page(from, to));
        self.unflushed.insert(from);
        self.unflushed.remove(to);
        self.idle.insert(from);
        self.idle.remove(to);
        self.tlbs[cpu].flush(from);
        Ok(())
    }

    fn relocate_page(&mut self, from: u64, to: u64) {
        if let Some(entry) = self.page_table.remove(from) {
            self.memory.reassign(entry.frame, to);
            self.left.insert((from, entry.frame));
            self.page_table.insert(to, Entry { epoch: self.epoch, ..entry });
        }
    }

    /// Reports what is wrong with the ranges. Whether the machine could go on all the same.
    fn check_relocation(&mut self, from: PageRange, to: PageRange) -> bool {
        self.check_ranges(Point::Relocate, &[from]);
        self.check_ranges(Point::Relocate, &[to]);
        self.check_mapped(to);
        self.check_reuse(to);
        if from.len() != to.len() {
            self.report(Fault::WrongCount { range: to, frames: from.len() });
        }
        let owns = |page| self.page_table.get(page).is_some_and(|entry| !entry.is_shared());
        let missing = (from.start()..from.end()).find(|&page| !owns(page));
        self.faults.extend(missing.map(|page| Fault::RelocatedUnmapped { page }));
        from.len() == to.len() && missing.is_none()
    }

    /// Notes that a flush has ended: no CPU follows where frames were.
    pub(super) fn forget_left(&mut self, range: PageRange) {
        let gone: Vec<_> = self.left.range((range.start(), 0)..(range.end(), 0)).copied().collect();
        gone.iter().for_each(|left| _ = self.left.remove(left));
    }

    /// Returns the pages where `frame` was, which is recycled now.
    pub(super) fn take_left(&mut self, frame: u64) -> impl Iterator<Item = u64> + use<> {
        let gone: Vec<_> = self.left.iter().filter(|left| left.1 == frame).copied().collect();
        gone.iter().for_each(|left| _ = self.left.remove(left));
        gone.into_iter().map(|(page, _)| page)
    }
}
