//! Reading memory that may not be mapped: for crash dumps and debuggers.

use super::Space;
use crate::PageRange;
use crate::areas::Kind;
use crate::platform::{ReadNofault, Translate};

impl<P: ReadNofault> Space<P> {
    /// Copies the memory at `addr` into `to`: mapped memory of areas of any kind but device memory,
    /// and zeros for the rest (holes, guard pages, pages freed or not mapped). Returns the number
    /// of bytes that were mapped. Never faults, whatever is freed or mapped meanwhile; the bytes
    /// that it reads then may be of either time. O(log n + areas + bytes).
    #[doc(alias = "vread")]
    pub fn read(&self, addr: usize, to: &mut [u8]) -> usize {
        to.fill(0);
        let end = addr.saturating_add(to.len());
        // From the next page on: the area that holds the first one is found already.
        let next = (addr | self.offset_mask()).saturating_add(1);
        let mut areas = self.find(addr).into_iter().chain(self.areas_from(next));
        let mut copied = 0;
        while let Some(area) = areas.next().filter(|area| area.addr < end) {
            let (pages, mut read) =
                (self.pages_of(&area), |range| copied += self.read_range(range, addr, to));
            match area.kind {
                // To read registers may do more than read.
                Kind::IoMap => {}
                Kind::Tenant => self.tenants.iter().for_each(|tenant| tenant.live(pages, &mut read)),
                _ => read(pages),
            }
        }
        copied
    }

    /// Copies the mapped bytes of a range of pages into the bytes `to` from `addr` on. Returns how
    /// many.
    fn read_range(&self, range: PageRange, addr: usize, to: &mut [u8]) -> usize {
        let end = addr.saturating_add(to.len()).min(self.addr(range.end()));
        let (mut at, mut copied) = (addr.max(self.addr(range.start())), 0);
        while at < end {
            let wanted = end - at;
            let done = self.platform.read_nofault(at, &mut to[at - addr..end - addr]).min(wanted);
            (at, copied) = (at + done, copied + done);
            if done < wanted {
                // Past the page that could not be read.
                at = (at | self.offset_mask()).saturating_add(1);
            }
        }
        copied
    }
}

impl<P: Translate> Space<P> {
    /// Returns the number of the physical page behind `addr`, anywhere inside an area; `None`
    /// outside areas, on guard pages, where no page is yet, and where the machine does not tell.
    #[doc(alias = "vmalloc_to_page")]
    #[doc(alias = "vmalloc_to_pfn")]
    pub fn physical_page(&self, addr: usize) -> Option<u64> {
        let area = self.find(addr)?;
        let page = (addr >> self.shift()) as u64;
        let is_mapped = area.kind != Kind::IoMap && self.pages_of(&area).contains(page);
        if is_mapped { self.platform.physical_page(page) } else { None }
    }
}
