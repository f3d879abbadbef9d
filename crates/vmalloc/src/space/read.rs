//! Reading whatever is mapped: for crash dumps and debuggers.

use super::{AreaInfo, Areas, Kind, Space};
use crate::addr::PageRange;
use crate::platform::ReadNofault;

impl<P: ReadNofault> Space<P> {
    /// Copies the memory at `addr` into `to`: what is mapped there in areas of any kind but device memory, and zeros for the rest: holes,
    /// guard pages, pages freed or not mapped. Never faults, whatever is freed or mapped meanwhile; what it reads then may be of either time.
    /// The number of bytes that were mapped. O(log n + areas + bytes).
    pub fn vread(&self, addr: usize, to: &mut [u8]) -> usize {
        to.fill(0);
        let end = addr.saturating_add(to.len());
        let first = self.find(addr);
        // From the next page on: what holds the first one is found already.
        let page = first.map_or(addr, |area| area.addr.max(addr)) >> self.shift;
        let rest = Areas { space: self, page: (page as u64 + 1).max(self.geometry.span.start()) };
        let rest = rest.filter(|area| first.is_none_or(|first| first.addr != area.addr));
        let areas = first.into_iter().chain(rest).take_while(|area| area.addr < end);
        areas.map(|area| self.read_area(&area, addr, to)).sum()
    }

    /// Copies what of `area` is mapped for somebody into the bytes `to` from `addr` on; how much.
    fn read_area(&self, area: &AreaInfo, addr: usize, to: &mut [u8]) -> usize {
        match area.kind {
            kind if !kind.is_memory() => 0,
            Kind::Block => {
                let ranges = self.live_ranges((area.addr >> self.shift) as u64);
                ranges.map(|range| self.read_range(range, addr, to)).sum()
            }
            _ => {
                let first = (area.addr >> self.shift) as u64;
                self.read_range(PageRange::of(first, first + area.pages), addr, to)
            }
        }
    }

    /// The same for a range of pages.
    fn read_range(&self, range: PageRange, addr: usize, to: &mut [u8]) -> usize {
        let end = addr.saturating_add(to.len()).min(self.addr(range.end()));
        let (mut at, mut copied) = (addr.max(self.addr(range.start())), 0);
        while at < end {
            let wanted = end - at;
            let done = self.platform.read_nofault(at, &mut to[at - addr..end - addr]).min(wanted);
            (at, copied) = (at + done, copied + done);
            if done < wanted {
                // Past the page that could not be read.
                at = (at | self.offset_mask).saturating_add(1);
            }
        }
        copied
    }
}
