//! Reads, writes and fetches, through the TLB of the CPU that makes them, or by the linear map.

use super::Machine;
use crate::fault::{Access, Fault};
use crate::memory::Holder;
use crate::tlb::{Backing, Entry};
use vmalloc::PageRange;

/// The result that a CPU would have at a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlbVisibility {
    /// The content of the page's frame.
    Right(u64),
    /// The content of a frame that is no longer the page's.
    Stale(u64),
    /// No translation.
    Nothing,
}

impl Machine {
    pub(crate) fn read(&mut self, cpu: usize, page: u64) -> Result<u64, Fault> {
        let frame = self.reach(cpu, page, Access::Read, |_, _| ())?;
        Ok(self.memory.content(frame))
    }

    pub(crate) fn fetch(&mut self, cpu: usize, page: u64) -> Result<u64, Fault> {
        let frame = self.reach(cpu, page, Access::Fetch, |_, _| ())?;
        Ok(self.memory.content(frame))
    }

    /// Writes to wherever the TLB leads, which is damage when it is stale.
    pub(crate) fn write(&mut self, cpu: usize, page: u64, word: u64) -> Result<(), Fault> {
        self.reach(cpu, page, Access::Write, |machine, frame| machine.memory.fill(frame, word)).map(|_| ())
    }

    /// Reads `page`, which may lead nowhere. An entry that lingers is followed: there is no harm in
    /// it as long as the frame was not given back, for another owner to have.
    pub(crate) fn read_nofault(&mut self, cpu: usize, page: u64) -> Option<u64> {
        if self.linear_frame(page).is_some() {
            return match self.look(cpu, page) {
                TlbVisibility::Right(word) | TlbVisibility::Stale(word) => Some(word),
                TlbVisibility::Nothing => None,
            };
        }
        let entry = self.translate(cpu, page).ok()?;
        let _ = self.check_life(cpu, page, entry);
        Some(self.memory.content(entry.frame))
    }

    /// Returns the result of a read. Changes nothing and reports nothing.
    pub(crate) fn look(&self, cpu: usize, page: u64) -> TlbVisibility {
        if let Some(frame) = self.linear_frame(page) {
            let is_free = self.memory.holder(frame) == Some(Holder::Supply);
            return if is_free {
                TlbVisibility::Nothing
            } else {
                TlbVisibility::Right(self.memory.content(frame))
            };
        }
        let (held, now) = (self.tlbs[cpu].get(page), self.page_table.get(page));
        let Some(entry) = held.or(now) else { return TlbVisibility::Nothing };
        let content = self.memory.content(entry.frame);
        if Some(entry) == now { TlbVisibility::Right(content) } else { TlbVisibility::Stale(content) }
    }

    /// Fills the TLB with what is mapped of `range`, as speculation may at any time.
    pub(crate) fn prefetch(&mut self, cpu: usize, range: PageRange) {
        let tlb = &mut self.tlbs[cpu];
        for (page, entry) in self.page_table.entries_in(range) {
            if tlb.get(page).is_none() {
                tlb.fill(page, entry, &mut self.random);
            }
        }
    }

    /// Returns the frame that an access reaches. Does `act` to it, wrong as it may be, before the
    /// access is judged.
    fn reach(
        &mut self,
        cpu: usize,
        page: u64,
        access: Access,
        act: impl FnOnce(&mut Self, u64),
    ) -> Result<u64, Fault> {
        if let Some(frame) = self.linear_frame(page) {
            self.check_free(cpu, frame)?;
            act(self, frame);
            return Ok(frame);
        }
        let entry = self.translate(cpu, page)?;
        if !access.is_allowed(entry.protection) {
            return Err(Fault::Denied { cpu, page, access, protection: entry.protection });
        }
        act(self, entry.frame);
        self.check_life(cpu, page, entry)?;
        self.check_access(cpu, page, entry, access)?;
        Ok(entry.frame)
    }

    /// Returns the frame that the linear map has at `page`.
    fn linear_frame(&self, page: u64) -> Option<u64> {
        self.options.linear_pages().filter(|linear| linear.contains(page)).map(|linear| page - linear.start())
    }

    /// Returns the translation that `cpu` uses for `page`: its own, or else the page table's, which
    /// it then keeps.
    fn translate(&mut self, cpu: usize, page: u64) -> Result<Entry, Fault> {
        if let Some(entry) = self.tlbs[cpu].get(page) {
            return Ok(entry);
        }
        let Some(entry) = self.page_table.get(page) else { return Err(Fault::NotMapped { cpu, page }) };
        self.tlbs[cpu].fill(page, entry, &mut self.random);
        Ok(entry)
    }

    fn check_free(&mut self, cpu: usize, frame: u64) -> Result<(), Fault> {
        match self.memory.holder(frame) {
            Some(Holder::Supply) => self.blame(Fault::ReachedFree { cpu, frame }),
            _ => Ok(()),
        }
    }

    fn check_life(&mut self, cpu: usize, page: u64, entry: Entry) -> Result<(), Fault> {
        match entry.backing {
            Backing::Shared { life } if life != self.memory.life(entry.frame) => {
                self.blame(Fault::ReachedGiven { cpu, page, frame: entry.frame })
            }
            _ => Ok(()),
        }
    }

    fn check_access(&mut self, cpu: usize, page: u64, entry: Entry, access: Access) -> Result<(), Fault> {
        match self.page_table.get(page) {
            Some(now) if now == entry => Ok(()),
            Some(now) if now == (Entry { protection: now.protection, ..entry }) => {
                if access.is_allowed(now.protection) {
                    return Ok(());
                }
                let (held, now) = (entry.protection, now.protection);
                self.blame(Fault::StaleProtection { cpu, page, held, now })
            }
            now => {
                let now = now.map(|now| now.frame);
                self.blame(Fault::StaleAccess { cpu, page, frame: entry.frame, now })
            }
        }
    }

    fn blame(&mut self, fault: Fault) -> Result<(), Fault> {
        self.report(fault);
        Err(fault)
    }
}
