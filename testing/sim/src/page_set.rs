//! A set of pages, kept as disjoint ranges that do not touch: its size follows the ranges, not the
//! pages.

use std::collections::BTreeMap;
use vmalloc::PageRange;

/// Start to end of each range.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSet(BTreeMap<u64, u64>);

impl PageSet {
    /// Adds every page of `range`.
    pub(crate) fn insert(&mut self, range: PageRange) {
        let (mut start, mut end) = (range.start(), range.end());
        while let Some((&low, &high)) = self.0.range(..=end).next_back().filter(|&(_, &high)| high >= start) {
            (start, end) = (start.min(low), end.max(high));
            self.0.remove(&low);
        }
        self.0.insert(start, end);
    }

    /// Takes every page of `range` out.
    pub(crate) fn remove(&mut self, range: PageRange) {
        while let Some(met) = self.last_meeting(range) {
            self.0.remove(&met.start());
            let left = PageRange::new(met.start(), range.start());
            let right = PageRange::new(range.end(), met.end());
            self.0.extend([left, right].into_iter().flatten().map(|part| (part.start(), part.end())));
        }
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        PageRange::from_len(page, 1).is_some_and(|page| self.last_meeting(page).is_some())
    }

    /// Returns a page of `range` that is in the set.
    pub(crate) fn page_in(&self, range: PageRange) -> Option<u64> {
        self.last_meeting(range).map(|met| met.start().max(range.start()))
    }

    /// Returns the first page of `range` that is not in the set.
    pub(crate) fn missing(&self, range: PageRange) -> Option<u64> {
        let first = PageRange::from_len(range.start(), 1).and_then(|first| self.last_meeting(first));
        match first {
            None => Some(range.start()),
            Some(met) => Some(met.end()).filter(|&end| end < range.end()),
        }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.0.iter().filter_map(|(&start, &end)| PageRange::new(start, end))
    }

    /// Returns the last range of the set that has pages of `range`.
    fn last_meeting(&self, range: PageRange) -> Option<PageRange> {
        let (&start, &end) = self.0.range(..range.end()).next_back()?;
        PageRange::new(start, end).filter(|met| met.intersection(&range).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(start, end).unwrap()
    }

    #[test]
    fn ranges_merge_and_split() {
        let mut set = PageSet::default();
        for part in [range(10, 20), range(30, 40), range(20, 30)] {
            set.insert(part);
        }
        assert!(set.ranges().eq([range(10, 40)]));
        set.remove(range(15, 35));
        assert!(set.ranges().eq([range(10, 15), range(35, 40)]));
        assert_eq!((set.page_in(range(15, 35)), set.page_in(range(12, 36))), (None, Some(35)));
        assert_eq!((set.missing(range(10, 15)), set.missing(range(10, 16))), (None, Some(15)));
        assert_eq!(set.missing(range(9, 12)), Some(9));
        assert!(set.contains(14) && !set.contains(15));
    }
}
