//! The scenarios of the page allocator of `axallocator` 0.2.0 (taken under its Apache-2.0 licence).

use vmalloc_map::{AreaMap, Fit, PageRange};

/// Pages of 1 GiB, and the first page of the larger span.
const GIB: u64 = 1 << 18;
const BASE: u64 = GIB + 1;

fn map(start: u64, pages: u64) -> AreaMap<'static> {
    AreaMap::new(PageRange::from_len(start, pages).expect("not empty")).expect("room")
}

fn used(map: &AreaMap<'_>) -> u64 {
    map.span().len() - map.free_pages()
}

#[test]
fn one_page_is_handed_out_again_and_again() {
    let mut map = map(1, 1);
    for _ in 0..2 {
        assert_eq!((map.span().len(), used(&map), map.free_pages()), (1, 0, 1));
        let page = map.alloc(&Fit::new(1)).expect("free").start();
        assert_eq!((page, used(&map), map.free_pages()), (1, 1, 0));
        map.free(page).expect("busy");
    }
}

#[test]
fn two_gigabytes_are_handed_out_from_the_start_at_any_alignment() {
    let mut map = map(BASE, 2 * GIB);
    for pages in [1, 10, 100, 1000] {
        let area = map.alloc(&Fit::new(pages)).expect("free");
        assert_eq!((area.start(), used(&map)), (BASE, pages));
        map.free(area.start()).expect("busy");
        assert!(map.is_whole());
    }
    let sizes = [(1, 1), (10, 1 << 9), (100, 1 << 18)];
    for (pages, align) in sizes {
        let area = map.alloc(&Fit::new(pages).align(align)).expect("free");
        assert_eq!((area.start(), used(&map)), (BASE.next_multiple_of(align), pages));
        map.free(area.start()).expect("busy");
    }
    let areas = sizes.map(|(pages, align)| {
        let area = map.alloc(&Fit::new(pages).align(align)).expect("free");
        assert!(area.start().is_multiple_of(align));
        area
    });
    assert_eq!(used(&map), 111);
    areas.into_iter().for_each(|area| assert_eq!(map.free(area.start()), Ok(area)));
    assert!(map.is_whole());
}

#[test]
fn pages_are_handed_out_at_an_address_once() {
    let mut map = map(BASE, 2 * GIB);
    let mut base = BASE;
    for (pages, align) in [(1u64, 1u64), (10, 1 << 9), (100, 1 << 18)] {
        let start = base.next_multiple_of(align);
        let range = PageRange::from_len(start, pages).expect("not empty");
        map.alloc_at(range).expect("free");
        assert!(map.alloc_at(range).is_err(), "it is taken");
        base = range.end();
    }
    assert_eq!(used(&map), 111);
}

/// There it is a panic: its bitmap has a million pages.
#[test]
fn a_span_of_more_than_a_million_pages_is_no_limit() {
    let mut map = map(1, 4 * GIB);
    assert_eq!(map.alloc(&Fit::new(4 * GIB)).map(|area| area.len()), Ok(4 * GIB));
}
