//! Reads and writes, through the TLB of the CPU that makes them.

use super::Machine;
use crate::fault::Fault;
use crate::tlb::Entry;
use vmalloc::PageRange;

/// What a CPU would find behind a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// The content of the page's frame.
    Right(u64),
    /// The content of a frame that is no longer the page's.
    Stale(u64),
    /// No translation.
    Nothing,
}

impl Machine {
    pub(crate) fn read(&mut self, cpu: usize, page: u64) -> Result<u64, Fault> {
        let entry = self.translate(cpu, page)?;
        self.check_access(cpu, page, entry)?;
        Ok(self.frames.content(entry.frame))
    }

    /// Writes to wherever the TLB leads, which is damage when it is stale.
    pub(crate) fn write(&mut self, cpu: usize, page: u64, word: u64) -> Result<(), Fault> {
        let entry = self.translate(cpu, page)?;
        self.frames.fill(entry.frame, word);
        self.check_access(cpu, page, entry)
    }

    /// What a read would find. Changes nothing and reports nothing.
    pub(crate) fn look(&self, cpu: usize, page: u64) -> Sight {
        let (held, now) = (self.tlbs[cpu].get(page), self.page_table.get(&page).copied());
        let Some(entry) = held.or(now) else { return Sight::Nothing };
        let content = self.frames.content(entry.frame);
        if Some(entry) == now { Sight::Right(content) } else { Sight::Stale(content) }
    }

    /// Fills the TLB with what is mapped of `range`, as speculation may at any time.
    pub(crate) fn prefetch(&mut self, cpu: usize, range: PageRange) {
        let tlb = &mut self.tlbs[cpu];
        for (&page, &entry) in self.page_table.range(range.start()..range.end()) {
            if tlb.get(page).is_none() {
                tlb.fill(page, entry, &mut self.random);
            }
        }
    }

    /// The translation that `cpu` uses for `page`: its own, or else the page table's, which it then keeps.
    fn translate(&mut self, cpu: usize, page: u64) -> Result<Entry, Fault> {
        if let Some(entry) = self.tlbs[cpu].get(page) {
            return Ok(entry);
        }
        let Some(&entry) = self.page_table.get(&page) else { return Err(Fault::NotMapped { cpu, page }) };
        self.tlbs[cpu].fill(page, entry, &mut self.random);
        Ok(entry)
    }

    fn check_access(&mut self, cpu: usize, page: u64, entry: Entry) -> Result<(), Fault> {
        let now = self.page_table.get(&page).copied();
        if now == Some(entry) {
            return Ok(());
        }
        let fault = Fault::StaleAccess { cpu, page, frame: entry.frame, now: now.map(|now| now.frame) };
        self.report(fault);
        Err(fault)
    }
}
