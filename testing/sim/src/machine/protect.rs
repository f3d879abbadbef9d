//! Changing what may be done with pages.

use super::Machine;
use super::flush::first_half;
use crate::fault::Fault;
use crate::options::InjectedBug;
use crate::plan::Point;
use vmalloc::{PageRange, PlatformError, PlatformFault, Protection};

impl Machine {
    /// Lets every CPU do with `range` what `protection` allows, in a call by `cpu`.
    pub(crate) fn protect(
        &mut self,
        cpu: usize,
        range: PageRange,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.check_ranges(Point::Protect, &[range]);
        let missing = self.page_table.missing(range);
        self.faults.extend(missing.map(|page| Fault::ProtectedUnmapped { page }));
        if self.plan.pass(Point::Protect).is_err() {
            first_half(&[range]).for_each(|half| self.protect_range(cpu, half, protection));
            return Err(self.refuse("protect", PlatformFault::OutOfMemory));
        }
        self.protect_range(cpu, range, protection);
        Ok(())
    }

    fn protect_range(&mut self, cpu: usize, range: PageRange, protection: Protection) {
        for (page, mut entry) in self.page_table.entries_in(range).collect::<Vec<_>>() {
            entry.protection = protection;
            self.page_table.insert(page, entry);
        }
        if self.options.injected_bug != Some(InjectedBug::UnflushedProtection) {
            (0..self.cpus()).for_each(|other| self.tell(cpu, other, &[range]));
        }
    }
}
