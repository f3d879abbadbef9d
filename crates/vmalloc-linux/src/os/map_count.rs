//! The budget of mappings: how many of the program's `vm.max_map_count` may still be made here.
//!
//! At that limit every mmap(2) of the program fails, and malloc(3) with it. So all code that makes
//! mappings on behalf of an area draws them from one budget first, which all reservations of the
//! program share: for opened chunks, guards by mprotect(2), mapped frames, changed protections and
//! moved pages. The budget leaves an eighth of the limit
//! alone, and refuses with [`MapLimit`](vmalloc::PlatformFault::MapLimit) before the kernel would.
//! Unmapping an area draws nothing: in one piece it gives mappings back, and the eighth is there
//! for the cases that split. But unlocking a part of a locked area draws some, since all of it may
//! be locked.
//!
//! Ranges that can do without a mapping of their own draw from a second budget first, which leaves
//! half of the limit alone. So many small areas never keep a program from large ones.
//!
//! The kernel merges mappings on its own, and other parts of the program make some, so no count
//! kept here could be exact. This one is an upper bound on the mappings made since the last count,
//! which takes half a microsecond a mapping. With thousands of mappings left, that is nothing for
//! each of them. At the limit a count that found too few is remembered until this library unmaps
//! something: the next 2, 4, 8 … requests are refused without one. So the counts are few, however
//! many requests are refused.

use crate::error::refusal;
use crate::os::limits;
use rustix::io::Errno;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use vmalloc::{PlatformError, PlatformFault};

/// The most mappings that treating one range differently from its neighbours adds: the range, and
/// the rest behind it.
pub(crate) const SPLIT: u64 = 2;

/// The fewest mappings worth a new count: near the limit no more than every 32nd range pays for
/// one.
const GRANT: u64 = 32 * SPLIT;

/// The most requests that are refused without a count. Mappings that the program has given up are
/// found after so many.
const MOST_PASSED_OVER: u32 = 5000;

/// How many mappings may still be made before the mappings of the program are counted again.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The part of the limit to leave alone: one in so many.
    part: u64,
    left: AtomicI64,
    /// Requests to refuse before the next count.
    passing_over: AtomicU32,
    /// As many as were refused before the last count.
    passed_over: AtomicU32,
}

/// The budget of this process. A child of a fork goes on with its parent's, as with its mappings.
pub(crate) static BUDGET: Budget = Budget::leaving(8);

/// The budget of ranges that can do without.
pub(crate) static SPARE: Budget = Budget::leaving(2);

impl Budget {
    const fn leaving(part: u64) -> Self {
        let (passing_over, passed_over) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { part, left: AtomicI64::new(0), passing_over, passed_over }
    }

    /// Draws `mappings`.
    #[inline]
    pub(crate) fn take(&self, mappings: u64) -> Result<(), PlatformError> {
        let wanted = mappings as i64;
        // Relaxed: a number and nothing else. The eighth absorbs threads that race for the last of
        // it.
        if wanted == 0 || self.left.fetch_sub(wanted, Ordering::Relaxed) >= wanted {
            return Ok(());
        }
        self.recount(mappings)
    }

    /// Forgets refusals: some mappings may have come back.
    pub(crate) fn renew(&self) {
        // Relaxed, as in `take`. A look first: no line is written where nothing was refused.
        if self.passed_over.load(Ordering::Relaxed) != 0 {
            self.passed_over.store(0, Ordering::Relaxed);
            self.passing_over.store(0, Ordering::Relaxed);
        }
    }

    #[cold]
    fn recount(&self, wanted: u64) -> Result<(), PlatformError> {
        // Relaxed, here and below, as in `take`.
        let less = |left: u32| left.checked_sub(1);
        if self.passing_over.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return Err(map_limit());
        }
        // Where /proc does not tell, the kernel refuses.
        let (Some(count), Some(max)) = (limits::map_count(), limits::max_map_count()) else { return Ok(()) };
        let left = (max - max / self.part).saturating_sub(count);
        if left < GRANT.max(wanted) {
            // Mappings that were drawn in vain by many refusals must not add up.
            self.left.store(0, Ordering::Relaxed);
            let passed =
                self.passed_over.load(Ordering::Relaxed).saturating_mul(2).clamp(1, MOST_PASSED_OVER);
            self.passed_over.store(passed, Ordering::Relaxed);
            self.passing_over.store(passed, Ordering::Relaxed);
            return Err(map_limit());
        }
        self.passed_over.store(0, Ordering::Relaxed);
        self.left.store((left - wanted) as i64, Ordering::Relaxed);
        Ok(())
    }
}

fn map_limit() -> PlatformError {
    refusal("map (7/8 of vm.max_map_count are in use)", PlatformFault::MapLimit, Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn what_can_never_be_had_is_refused_by_name_and_the_rest_goes_on() {
        let budget = Budget::leaving(8);
        assert_eq!(budget.take(0), Ok(()));
        let Some(max) = limits::max_map_count() else { return };
        for _ in 0..3 {
            let refused = budget.take(max).unwrap_err();
            assert_eq!(refused.fault, PlatformFault::MapLimit);
            assert!(refused.call.contains("vm.max_map_count"));
        }
        assert!(budget.take(SPLIT).is_err(), "it is remembered");
        budget.renew();
        assert_eq!(budget.take(SPLIT), Ok(()));
    }

    /// Refusals cost counts of all mappings: a few for thousands.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn refusals_are_remembered() {
        let budget = Budget::leaving(8);
        let Some(max) = limits::max_map_count() else { return };
        let counts = (0..10_000).filter(|_| {
            let counts = budget.passing_over.load(Ordering::Relaxed) == 0;
            assert!(budget.take(max).is_err());
            counts
        });
        assert!(counts.count() < 20);
    }
}
