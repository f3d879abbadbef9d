//! What the owner of a slot has written.

use crate::options::Layout;
use crate::record::Pages;
use core::ops::Range;

/// The bytes of a slot that may hold anything but zeros, counted from its start. What is not
/// committed counts as clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dirty<'a> {
    /// All that is committed.
    Unknown,
    /// Bytes below this one.
    Below(usize),
    /// These bytes. Empty and reversed ranges have none.
    Ranges(&'a [Range<usize>]),
}

impl Dirty<'_> {
    /// Calls `each` with the pages of every dirty range below `limit`. They may overlap.
    pub(crate) fn each(&self, layout: &Layout, limit: u64, mut each: impl FnMut(Pages)) {
        let mut tell = |start: u64, end: u64| {
            let pages = Pages { start, end }.below(limit);
            if !pages.is_empty() {
                each(pages);
            }
        };
        match self {
            Self::Unknown => tell(0, limit),
            Self::Below(bytes) => tell(0, layout.pages_of(*bytes)),
            Self::Ranges(ranges) => {
                for range in ranges.iter().filter(|range| !range.is_empty()) {
                    tell((range.start >> layout.shift) as u64, layout.pages_of(range.end));
                }
            }
        }
    }

    /// Returns the most pages below `limit` that are dirty, and the end of the last.
    pub(crate) fn extent(&self, layout: &Layout, limit: u64) -> (u64, u64) {
        let (mut count, mut end) = (0u64, 0);
        self.each(layout, limit, |pages| {
            count = count.saturating_add(pages.len());
            end = end.max(pages.end);
        });
        (count.min(end), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SlotsOptions;
    use std::vec::Vec;
    use vmalloc::{Geometry, PageRange};

    fn pages(dirty: Dirty<'_>) -> (Vec<(u64, u64)>, (u64, u64)) {
        let geometry = Geometry::new(PageRange::new(0x10, 0x1010).unwrap(), 12, 2);
        let layout = SlotsOptions::new(100 << 12).check(&geometry).unwrap();
        let mut found = Vec::new();
        dirty.each(&layout, 50, |pages| found.push((pages.start, pages.end)));
        (found, dirty.extent(&layout, 50))
    }

    #[test]
    fn dirty_bytes_are_whole_pages_below_the_limit() {
        assert_eq!(pages(Dirty::Unknown), (Vec::from([(0, 50)]), (50, 50)));
        assert_eq!(pages(Dirty::Below(0)), (Vec::new(), (0, 0)));
        assert_eq!(pages(Dirty::Below(4097)), (Vec::from([(0, 2)]), (2, 2)));
        assert_eq!(pages(Dirty::Below(usize::MAX)).1, (50, 50));
        #[allow(clippy::reversed_empty_ranges)]
        let ranges = [0..1, 9..3, 7..7, 8191..8193, 49 << 12..usize::MAX, 50 << 12..60 << 12];
        assert_eq!(pages(Dirty::Ranges(&ranges)), (Vec::from([(0, 1), (1, 3), (49, 50)]), (4, 50)));
    }

    #[test]
    fn overlapping_ranges_count_no_more_than_their_hull() {
        let ranges = [0..5000, 0..6000, 4096..8192];
        assert_eq!(pages(Dirty::Ranges(&ranges)).1, (2, 2));
    }
}
