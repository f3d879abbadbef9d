//! Congruent areas among holes that take one part but not the other: as many searches as there are
//! holes, and none for each page.

use super::DENSE;
use vmalloc_map::{AreaMap, CongruentError, PageRange};

/// Steps of one search below a limit: two leaves, and up and down.
fn limit_of_search(height: u32) -> u64 {
    2 * (u64::from(height) + DENSE)
}

/// Returns `count` holes of each size in turn, with a page in use between them, a stride apart.
fn holes(count: u64, stride: u64, sizes: &[u64]) -> (AreaMap<'static>, Vec<PageRange>) {
    let start = 1 << 31;
    let span = PageRange::from_len(start, count * stride).expect("not empty");
    let mut map = AreaMap::new(span).expect("the heap has room");
    let mut ranges = Vec::new();
    for index in 0..count {
        let hole = start + index * stride;
        let pages = sizes[(index % sizes.len() as u64) as usize];
        map.alloc_at(PageRange::new(hole + pages, hole + stride).expect("not empty")).expect("free");
        ranges.push(PageRange::from_len(hole, pages).expect("not empty"));
    }
    (map, ranges)
}

/// Two parts, one in each of two neighbouring holes, that need `large` pages in both: every second
/// hole is too small.
#[test]
fn free_ranges_that_refuse_a_part_are_visited_once() {
    for (count, stride) in [(1_000, 64), (1_000, 1 << 30), (10_000, 16)] {
        let (mut map, ranges) = holes(count, stride, &[7, 8]);
        let (offsets, sizes) = ([0, stride], [8, 8]);
        let result = map.alloc_congruent(&offsets, &sizes, 1, None);
        assert!(matches!(result, Err(CongruentError::NoSpace(_))), "{result:?}");
        let parts = sizes.len() as u64;
        let searches = parts * parts * (ranges.len() as u64 / 2 + 1);
        let most = searches * limit_of_search(map.height());
        println!("{count} holes {stride} apart: {} steps of at most {most}", map.last_steps());
        assert!(map.last_steps() <= most, "{} steps", map.last_steps());
    }
}

/// The lowest base of all is the only one.
#[test]
fn the_last_place_is_found_behind_all_others() {
    let (mut map, ranges) = holes(5_000, 64, &[9, 5, 9]);
    // Nine pages, nothing in the next hole but what is small, nine pages again: and that only at
    // multiples of 3 × 64.
    let (offsets, sizes) = ([0, 64, 128], [9, 5, 9]);
    let first = ranges[0].start();
    for (index, hole) in ranges.iter().enumerate().skip(3).step_by(3) {
        let page = PageRange::from_len(hole.start() + index as u64 % 9, 1).expect("not empty");
        map.alloc_at(page).expect("free");
    }
    assert_eq!(map.alloc_congruent(&offsets, &sizes, 1, None), Ok(first));
    let most = 9 * (2 * ranges.len() as u64 + 1) * limit_of_search(map.height());
    println!("5,000 holes, found in the last: {} steps of at most {most}", map.last_steps());
    assert!(map.last_steps() <= most, "{} steps", map.last_steps());
}

/// Many parts in an empty span of 2^51 pages: each is asked once.
#[test]
fn an_empty_span_takes_one_search_a_part() {
    let mut map = AreaMap::new(PageRange::new(1, 1 << 51).expect("not empty")).expect("the heap has room");
    let offsets: Vec<u64> = (0..64).map(|index| index << 30).collect();
    map.alloc_congruent(&offsets, &[1 << 20; 64], 1 << 9, None).expect("an empty span");
    assert!(map.last_steps() <= 64 * limit_of_search(map.height()), "{} steps", map.last_steps());
    map.verify().expect("valid");
}
