//! Huge pages, on request.
//!
//! `MADV_HUGEPAGE` is for mappings: advised of a part, the kernel splits the mapping. And it can
//! put a huge page only where no page table is yet, but guard marks have left one nearly
//! everywhere. `MADV_COLLAPSE` (Linux 6.1) is for pages: it leaves the mapping whole, and works at
//! once, not at the first touch, if only one page of it is there. So it is told to collapse each
//! whole, aligned part of a range after that was mapped and a byte touched. If it refuses, the part
//! stays in base pages.
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

    /// Puts huge pages behind the whole, aligned parts of `range`, which is mapped, as far as
    /// memory allows.
    pub(crate) fn collapse(&self, memory: &Reservation, range: PageRange) {
        let Some(order) = self.order(memory.page_shift()) else { return };
        let pages = 1_u64 << order;
        let parts =
            (range.start().next_multiple_of(pages)..range.end() / pages * pages).step_by(pages as usize);
        // The first refusal ends it: the next part would be refused for the same reason.
        let _ = parts.filter_map(|start| PageRange::from_len(start, pages)).try_for_each(|part| {
            touch(memory, part);
            memory.advise(part, Advice::Collapse)
        });
    }
}

/// Has the kernel make a page table, which collapsing needs.
fn touch(memory: &Reservation, part: PageRange) {
    let first = memory.run(part).iov_base.cast::<u8>();
    // SAFETY: the part has just been mapped, is zero, and only the thread that maps it uses it. The
    // span's provenance is that of `memory`.
    unsafe { first.write_volatile(0) };
}
