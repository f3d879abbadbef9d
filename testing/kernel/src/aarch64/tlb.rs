//! Forgetting translations: on all CPUs at once, for the hardware broadcasts it.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use vmalloc_tables::{Aarch64Pages4K, PageRange, Reach};

/// The tables of this machine.
pub(crate) type Format = Aarch64Pages4K;
/// The CPUs that forget.
pub(crate) const REACH: Reach = Reach::All;
/// Barriers that were used.
pub(crate) static BARRIERS: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
pub(crate) fn translation() -> u64 {
    let features;
    // SAFETY: it only reads.
    unsafe { asm!("mrs {}, id_aa64mmfr0_el1", out(reg) features, options(nomem, nostack)) };
    features
}

#[inline(always)]
fn between_barriers(forget: impl FnOnce()) {
    BARRIERS.fetch_add(2, Ordering::Relaxed);
    // SAFETY: barriers. The first: the entries that were written come before.
    unsafe { asm!("dsb ishst", options(nostack)) };
    forget();
    // SAFETY: as above: what was asked for is done, on all CPUs.
    unsafe { asm!("dsb ish", "isb", options(nostack)) };
}

#[inline(always)]
pub(crate) fn forget(ranges: &[PageRange]) {
    const ADDRESS: u64 = (1 << 44) - 1;
    between_barriers(|| {
        for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
            // SAFETY: forgetting costs no more than time.
            unsafe { asm!("tlbi vaae1is, {}", in(reg) page & ADDRESS, options(nostack)) };
        }
    });
}

#[inline(always)]
pub(crate) fn forget_all() {
    // SAFETY: as above.
    between_barriers(|| unsafe { asm!("tlbi vmalle1is", options(nostack)) });
}

/// Makes entries that were written visible to walks of all CPUs.
#[inline(always)]
pub(crate) fn published() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb", options(nostack)) };
}
