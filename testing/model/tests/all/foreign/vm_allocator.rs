//! The twelve scenarios of the address allocator of `vm-allocator` 0.1.4 (Apache-2.0 or
//! BSD-3-Clause).
//!
//! Its ranges are inclusive, its policies the first, the last or an exact match.

use vmalloc_map::{AreaMap, Fit, PageRange, Policy};

#[derive(Clone, Copy)]
enum Match {
    First,
    Last,
    Exact(u64),
}

struct Addresses(AreaMap<'static>);

impl Addresses {
    fn new(base: u64, size: u64) -> Option<Self> {
        Some(Self(AreaMap::new(PageRange::from_len(base, size)?).ok()?))
    }

    /// Returns the first and the last address.
    fn allocate(&mut self, size: u64, align: u64, which: Match) -> Option<(u64, u64)> {
        let fit = Fit::new(size).align(align);
        let fit = match which {
            Match::First => fit,
            Match::Last => fit.policy(Policy::Highest),
            Match::Exact(at) => fit.within(at, at + size),
        };
        self.0.alloc(&fit).ok().map(|area| (area.start(), area.end() - 1))
    }

    /// Frees the area from `first` to `last`; false if there is none.
    fn free(&mut self, first: u64, last: u64) -> bool {
        self.0.find(first) == PageRange::new(first, last + 1) && self.0.free(first).is_ok()
    }
}

#[test]
fn exact_matches_check_size_and_alignment() {
    let mut pool = Addresses::new(0, 0x2000).expect("room");
    assert_eq!(pool.allocate(0x1000, 0x1000, Match::Exact(0x1000)), Some((0x1000, 0x1fff)));
    assert_eq!(pool.allocate(0, 0x1000, Match::First), None, "no size");
    assert_eq!(pool.allocate(0x1000, 0x1000, Match::Exact(3)), None, "not aligned");
    assert_eq!(pool.allocate(0x1000, 0x1000, Match::Exact(0)), Some((0, 0xfff)));
}

#[test]
fn a_span_beyond_all_numbers_is_refused() {
    assert!(Addresses::new(u64::MAX, 0x100).is_none());
}

#[test]
fn an_empty_span_is_refused() {
    assert!(Addresses::new(0x1000, 0).is_none());
}

#[test]
fn alignment_zero_is_refused() {
    let mut pool = Addresses::new(0x1000, 0x10000).expect("room");
    assert_eq!(pool.allocate(0x100, 0, Match::First), None);
}

#[test]
fn an_alignment_that_is_no_power_of_two_is_refused() {
    let mut pool = Addresses::new(0x1000, 0x10000).expect("room");
    assert_eq!(pool.allocate(0x100, 200, Match::First), None);
}

#[test]
fn requests_are_refused_only_if_too_large() {
    let mut pool = Addresses::new(0x1000, 0x1000).expect("room");
    assert_eq!(pool.allocate(0x800, 0x100, Match::Last), Some((0x1800, 0x1fff)));
    assert_eq!(pool.allocate(0x900, 0x100, Match::First), None);
    assert_eq!(pool.allocate(0x400, 0x100, Match::First), Some((0x1000, 0x13ff)));
}

#[test]
fn the_first_match_is_aligned() {
    let mut pool = Addresses::new(0x1000, 0x1000).expect("room");
    assert_eq!(pool.allocate(0x110, 0x100, Match::First), Some((0x1000, 0x110f)));
    assert_eq!(pool.allocate(0x100, 0x100, Match::First), Some((0x1200, 0x12ff)));
    assert_eq!(pool.allocate(0x10, 0x100, Match::First), Some((0x1300, 0x130f)));
}

#[test]
fn the_last_match_is_aligned() {
    let mut pool = Addresses::new(0x1000, 0x10000).expect("room");
    assert_eq!(pool.allocate(0x110, 0x100, Match::Last), Some((0x10e00, 0x10f0f)));
    assert_eq!(pool.allocate(0x100, 0x100, Match::Last), Some((0x10d00, 0x10dff)));
    assert_eq!(pool.allocate(0x10, 0x100, Match::Last), Some((0x10c00, 0x10c0f)));
}

#[test]
fn an_exact_match_needs_room_for_all_of_it() {
    let mut pool = Addresses::new(0x1000, 0x1000).expect("room");
    assert_eq!(pool.allocate(0x800, 0x100, Match::First), Some((0x1000, 0x17ff)));
    assert_eq!(pool.allocate(0x200, 0x100, Match::Exact(0x1a00)), Some((0x1a00, 0x1bff)));
    // Between the two lie 0x200.
    assert_eq!(pool.allocate(0x700, 0x100, Match::Exact(0x1800)), None);
    assert_eq!(pool.allocate(0x800, 0x100, Match::Exact(0x1800)), None);
    assert_eq!(pool.allocate(0x100, 0x100, Match::Exact(0x1800)), Some((0x1800, 0x18ff)));
}

#[test]
fn freed_ranges_are_allocated_again() {
    let mut pool = Addresses::new(0x1000, 0x1000).expect("room");
    assert_eq!(pool.allocate(0x800, 0x100, Match::First), Some((0x1000, 0x17ff)));
    assert!(pool.free(0x1000, 0x17ff));
    assert_eq!(pool.allocate(0x800, 0x100, Match::First), Some((0x1000, 0x17ff)));
}

#[test]
fn a_single_address_left_at_the_start_is_used() {
    let mut pool = Addresses::new(1, 1000).expect("room");
    assert_eq!(pool.allocate(10, 2, Match::First), Some((2, 11)));
    assert_eq!(pool.allocate(1, 1, Match::First), Some((1, 1)));
}

#[test]
fn a_refused_allocation_and_a_refused_free_leave_all_usable() {
    let mut pool = Addresses::new(0, 0x1000).expect("room");
    assert_eq!(pool.allocate(0x2000, 0x100, Match::First), None);
    assert!(!pool.free(0x1200, 0x3200));
    assert_eq!(pool.allocate(0x4fe, 0x100, Match::Exact(0x500)), Some((0x500, 0x9fd)));
    assert!(pool.free(0x500, 0x9fd));
}
