//! Small, named behaviours; the comparison with the naive model is in the crate `vmalloc-model`.

use super::bitmap::LEAF_PAGES;
use super::bitmaps::Look;
use super::*;
use alloc::string::ToString;
use std::vec;
use std::vec::Vec;

fn span(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).unwrap()
}

fn fit(pages: u64, align: u64) -> Fit {
    Fit::new(pages).align(align)
}

#[test]
fn the_four_cuts_and_their_coalescing() {
    let mut map = AreaMap::new(span(3, 5000)).unwrap();
    for (taken, left) in [
        (span(3, 5000), vec![]),
        (span(3, 400), vec![span(400, 5000)]),
        (span(400, 5000), vec![span(3, 400)]),
        (span(256, 1024), vec![span(3, 256), span(1024, 5000)]),
    ] {
        map.alloc_at(taken).unwrap();
        map.verify().unwrap();
        assert_eq!(map.free_ranges().collect::<Vec<_>>(), left);
        assert_eq!(map.free(taken.start()), Ok(taken));
        map.verify().unwrap();
        assert!(map.is_whole());
    }
}

#[test]
fn placement_is_exact_lowest_fit_for_alignments() {
    let mut map = AreaMap::new(span(1, 1 << 20)).unwrap();
    // A free range of 9 pages that holds 8 pages aligned to 8, where "size + align - 1" would miss
    // it.
    map.alloc_at(span(1, 15)).unwrap();
    map.alloc_at(span(24, 4096)).unwrap();
    assert_eq!(map.alloc(&fit(8, 8)), Ok(span(16, 24)));
    assert_eq!(map.alloc(&fit(8, 8)), Ok(span(4096, 4104)));
    map.verify().unwrap();
}

#[cfg(feature = "error-texts")]
#[test]
fn a_refusal_carries_its_figures_and_changes_nothing() {
    let mut map = AreaMap::new(span(0, 100)).unwrap();
    map.alloc_at(span(40, 50)).unwrap();
    let refusal = NoSpace { size: 51, align: 1, within: span(0, 100), largest: 50, unit: "pages" };
    assert_eq!(map.alloc(&fit(51, 1)), Err(FitError::NoSpace(refusal)));
    // The figure is of the whole space: the limits may exclude it.
    let limited = map.alloc(&fit(6, 1).within(45, 55)).unwrap_err().to_string();
    assert_eq!(
        limited,
        "no 6 pages free, aligned to 1, within 0x2d..0x37; the largest free range anywhere has 50: free some, or widen the limits"
    );
    let text = |error: FitError| error.in_bytes(4096).to_string();
    assert_eq!(
        text(map.alloc(&fit(6, 1).within(45, 55)).unwrap_err()),
        "no 24576 bytes free, aligned to 4096, within 0x2d000..0x37000; the largest free range anywhere has 204800: \
         free some, or widen the limits"
    );
    assert_eq!(
        text(map.alloc(&fit(1, 1).within(9, 9)).unwrap_err()),
        "the limits 0x9000..0x9000 hold no page"
    );
    let outside = map.alloc(&fit(1, 1).within(9, 101)).unwrap_err();
    assert_eq!(text(outside), "0x9000..0x65000 is not inside 0x0..0x64000");
    let occupied = map.alloc_at(span(39, 41)).unwrap_err();
    assert_eq!(text(occupied), "0x27000..0x29000 is not all free: 0x28000..0x32000 is taken");
    let refusal = NoSpace { size: 1, align: 1 << 63, within: span(0, 100), largest: 50, unit: "pages" };
    map.alloc_at(span(0, 1)).unwrap();
    assert_eq!(map.alloc(&fit(1, 1 << 63)), Err(FitError::NoSpace(NoSpace { largest: 50, ..refusal })));
    assert_eq!(map.free_pages(), 89);
    map.verify().unwrap();
}

/// Of the errors of a space the tests of `vmalloc` say so.
#[cfg(not(feature = "error-texts"))]
#[test]
fn an_error_without_its_text_tells_the_name_of_its_type() {
    let mut map = AreaMap::new(span(0, 100)).unwrap();
    assert_eq!(map.alloc(&fit(0, 1)).unwrap_err().to_string(), "RequestError");
    assert_eq!(map.alloc(&fit(101, 1)).unwrap_err().to_string(), "NoSpace");
    assert_eq!(FitError::Metadata.to_string(), "FitError");
    assert_eq!(map.free(5).unwrap_err().to_string(), "NoArea");
    let area = map.alloc(&fit(10, 1)).unwrap();
    assert_eq!(map.split(area.start(), area.end()).unwrap_err().to_string(), "ResizeError");
    assert_eq!(Violation { invariant: "MAP-1", at: 5 }.to_string(), "MAP-1");
}

#[test]
fn freeing_what_is_no_area_is_a_typed_error() {
    let mut map = AreaMap::new(span(0, 10_000)).unwrap();
    map.alloc_at(span(10, 3000)).unwrap();
    assert_eq!(map.free(5), Err(NoArea::Nothing { page: 5 }));
    assert_eq!(map.free(u64::MAX), Err(NoArea::Nothing { page: u64::MAX }));
    assert_eq!(map.free(2999), Err(NoArea::Interior { page: 2999, start: 10 }));
    assert_eq!(map.release(10), Err(NoArea::Busy { page: 10 }));
    assert_eq!(map.retire(10), Ok(span(10, 3000)));
    assert_eq!(map.free(10), Err(NoArea::Retired { page: 10 }));
    assert_eq!(map.find(2000), None);
    assert_eq!(map.segment(2000), Some(Segment { range: span(10, 3000), state: State::Retired }));
    assert_eq!(map.revive(10), Ok(span(10, 3000)));
    assert_eq!(map.find(2000), Some(span(10, 3000)));
    assert_eq!(map.free(10), Ok(span(10, 3000)));
    assert_eq!(map.free(10), Err(NoArea::Nothing { page: 10 }));
    map.verify().unwrap();
    assert!(map.is_whole());
}

#[test]
fn pages_around_the_span_are_found_in_no_area() {
    let (sizes, end): (&[u64], u64) =
        if cfg!(miri) { (&[30], 1000) } else { (&[1, 30, 64, 100, 200, 300, 1000], 40_000) };
    for &pages in sizes {
        let start = 7;
        let mut map = AreaMap::new(span(start, end)).unwrap();
        // Enough leaves for the window to reach over all of them.
        while map.largest_free() > pages {
            map.alloc(&fit((map.largest_free() - pages).min(200), 1)).unwrap();
        }
        let area = map.alloc(&fit(pages, 1)).unwrap();
        assert_eq!(area.end(), end);
        for page in area.start()..area.end() {
            assert_eq!(map.find(page), Some(area));
        }
        for page in (0..start).chain(end..end + 600).chain([u64::MAX]) {
            assert_eq!(map.find(page), None, "{page} of {area:?}");
            assert_eq!(map.segment(page), None);
        }
    }
}

#[test]
fn every_span_can_be_managed_to_its_far_end() {
    for (start, end) in
        [(0, 1), (9, 300), (77, 1 << 45), (3, 1 << 52), (1, u64::MAX), (u64::MAX - 1, u64::MAX)]
    {
        let mut memory = vec![0; 1 << 15];
        let mut map = AreaMap::in_buffer(span(start, end), &mut memory).unwrap();
        let last = span(end - 1, end);
        map.alloc_at(last).unwrap();
        map.verify().unwrap();
        assert_eq!(map.find(end - 1), Some(last));
        if end - start > 2 {
            let middle = span(start + (end - start) / 2, end - 1);
            map.alloc_at(middle).unwrap();
            assert_eq!(map.find(end - 2), Some(middle));
            assert_eq!(map.alloc(&fit(1, 1)), Ok(span(start, start + 1)));
            map.verify().unwrap();
            map.free(start).unwrap();
            map.free(middle.start()).unwrap();
        }
        assert_eq!(map.free(end - 1), Ok(last));
        map.verify().unwrap();
        assert!(map.is_whole());
    }
}

/// Leaves that come in before the last split full nodes at several levels at once. The range that
/// takes most is in the new halves all the time.
#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri, and fewer leaves show nothing")]
fn summaries_stay_exact_where_nodes_split_at_every_level() {
    let leaves = 3000;
    let (last, end) = (1 << 30, 1 << 40);
    let mut map = AreaMap::new(span(1, end)).unwrap();
    map.alloc_at(span(last, last + 1)).unwrap();
    for leaf in 1..leaves {
        map.alloc_at(span(leaf * 512, leaf * 512 + 1)).unwrap();
        assert_eq!(map.largest_free(), end - last - 1, "{leaf} leaves");
    }
    map.verify().unwrap();
    for leaf in (1..leaves).rev() {
        map.free(leaf * 512).unwrap();
        assert_eq!(map.largest_free(), end - last - 1, "{leaf} leaves");
    }
    map.verify().unwrap();
}

/// A leaf's range that is aligned to more than its last one counts for requests with that
/// alignment, however long the last one is once a request is cut from it.
#[test]
fn a_long_rest_hides_no_range_with_a_larger_alignment() {
    for rest in [1, 200, 255, 256, 511, 512, 8_191, 8_192, 8_447, 8_448, 20_000] {
        let mut map = AreaMap::new(span(0, 1 << 20)).unwrap();
        map.alloc_at(span(0, 8_192)).unwrap();
        map.alloc_at(span(8_197, 8_198)).unwrap();
        map.alloc_at(span(8_206 + rest, 1 << 20)).unwrap();
        assert_eq!(map.alloc(&fit(8, 1)), Ok(span(8_198, 8_206)));
        map.verify().unwrap();
        assert_eq!(map.alloc(&fit(5, 8_192)), Ok(span(8_192, 8_197)), "before a rest of {rest} pages");
        map.verify().unwrap();
    }
}

/// Without the map, an area far from the start of the span is found like any other: from its first
/// page to its last, across leaves, and where its neighbours are.
#[test]
fn far_areas_are_found_without_the_map() {
    let near = (row_array::TABLE * bitmaps::LEAVES) as u64 * u64::from(LEAF_PAGES);
    let mut map = AreaMap::new(span(0, 4 * near)).unwrap();
    // Leaves are dense where there are as many as half of the groups.
    let leaf = u64::from(LEAF_PAGES);
    for group in (0..near / leaf + 8).step_by(2) {
        map.alloc_at(PageRange::of(group * leaf, (group + 1) * leaf)).unwrap();
    }
    let areas = [(near + 9 * leaf + 3, 5), (near + 9 * leaf + 8, leaf), (near + 11 * leaf + 8, 1)];
    for (start, pages) in areas {
        let area = PageRange::of(start, start + pages);
        map.alloc_at(area).unwrap();
        for page in [area.start(), area.start() + pages / 2, area.end() - 1] {
            assert!(map.bitmaps.home_alone(page).is_none(), "{page} is near");
            assert!(map.bitmaps.home(page).is_some(), "{page} takes more than a step");
            assert!(matches!(map.bitmaps.look(page), Ok(Look::Plain(found)) if found == area), "{page}");
        }
        assert!(matches!(map.bitmaps.look(area.end()), Ok(Look::Nothing)));
    }
}

/// A look at the place tells exactly what the allocation then takes, refusals too, and takes
/// nothing.
#[test]
fn a_place_that_is_looked_up_is_the_place_that_is_taken() {
    let mut map = AreaMap::new(span(1, 4_000)).unwrap();
    (0..200).for_each(|area| map.alloc_at(span(3 + area * 17, 9 + area * 17 + area % 11)).unwrap());
    let before = map.try_clone().unwrap();
    // Under Miri a copy of the map takes seconds.
    let (sizes, limits) = if cfg!(miri) { (1, 1) } else { (6, 4) };
    let (mut refused, mut looks) = (0, 0);
    for pages in [12, 600, 1, 7, 11, 300].into_iter().take(sizes) {
        for align in [1, 512, 8].into_iter().take(sizes) {
            for (from, to) in [(900, 910), (1, 4_000), (5, 500), (3_500, 3_999)].into_iter().take(limits) {
                for policy in
                    [Policy::Lowest, Policy::Highest, Policy::Random { seed: 99 }, Policy::Near { to: 905 }]
                {
                    let fit = fit(pages, align).within(from, to).policy(policy);
                    let looked_up = map.place_for(&fit);
                    assert_eq!(looked_up, map.try_clone().unwrap().alloc(&fit), "{fit:?}");
                    refused += u32::from(looked_up.is_err());
                    looks += 1;
                }
            }
        }
    }
    assert!(refused > 0 && (cfg!(miri) || refused < looks), "{refused} of {looks} refused");
    assert!(map.place_for(&fit(1, 1).within(0, 9)).is_err(), "outside the span");
    assert!(map == before, "a look takes nothing");
}

/// Retires three areas of 100 pages, which start in one leaf or in several, joins them, and cuts
/// the area in three.
#[test]
fn retired_areas_are_joined_and_cut() {
    for (from, to) in [(0, 300), (0, 201), (1, 300), (1, 299), (100, 220), (299, 300)] {
        for first in [1, 56, 100, 156, 212, 256] {
            let mut map = AreaMap::new(span(1, 2000)).unwrap();
            let areas = [0, 100, 200].map(|page| span(first + page, first + page + 100));
            for area in areas {
                map.alloc_at(area).unwrap();
                map.retire(area.start()).unwrap();
            }
            map.join_area(first + 200);
            map.join_area(first + 100);
            let joined = span(first, first + 300);
            map.verify().unwrap();
            let retired = |range| Segment { range, state: State::Retired };
            assert_eq!(map.segment(first + 299), Some(retired(joined)));
            assert_eq!((map.idle_areas(), map.retired(first + 100)), (1, None), "it starts no more");
            let part = span(first + from, first + to);
            assert!(map.cut_retired(joined, part));
            map.verify().unwrap();
            let rests = [(first, part.start()), (part.end(), first + 300)];
            let rests: Vec<_> =
                rests.into_iter().filter_map(|(start, end)| PageRange::new(start, end)).collect();
            assert_eq!(map.idle_areas(), 1 + rests.len() as u64);
            for range in rests.iter().chain([&part]) {
                assert_eq!(map.segment(range.end() - 1), Some(retired(*range)));
                assert_eq!(map.release(range.start()), Ok(*range));
            }
            map.verify().unwrap();
            assert!(map.is_whole());
        }
    }
}

/// Where there is no memory for a leaf, nothing is cut; a join needs none.
#[test]
fn a_cut_without_memory_changes_nothing() {
    let mut memory = vec![0u8; 16 << 10];
    let mut map = AreaMap::in_buffer(span(0, 1 << 30), &mut memory).unwrap();
    let areas = [span(100, 700), span(700, 1300), span(2000, 2060), span(2060, 2120)];
    areas.iter().for_each(|&area| map.alloc_at(area).unwrap());
    let mut page = 1 << 20;
    while map.alloc_at(span(page, page + 1)).is_ok() {
        page += 1 << 10;
    }
    areas.iter().for_each(|area| assert_eq!(map.retire(area.start()), Ok(*area)));
    let free = map.free_pages();
    map.join_area(700);
    map.join_area(2060);
    // What the second of the areas had may serve one more leaf, not two.
    assert!(!map.cut_retired(span(100, 1300), span(500, 900)), "neither 500 nor 900 has a leaf");
    assert_eq!(map.retired(100), Some(span(100, 1300)));
    assert!(map.cut_retired(span(2000, 2120), span(2000, 2040)), "2040 has one");
    assert_eq!((map.free_pages(), map.idle_areas()), (free, 3));
    map.verify().unwrap();
}
