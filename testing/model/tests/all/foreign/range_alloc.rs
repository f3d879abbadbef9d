//! The nineteen scenarios of `range-alloc` 0.1.5 (MIT or Apache-2.0).
//!
//! It places by best fit, aligns to any multiple, frees ranges of any cut, and grows at its end.

#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are what is compared")]

use std::ops::Range;
use vmalloc_map::State;
use vmalloc_map::{AreaMap, Fit, PageRange, Policy};

struct Ranges(AreaMap<'static>);

impl Ranges {
    fn new(range: Range<u64>) -> Self {
        Self(AreaMap::new(range.try_into().expect("not empty")).expect("room"))
    }

    fn allocate(&mut self, len: u64) -> Option<Range<u64>> {
        self.allocate_aligned(len, 1)
    }

    fn allocate_aligned(&mut self, len: u64, align: u64) -> Option<Range<u64>> {
        let fit = Fit::new(len).multiple_of(align).policy(Policy::Best);
        self.0.alloc(&fit).ok().map(Range::from)
    }

    /// Frees all of `range`, however many areas or parts of them that is.
    fn free(&mut self, range: Range<u64>) {
        let range = PageRange::try_from(range).expect("not empty");
        let parts: Vec<_> = self.0.areas().filter_map(|area| area.range.intersection(&range)).collect();
        parts.into_iter().for_each(|part| self.0.free_part(part).expect("it is allocated"));
        self.0.verify().expect("intact");
    }

    fn grow_to(&mut self, end: u64) {
        self.0.extend(end).expect("it grows");
    }

    fn free_ranges(&self) -> Vec<Range<u64>> {
        self.0.free_ranges().map(Range::from).collect()
    }

    /// Returns the allocated ranges, neighbours as one range.
    fn allocated(&self) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = Vec::new();
        for area in self.0.segments().filter(|segment| segment.state != State::Free) {
            match all.last_mut().filter(|last| last.end == area.range.start()) {
                Some(last) => last.end = area.range.end(),
                None => all.push(area.range.into()),
            }
        }
        all
    }
}

/// Returns an allocator over `0..end` with areas of these sizes, side by side.
fn filled(end: u64, sizes: &[u64]) -> Ranges {
    let mut ranges = Ranges::new(0..end);
    let mut start = 0;
    for &size in sizes {
        assert_eq!(ranges.allocate(size), Some(start..start + size));
        start += size;
    }
    ranges
}

#[test]
fn one_range_is_allocated_and_freed() {
    let mut ranges = filled(10, &[4]);
    assert_eq!(ranges.allocated(), [0..4]);
    ranges.free(0..4);
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![0..10], vec![]));
}

#[test]
fn a_full_span_refuses() {
    let mut ranges = filled(10, &[10]);
    assert_eq!((ranges.allocated(), ranges.allocate(4)), (vec![0..10], None));
    ranges.free(0..10);
}

#[test]
fn a_span_that_grew_takes_more() {
    let mut ranges = filled(11, &[10]);
    assert_eq!((ranges.allocated(), ranges.allocate(4)), (vec![0..10], None));
    ranges.grow_to(20);
    assert_eq!(ranges.allocate(4), Some(10..14));
    ranges.free(0..14);
    assert_eq!(ranges.free_ranges(), [0..20]);
}

#[test]
fn growth_leaves_a_free_range_at_the_start() {
    let mut ranges = filled(6, &[3, 3]);
    ranges.free(0..3);
    ranges.grow_to(9);
    assert_eq!(ranges.allocated(), [3..6]);
}

#[test]
fn growth_leaves_a_free_range_in_the_middle() {
    let mut ranges = filled(6, &[2, 2, 2]);
    ranges.free(2..4);
    ranges.grow_to(9);
    assert_eq!(ranges.allocated(), [0..2, 4..6]);
}

#[test]
fn a_range_that_is_too_small_is_passed_over() {
    let mut ranges = filled(10, &[3, 3, 3]);
    ranges.free(3..6);
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![3..6, 9..10], vec![0..3, 6..9]));
    assert_eq!(ranges.allocate(3), Some(3..6));
}

#[test]
fn every_second_range_is_freed_and_filled_again() {
    let tens = || (0..5).map(|n| 20 * n);
    let mut ranges = filled(100, &[10; 10]);
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![], vec![0..100]));
    tens().for_each(|at| ranges.free(at + 10..at + 20));
    assert!(ranges.free_ranges().into_iter().eq(tens().map(|at| at + 10..at + 20)));
    assert!(ranges.allocated().into_iter().eq(tens().map(|at| at..at + 10)));
    tens().for_each(|at| assert_eq!(ranges.allocate(6), Some(at + 10..at + 16)));
    assert!(ranges.free_ranges().into_iter().eq(tens().map(|at| at + 16..at + 20)));
    assert_eq!(ranges.allocated(), [0..16, 20..36, 40..56, 60..76, 80..96]);
    tens().for_each(|at| assert_eq!(ranges.allocate(4), Some(at + 16..at + 20)));
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![], vec![0..100]));
}

#[test]
fn a_range_that_fits_better_is_preferred() {
    let mut ranges = filled(10, &[3, 3, 3]);
    ranges.free(3..6);
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![3..6, 9..10], vec![0..3, 6..9]));
    assert_eq!(ranges.allocate(1), Some(9..10));
}

#[test]
fn neighbours_become_one_range() {
    let mut ranges = filled(9, &[3, 3, 3]);
    [0..3, 6..9, 3..6].into_iter().for_each(|range| ranges.free(range));
    assert_eq!((ranges.free_ranges(), ranges.allocated()), (vec![0..9], vec![]));
}

#[test]
fn an_aligned_start_is_used_as_it_is() {
    let mut ranges = Ranges::new(0..20);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(0..4));
    assert_eq!(ranges.free_ranges(), vec![4..20]);
}

#[test]
fn space_skipped_by_alignment_stays_free() {
    let mut ranges = filled(20, &[1]);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(4..8));
    assert_eq!(ranges.free_ranges(), vec![1..4, 8..20]);
}

#[test]
fn space_skipped_by_alignment_is_allocated() {
    let mut ranges = filled(20, &[1]);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(4..8));
    assert_eq!(ranges.allocate(3), Some(1..4));
    assert_eq!(ranges.free_ranges(), vec![8..20]);
}

#[test]
fn a_range_without_an_aligned_place_is_none() {
    assert_eq!(filled(5, &[1]).allocate_aligned(4, 4), None);
}

#[test]
fn an_aligned_place_may_end_with_its_range() {
    let mut ranges = filled(8, &[1]);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(4..8));
    assert_eq!(ranges.free_ranges(), vec![1..4]);
}

#[test]
fn the_best_fit_may_be_aligned() {
    let mut ranges = filled(32, &[4, 4, 4, 4, 4, 12]);
    ranges.free(4..8);
    ranges.free(12..20);
    assert_eq!(ranges.free_ranges(), vec![4..8, 12..20]);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(4..8));
}

#[test]
fn an_alignment_may_be_three() {
    let mut ranges = filled(20, &[1]);
    assert_eq!(ranges.allocate_aligned(2, 3), Some(3..5));
    assert_eq!(ranges.free_ranges(), vec![1..3, 5..20]);
}

#[test]
fn aligned_ranges_follow_each_other() {
    let mut ranges = Ranges::new(0..32);
    for start in [0, 8, 16] {
        assert_eq!(ranges.allocate_aligned(4, 8), Some(start..start + 4));
    }
    assert_eq!(ranges.free_ranges(), vec![4..8, 12..16, 20..32]);
}

#[test]
fn an_aligned_range_is_merged_when_it_is_freed() {
    let mut ranges = filled(16, &[1]);
    assert_eq!(ranges.allocate_aligned(4, 4), Some(4..8));
    ranges.free(4..8);
    assert_eq!(ranges.free_ranges(), vec![1..16]);
}

#[test]
fn without_an_alignment_any_start_will_do() {
    let mut ranges = filled(10, &[4, 3]);
    assert_eq!(ranges.free_ranges(), vec![7..10]);
    ranges.free(0..4);
    assert_eq!(ranges.free_ranges(), vec![0..4, 7..10]);
}
