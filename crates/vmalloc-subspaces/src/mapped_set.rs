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
