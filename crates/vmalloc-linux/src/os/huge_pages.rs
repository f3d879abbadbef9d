//! Huge pages: at the first touch, and on request.
//!
//! At the first touch the kernel puts a huge page only where no page table is yet. Guard marks
//! leave page tables; [`admit`](HugePages::admit) drops them from the whole, aligned parts of new
//! areas. `MADV_HUGEPAGE` is for mappings: advised of a part, the kernel splits the mapping. So it
//! is left to programs, which may advise their areas.
//!
//! On request, `MADV_COLLAPSE` (Linux 6.1) is for pages: it leaves the mapping whole, and works at
//! once, if only one page of it is there. So it is told to collapse each whole, aligned part of a
//! range after that was mapped and a byte touched. If it refuses, the part stays in base pages.
//!
//! A huge page never holds a guard page, since it lies in a mapped range as a whole. When that is
//! unmapped, the marks split it; a batch drops the pages first and splits none.

use crate::os::limits;
use crate::os::madvise::Advice;
use crate::os::reservation::Reservation;
use std::sync::atomic::{AtomicU32, Ordering};
use vmalloc::PageRange;

/// Not looked up yet.
const UNKNOWN: u32 = 0;
/// This machine has none. No order is as large.
const NONE: u32 = u32::MAX;

/// The size of huge pages, looked up once.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    order: AtomicU32,
}

/// The fewest pages that can hold a huge one, on any machine.
const FEWEST: u64 = 16;

impl HugePages {
    /// Returns log2 of the pages in a huge one.
    pub(crate) fn order(&self, page_shift: u32) -> Option<u32> {
        // Relaxed: a number and nothing else, and the same for each thread that looks it up.
        let known = self.order.load(Ordering::Relaxed);
        let order = if known == UNKNOWN { self.look_up(page_shift) } else { known };
        (order != NONE).then_some(order)
    }

    #[cold]
    fn look_up(&self, page_shift: u32) -> u32 {
        let bytes = limits::huge_page_bytes().filter(|bytes| bytes.is_power_of_two());
        let order = bytes.and_then(|bytes| bytes.trailing_zeros().checked_sub(page_shift));
        let order = order.filter(|&order| order != UNKNOWN).unwrap_or(NONE);
        self.order.store(order, Ordering::Relaxed);
        order
    }

    /// Lets the kernel put huge pages behind the whole, aligned parts of `range`, which is mapped
    /// and not touched yet: no page table may be there, and marks have left some. Since Linux 6.14
    /// dropping pages also drops an empty page table.
    #[inline]
    pub(crate) fn admit(&self, memory: &Reservation, range: PageRange) {
        if range.len() < FEWEST {
            return;
        }
        if let Some(parts) = self.parts(memory, range) {
            // Without it base pages come, and nothing else.
            let _ = memory.advise(parts, Advice::DontNeed);
        }
    }

    /// Returns the whole, aligned huge pages inside `range`.
    pub(crate) fn parts(&self, memory: &Reservation, range: PageRange) -> Option<PageRange> {
        let pages = 1_u64 << self.order(memory.page_shift())?;
        PageRange::new(range.start().next_multiple_of(pages), range.end() / pages * pages)
    }

    /// Puts huge pages behind the whole, aligned parts of `range`, which holds something that
    /// stays, as far as they have been used and memory allows.
    pub(crate) fn collapse_used(&self, memory: &Reservation, range: PageRange) {
        if let Some(parts) = self.parts(memory, range) {
            // A refusal costs time later, and nothing else.
            let _ = memory.advise(parts, Advice::Collapse);
        }
    }

    /// Puts huge pages behind the whole, aligned parts of `range`, which is new and mapped, as far
    /// as memory allows.
    pub(crate) fn collapse(&self, memory: &Reservation, range: PageRange) {
        let Some(parts) = self.parts(memory, range) else { return };
        let pages = 1_u64 << self.order(memory.page_shift()).unwrap_or(0);
        let parts = (parts.start()..parts.end()).step_by(pages as usize);
        // The first refusal ends it: the next part would be refused for the same reason.
        let _ = parts.filter_map(|start| PageRange::from_len(start, pages)).try_for_each(|part| {
            let first = memory.run(part).iov_base.cast::<u8>();
            // The kernel makes a page table, which collapsing needs.
            // SAFETY: the part has just been mapped, is zero, and only the thread that maps it uses
            // it. The span's provenance is that of `memory`.
            unsafe { first.write_volatile(0) };
            memory.advise(part, Advice::Collapse)
        });
    }
}
