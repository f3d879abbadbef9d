//! Forgetting translations, on this CPU.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use vmalloc_tables::{PageRange, Reach, Sv39};

/// The tables of this machine.
pub(crate) type Format = Sv39;
/// The CPUs that forget.
pub(crate) const REACH: Reach = Reach::This;
/// Barriers that were used: there are none.
pub(crate) static BARRIERS: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
pub(crate) fn translation() -> u64 {
    let satp;
    // SAFETY: it only reads.
    unsafe { asm!("csrr {}, satp", out(reg) satp, options(nomem, nostack)) };
    satp
}

#[inline(always)]
pub(crate) fn forget(ranges: &[PageRange]) {
    for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
        // SAFETY: forgetting costs no more than time.
        unsafe { asm!("sfence.vma {}", in(reg) page << 12, options(nostack)) };
    }
}

#[inline(always)]
pub(crate) fn forget_all() {
    // SAFETY: as above.
    unsafe { asm!("sfence.vma", options(nostack)) };
}

/// This CPU may have kept that a page was not there. Others that have ask when they fault.
#[inline(always)]
pub(crate) fn published() {
    forget_all();
}
