//! What a child has mapped: exactly, whatever is unmapped in which portions.
//!
//! Ranges that are unmapped hold guard pages and pages that were never mapped, and may be handed in twice: a mere count would drift.
//! So the mapped pages are kept as the busy areas of a map over the child's span; its memory follows the ranges, not their
//! pages.
//!
//! Pages are entered before the platform below is asked to map them, and taken out when it has flushed them: what is entered
//! is all that may be reachable. Errors are on that side too. Where memory for records is so short that a range can't be
//! split it stays entered whole, until the rest of it is flushed.

use super::{CALL, LIMIT_BYTES};
use crate::addr::PageRange;
use crate::area_map::{AreaMap, State};
use crate::error::AllocError;
use crate::platform::{PlatformError, PlatformFault};

/// The mapped pages of a child.
pub(super) struct Ledger {
    mapped: AreaMap,
    /// The most pages that may be mapped.
    limit: u64,
}

/// Pages that are mapped now, if the platform agrees.
#[must_use]
pub(super) struct Charge {
    range: PageRange,
    /// Whether none of them was mapped before.
    all_new: bool,
}

impl Ledger {
    /// Nothing is mapped of `span`, and no more than `limit` pages will be.
    pub(super) fn new(span: PageRange, limit: u64) -> Result<Self, AllocError> {
        Ok(Self { mapped: AreaMap::new(span)?, limit })
    }

    /// Pages mapped.
    pub(super) fn used(&self) -> u64 {
        self.mapped.span().len() - self.mapped.free_pages()
    }

    /// From the first mapped page to the last.
    pub(super) fn bounds(&self) -> Option<PageRange> {
        let mut mapped = self.mapped.segments().filter(|segment| segment.state != State::Free);
        let first = mapped.next()?.range;
        let last = mapped.last().map_or(first, |segment| segment.range);
        Some(PageRange::of(first.start(), last.end()))
    }

    /// Enters `range`, if the limit allows it.
    pub(super) fn charge(&mut self, range: PageRange) -> Result<Charge, PlatformError> {
        if range.len() - self.used_in(range) > self.limit.saturating_sub(self.used()) {
            return Err(PlatformError { call: LIMIT_BYTES, fault: PlatformFault::OutOfMemory, code: 0 });
        }
        self.enter(range)
    }

    /// Enters `range`, whatever the limit: for pages that only move.
    pub(super) fn enter(&mut self, range: PageRange) -> Result<Charge, PlatformError> {
        let all_new = self.used_in(range) == 0;
        let mut page = range.start();
        while let Some(segment) = self.segment_in(range, page) {
            if segment.state == State::Free {
                let call = || PlatformError { call: CALL, fault: PlatformFault::OutOfMemory, code: 0 };
                self.mapped.alloc_at(segment.range).map_err(|_| call())?;
            }
            page = segment.range.end();
        }
        Ok(Charge { range, all_new })
    }

    /// The platform did not map it. What was mapped before stays so; if there was any, all of it does until it is flushed.
    pub(super) fn refund(&mut self, charge: &Charge) {
        if charge.all_new {
            self.clear(charge.range);
        }
    }

    /// Takes `range` out, which nothing reaches any more.
    pub(super) fn clear(&mut self, range: PageRange) {
        for edge in [range.start(), range.end()] {
            // Where it fails the range around stays entered.
            let _ = self.mapped.split(edge);
        }
        let mut page = range.start();
        while let Some(segment) = self.mapped.segment(page).filter(|_| page < range.end()) {
            if segment.state != State::Free && range.covers(&segment.range) {
                let freed = self.mapped.free(segment.range.start());
                debug_assert!(freed.is_ok(), "a busy area can be freed");
            }
            page = segment.range.end();
        }
    }

    fn used_in(&self, range: PageRange) -> u64 {
        let (mut page, mut used) = (range.start(), 0);
        while let Some(segment) = self.segment_in(range, page) {
            if segment.state != State::Free {
                used += segment.range.len();
            }
            page = segment.range.end();
        }
        used
    }

    /// The part inside `range` of the segment at `page`, if that is inside.
    fn segment_in(&self, range: PageRange, page: u64) -> Option<crate::area_map::Segment> {
        let mut segment = self.mapped.segment(page)?;
        segment.range = segment.range.intersection(&range)?;
        range.contains(page).then_some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(start, end).unwrap()
    }

    #[test]
    fn the_ledger_is_a_set_of_pages() {
        let mut ledger = Ledger::new(range(10, 600), 200).unwrap();
        let (mut set, mut x) = (BTreeSet::new(), 1u64);
        let mut random = |below: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % below
        };
        let mut refused = 0;
        let turns = if cfg!(miri) { 6 } else { 3000 };
        for _ in 0..turns {
            let start = 10 + random(580);
            let pages = range(start, (start + 1 + random(90)).min(600));
            let all = pages.start()..pages.end();
            if random(2) == 0 {
                ledger.clear(pages);
                set.retain(|page| !all.contains(page));
            } else {
                let fits = set.union(&all.clone().collect()).count() <= 200;
                let charge = ledger.charge(pages);
                assert_eq!(charge.is_ok(), fits);
                match charge {
                    Ok(charge) if charge.all_new && random(4) == 0 => ledger.refund(&charge),
                    Ok(_) => set.extend(all),
                    Err(error) => {
                        assert_eq!(error.call, LIMIT_BYTES);
                        refused += 1;
                    }
                }
            }
            assert_eq!(ledger.used(), set.len() as u64);
            let bounds = set.first().zip(set.last()).map(|(&first, &last)| range(first, last + 1));
            assert_eq!(ledger.bounds(), bounds);
            ledger.mapped.verify().unwrap();
        }
        assert!(cfg!(miri) || refused > 100, "{refused}");
    }
}
