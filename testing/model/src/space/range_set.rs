//! A set of pages, kept as disjoint ranges that do not touch.

use std::collections::BTreeMap;
use vmalloc_map::PageRange;

/// Start to end of each range.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
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
        while let Some(met) = self.first_meeting(range) {
            self.0.remove(&met.start());
            let left = PageRange::new(met.start(), range.start());
            let right = PageRange::new(range.end(), met.end());
            self.0.extend([left, right].into_iter().flatten().map(|part| (part.start(), part.end())));
        }
    }

    /// Returns a range of the set that has pages of `range`.
    pub(crate) fn first_meeting(&self, range: PageRange) -> Option<PageRange> {
        let (&start, &end) = self.0.range(..range.end()).next_back()?;
        PageRange::new(start, end).filter(|met| met.intersection(&range).is_some())
    }

    /// Returns whether every page of `range` is in the set.
    pub(crate) fn covers(&self, range: PageRange) -> bool {
        self.first_meeting(range).is_some_and(|met| met.covers(&range))
    }

    /// Returns how many pages are in the set.
    pub(crate) fn pages(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
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
        let mut set = RangeSet::default();
        set.insert(range(10, 20));
        set.insert(range(30, 40));
        set.insert(range(20, 30));
        assert!(set.covers(range(10, 40)));
        set.remove(range(15, 35));
        assert!(!set.covers(range(10, 40)) && set.covers(range(10, 15)) && set.covers(range(35, 40)));
        assert_eq!(set.first_meeting(range(15, 35)), None);
        assert_eq!(set.pages(), 10);
        set.insert(range(0, 100));
        assert_eq!(set.pages(), 100);
    }
}
