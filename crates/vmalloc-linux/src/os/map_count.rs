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
//! half of the limit alone. So many small areas never keep a program from large ones. Moved pages
//! have one as well, which leaves a quarter.
//!
//! The kernel merges mappings on its own, and other parts of the program make some, so no count
//! kept here could be exact. What is drawn is an upper bound on the mappings made since the last
//! count. Code that undoes what it drew for gives the mappings back, up to half of the eighth:
//! beyond that the two no longer bound each other, and a count has to tell.
//!
//! A count takes nearly half a microsecond a mapping: with thousands of mappings left, that is
//! nothing for each of them. A count that found few is remembered: once they are drawn, a quarter
//! as many requests as it counted mappings are refused without one. So a refusal pays for four
//! mappings, 2 µs. A program that has unmapped memory meanwhile is counted at once.

use crate::error::refusal;
use crate::os::limits;
use rustix::io::Errno;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use vmalloc::{PlatformError, PlatformFault};

/// The most mappings that treating one range differently from its neighbours adds: the range, and
/// the rest behind it.
pub(crate) const SPLIT: u64 = 2;

/// The part of the limit that may be given back between two counts: half of the eighth.
const GIVEN_BACK_PART: u64 = 16;

/// So many pages fewer are worth a count at once: each mapping has one at least.
const WORTH_A_COUNT: u64 = 64;

/// The mappings of a count that a refusal pays for: after one that found few, so many times fewer
/// requests are refused without a count.
const PAID_FOR: u64 = 4;

/// How many mappings may still be made before the mappings of the program are counted again.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The part of the limit to leave alone: one in so many.
    part: u64,
    left: AtomicI64,
    /// How many may still be given back before that.
    returnable: AtomicI64,
    /// Requests to refuse before the next count.
    passing_over: AtomicU64,
    /// The pages of all mappings at the last count.
    pages: AtomicU64,
    #[cfg(test)]
    counts: AtomicU64,
}

/// The budget of this process. A child of a fork goes on with its parent's, as with its mappings.
pub(crate) static BUDGET: Budget = Budget::leaving(8);

/// The budget of moved pages, which a copy can replace: they leave a quarter, of which an eighth is
/// for what can't do without, such as the chunk that the copy may need.
pub(crate) static MOVED: Budget = Budget::leaving(4);

/// The budget of ranges that can do without.
pub(crate) static SPARE: Budget = Budget::leaving(2);

impl Budget {
    const fn leaving(part: u64) -> Self {
        Self {
            part,
            left: AtomicI64::new(0),
            returnable: AtomicI64::new(0),
            passing_over: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            #[cfg(test)]
            counts: AtomicU64::new(0),
        }
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

    /// Gives back `mappings` that were drawn, and are no longer there.
    pub(crate) fn give_back(&self, mappings: u64) {
        let returned = mappings as i64;
        // Relaxed, as in `take`.
        if self.returnable.fetch_sub(returned, Ordering::Relaxed) >= returned {
            self.left.fetch_add(returned, Ordering::Relaxed);
        } else {
            self.passing_over.store(0, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> i64 {
        self.left.load(Ordering::Relaxed)
    }

    #[cold]
    fn recount(&self, wanted: u64) -> Result<(), PlatformError> {
        // The request is refused, or drawn below. Relaxed, here and below, as in `take`.
        self.left.fetch_add(wanted as i64, Ordering::Relaxed);
        let less = |left: u64| left.checked_sub(1);
        let is_passed = self.passing_over.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let pages = limits::used_bytes(1);
        if is_passed && pages + WORTH_A_COUNT > self.pages.load(Ordering::Relaxed) {
            return Err(map_limit());
        }
        self.pages.store(pages, Ordering::Relaxed);
        #[cfg(test)]
        self.counts.fetch_add(1, Ordering::Relaxed);
        // Where /proc does not tell, the kernel refuses.
        let (Some(count), Some(max)) = (limits::map_count(), limits::max_map_count()) else { return Ok(()) };
        let left = (max - max / self.part).saturating_sub(count);
        self.returnable.store((max / GIVEN_BACK_PART) as i64, Ordering::Relaxed);
        // Few are handed out, and the next count waits as after one in vain.
        let is_much = left >= wanted.max(max / GIVEN_BACK_PART);
        self.passing_over.store(if is_much { 0 } else { count / PAID_FOR }, Ordering::Relaxed);
        let handed_out = if left < wanted { Err(map_limit()) } else { Ok(wanted) };
        self.left.store((left - handed_out.unwrap_or(0)) as i64, Ordering::Relaxed);
        handed_out.map(drop)
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
        assert_eq!(budget.take(SPLIT), Ok(()));
    }

    /// A refusal pays for four mappings of a count, however many are refused.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn refusals_are_remembered() {
        const REFUSALS: u64 = 10_000;
        let budget = Budget::leaving(8);
        let (Some(max), Some(least)) = (limits::max_map_count(), limits::map_count()) else { return };
        assert!((0..REFUSALS).all(|_| budget.take(max).is_err()));
        let counts = budget.counts.load(Ordering::Relaxed);
        // Other tests may unmap something meanwhile.
        assert!(counts * (least / 2 / PAID_FOR) <= REFUSALS, "{counts} counts of {least} mappings");
    }

    /// A program at the limit that frees what it allocates, again and again.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn what_is_given_back_can_be_drawn_again_without_a_count_until_the_bounds_part() {
        let budget = Budget::leaving(8);
        let Some(max) = limits::max_map_count() else { return };
        budget.take(SPLIT).unwrap();
        let all = budget.left.load(Ordering::Relaxed) as u64;
        budget.take(all).unwrap();
        for _ in 0..max / GIVEN_BACK_PART / SPLIT {
            budget.give_back(SPLIT);
            budget.take(SPLIT).unwrap();
        }
        assert_eq!(budget.counts.load(Ordering::Relaxed), 1);
        budget.give_back(SPLIT);
        assert_eq!(budget.left.load(Ordering::Relaxed), 0, "the next request counts");
    }
}
