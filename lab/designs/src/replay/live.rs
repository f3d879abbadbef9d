//! The areas of a trace that are live at a moment: by address, none over another.

use std::collections::BTreeMap;
use std::ops::Range;
use vmalloc::PageRange;

/// An area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) slot: u32,
    pub(super) shape: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Live(BTreeMap<u64, Area>);

impl Live {
    /// Adds an area, where no other is.
    pub(super) fn put(&mut self, area: Area) {
        let before = self.0.insert(area.start, area);
        debug_assert!(before.is_none());
    }

    /// Takes the area that starts there.
    pub(super) fn take(&mut self, start: u64) -> Option<Area> {
        self.0.remove(&start)
    }

    /// Takes the highest area that has a page of `pages`.
    pub(super) fn take_in(&mut self, pages: &Range<u64>) -> Option<Area> {
        // Areas that start below have their ends in the same order.
        let (&start, area) = self.0.range(..pages.end).next_back()?;
        if area.end > pages.start { self.0.remove(&start) } else { None }
    }

    /// The pages from the start of the lowest area in `range` to the end of the highest.
    pub(super) fn span(&self, range: &PageRange) -> u64 {
        let mut areas = self.0.range(range.start()..range.end()).map(|(_, area)| area);
        let Some(first) = areas.next() else { return 0 };
        areas.next_back().unwrap_or(first).end - first.start
    }

    /// All, by address.
    pub(super) fn into_areas(self) -> impl Iterator<Item = Area> {
        self.0.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_found_by_any_of_their_pages() {
        let area = |start, end| Area { start, end, slot: 0, shape: 0 };
        let mut live = Live::default();
        for area in [area(10, 20), area(20, 30), area(40, 50)] {
            live.put(area);
        }
        assert_eq!(live.take_in(&(30..40)), None);
        assert_eq!(live.take_in(&(0..10)), None);
        assert_eq!(live.take_in(&(15..41)), Some(area(40, 50)));
        assert_eq!(live.take_in(&(15..41)), Some(area(20, 30)));
        assert_eq!(live.take_in(&(15..41)), Some(area(10, 20)));
        assert_eq!(live.take_in(&(0..100)), None);
    }
}
