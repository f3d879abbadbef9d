//! Forgetting translations.

use core::sync::atomic::AtomicU64;
use vmalloc_tables::{PageRange, Reach, X86Levels4};
use x86_64::VirtAddr;
use x86_64::instructions::tlb;

/// The tables of this machine.
pub(crate) type Format = X86Levels4;
/// The CPUs that forget.
pub(crate) const REACH: Reach = Reach::This;
/// Barriers that were used: there are none.
pub(crate) static BARRIERS: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
pub(crate) fn translation() -> u64 {
    x86_64::registers::control::Cr4::read_raw()
}

#[inline(always)]
pub(crate) fn forget(ranges: &[PageRange]) {
    for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
        tlb::flush(VirtAddr::new_truncate(page << 12));
    }
}

/// Forgets all, of which none are global.
#[inline(always)]
pub(crate) fn forget_all() {
    tlb::flush_all();
}

#[inline(always)]
pub(crate) fn published() {}
