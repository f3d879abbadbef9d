//! Many areas as ascending ranges with neighbours joined, as a platform is asked to unmap them.

use crate::PageRange;
use alloc::vec::Vec;

/// Fills `ranges` with the pages of `areas`, which are disjoint. `None` when memory is short.
/// O(n log n).
pub(crate) fn coalesce<'a>(
    areas: impl Iterator<Item = &'a PageRange>,
    ranges: &mut Vec<PageRange>,
) -> Option<()> {
    ranges.clear();
    for area in areas {
        // Areas often come beside each other, in either order: then there is less to sort.
        if let Some(last) = ranges.last_mut() {
            let (start, end) = (last.start().min(area.start()), last.end().max(area.end()));
            if end - start == last.len() + area.len() {
                *last = PageRange::of(start, end);
                continue;
            }
        }
        ranges.try_reserve(1).ok()?;
        ranges.push(*area);
    }
    ranges.sort_unstable_by_key(PageRange::start);
    join(ranges);
    Some(())
}

/// Joins neighbours among ascending ranges.
pub(crate) fn join(ranges: &mut Vec<PageRange>) {
    ranges.dedup_by(|next, last| {
        let joins = last.end() == next.start();
        if joins {
            *last = PageRange::of(last.start(), next.end());
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_become_ascending_ranges_with_neighbours_joined() {
        let area = |start, end| PageRange::of(start, end);
        let areas = [
            area(50, 60),
            area(40, 50),
            area(60, 61),
            area(9, 12),
            area(30, 31),
            area(100, 20_000),
            area(12, 13),
            area(1 << 45, 1 << 46),
            area(20_000, 20_001),
            area(1 << 40, 1 << 45),
        ];
        let mut ranges = Vec::new();
        coalesce(areas.iter(), &mut ranges).unwrap();
        let long = [area(100, 20_001), area(1 << 40, 1 << 46)];
        assert_eq!(ranges[..3], [area(9, 13), area(30, 31), area(40, 61)]);
        assert_eq!(ranges[3..], long);
    }
}
