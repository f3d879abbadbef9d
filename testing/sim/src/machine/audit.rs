//! The whole machine looked through: invariants M1–M3, and M4 at the end.

use super::Machine;
use crate::fault::Fault;
use crate::tlb::Entry;
use vmalloc::PageRange;

impl Machine {
    /// Reports every breach of M1–M3. O(n log n) in all translations.
    pub(crate) fn audit(&mut self) -> Vec<Fault> {
        let mut found: Vec<Fault> = self.aliases().collect();
        found.extend(self.disagreements());
        found.extend(
            self.leaked_frames().filter(|&(frame, page)| !self.limbo.contains(&(page, frame))).map(leak),
        );
        self.faults.extend(&found);
        found
    }

    /// Returns breaches of M1, and of M3 in the page table: translations that lead to another
    /// page's frame.
    fn aliases(&self) -> impl Iterator<Item = Fault> + '_ {
        let table = self.page_table.iter().map(|(page, entry)| (None, page, entry));
        let cached = self.tlbs.iter().enumerate().flat_map(|(cpu, tlb)| {
            let entries = tlb.entries();
            entries.map(move |(page, entry)| (Some(cpu), page, entry))
        });
        table.chain(cached).filter_map(|(cpu, other, entry)| {
            let (frame, page) = (entry.frame, self.memory.owner(entry.frame)?);
            (page != other && !self.is_past(other, &entry)).then_some(Fault::Aliased {
                frame,
                page,
                other,
                cpu,
            })
        })
    }

    /// Returns breaches of M2.
    fn disagreements(&self) -> impl Iterator<Item = Fault> + '_ {
        let entries = self.tlbs.iter().enumerate().flat_map(|(cpu, tlb)| {
            let entries = tlb.entries();
            entries.map(move |(page, entry)| (cpu, page, entry))
        });
        let wrong = |page: u64, entry: Entry| {
            self.page_table.get(page) != Some(entry) && !self.unflushed.contains(page)
        };
        let wrong = entries.filter(move |&(_, page, entry)| wrong(page, entry));
        wrong.map(|(cpu, page, entry)| Fault::FlushedTooLittle { frame: entry.frame, page, cpu })
    }

    /// Returns breaches of M4: what is left when nothing should be.
    pub(crate) fn leaks(&self) -> Vec<Fault> {
        let pages = self.page_table.iter();
        let pages = pages.map(|(page, entry)| Fault::LeakedPage { page, frame: entry.frame });
        let left = self.unflushed.ranges().map(|range: PageRange| Fault::LeftUnflushed { range });
        pages.chain(self.leaked_frames().map(leak)).chain(left).collect()
    }

    /// Returns frames with an owner to which the page table does not lead.
    fn leaked_frames(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.memory.owned().filter(|&(frame, page)| self.frame(page) != Some(frame))
    }
}

fn leak((frame, page): (u64, u64)) -> Fault {
    Fault::LeakedFrame { frame, page }
}
