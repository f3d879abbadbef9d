//! The mapped pages of a sub-space.
//!
//! Ranges that are unmapped hold guard pages and pages that were never mapped, and may be handed in
//! twice, so a count would drift. So it is a [set of pages](PageSet).
//!
//! A page is entered before the platform below is asked to map it, and removed when that has
//! flushed it. So the set holds every page through which memory may be reachable. Errors are on
//! that side, too: where memory for records is too short to split a range, it stays entered whole
//! until the rest of it is flushed.

use crate::LIMIT_BYTES;
use vmalloc::{FitError, PageRange, PageSet, PlatformError, PlatformFault};

/// The [`PlatformError::call`] where there was no memory for a record.
const RECORD: &str = "record of mapped pages";

/// The mapped pages of a sub-space.
pub(crate) struct MappedSet {
    mapped: PageSet,
    /// The most pages that may be mapped.
    limit: u64,
}

/// Pages entered before the platform maps them.
#[must_use]
pub(crate) struct Charge {
    range: PageRange,
    /// None of them was mapped before.
    all_new: bool,
}

impl MappedSet {
    /// Returns the empty set over `span`, which never holds more than `limit` pages.
    pub(crate) fn new(span: PageRange, limit: u64) -> Result<Self, FitError> {
        Ok(Self { mapped: PageSet::new(span)?, limit })
    }

    /// Returns the number of mapped pages.
    pub(crate) fn used(&self) -> u64 {
        self.mapped.len()
    }

    /// Returns the range from the first mapped page to the last.
    pub(crate) fn bounds(&self) -> Option<PageRange> {
        self.mapped.bounds()
    }

    /// Enters `range`, if the limit allows it.
    pub(crate) fn charge(&mut self, range: PageRange) -> Result<Charge, PlatformError> {
        if range.len() - self.mapped.len_in(range) > self.limit.saturating_sub(self.used()) {
            return Err(PlatformError { call: LIMIT_BYTES, fault: PlatformFault::OutOfMemory, code: 0 });
        }
        self.enter(range)
    }

    /// Enters `range` whatever the limit, for pages that only move.
    pub(crate) fn enter(&mut self, range: PageRange) -> Result<Charge, PlatformError> {
        let all_new = self.mapped.len_in(range) == 0;
        let no_record = |_| PlatformError { call: RECORD, fault: PlatformFault::OutOfMemory, code: 0 };
        self.mapped.insert(range).map_err(no_record)?;
        Ok(Charge { range, all_new })
    }

    /// Removes pages that the platform did not map. If some were mapped before, all of them stay
    /// entered until they are flushed.
    pub(crate) fn refund(&mut self, charge: &Charge) {
        if charge.all_new {
            self.clear(charge.range);
        }
    }

    /// Removes `range`, through which nothing is reachable any more.
    pub(crate) fn clear(&mut self, range: PageRange) {
        self.mapped.remove(range);
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
    fn behaves_as_a_set_of_pages() {
        let mut under_test = MappedSet::new(range(10, 600), 200).unwrap();
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
                under_test.clear(pages);
                set.retain(|page| !all.contains(page));
            } else {
                let fits = set.union(&all.clone().collect()).count() <= 200;
                let charge = under_test.charge(pages);
                assert_eq!(charge.is_ok(), fits);
                match charge {
                    Ok(charge) if charge.all_new && random(4) == 0 => under_test.refund(&charge),
                    Ok(_) => set.extend(all),
                    Err(error) => {
                        assert_eq!(error.call, LIMIT_BYTES);
                        refused += 1;
                    }
                }
            }
            assert_eq!(under_test.used(), set.len() as u64);
            let bounds = set.first().zip(set.last()).map(|(&first, &last)| range(first, last + 1));
            assert_eq!(under_test.bounds(), bounds);
            under_test.mapped.verify().unwrap();
        }
        assert!(cfg!(miri) || refused > 100, "{refused}");
    }
}
