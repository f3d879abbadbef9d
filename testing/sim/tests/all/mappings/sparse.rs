//! Areas into which frames are mapped page by page.

use crate::mappings::support::{
    PAGE, PAGES, everywhere, everywhere_in, faults, fill, finish, forgotten, free_sparse, give, kind, page,
    pages, plain, shows, space, take,
};
use vmalloc::{AreaError, Config, Frame, Kind, Protection, Request, RequestError, Space};
use vmalloc_sim::{Discard, Point, Sim};

const RW: Protection = Protection::ReadWrite;

fn sparse(space: &Space<Sim>, count: usize) -> usize {
    space.raw().alloc_sparse(&Request::new(count * PAGE)).expect("room")
}

fn map(space: &Space<Sim>, addr: usize, frames: &[Frame]) {
    // SAFETY: nothing else maps there.
    unsafe { space.raw().map_pages(addr, frames, RW) }.expect("nothing is mapped there");
}

fn unmap(space: &Space<Sim>, addr: usize, count: u64) {
    // SAFETY: nothing uses the pages any more.
    unsafe { space.raw().unmap_pages(addr, count) }.expect("they are mapped");
}

#[test]
fn only_mapped_pages_are_reachable() {
    everywhere(|space| {
        let frames = take(space, 4);
        let addr = space.raw().alloc_sparse(&Request::new(20 * PAGE).tag("sparse")).expect("room");
        assert_eq!(
            space.find(addr).map(|area| (area.kind, area.pages, area.tag)),
            Some((Kind::Sparse, 20, Some("sparse".into())))
        );
        faults(space, addr, 21);
        map(space, addr + 3 * PAGE, &frames[..3]);
        map(space, addr + 19 * PAGE, &frames[3..]);
        let words = fill(space, addr + 3 * PAGE, 3);
        fill(space, addr + 19 * PAGE, 1);
        [(0, 3), (6, 13), (20, 1)]
            .into_iter()
            .for_each(|(nth, count)| faults(space, addr + nth * PAGE, count));
        unmap(space, addr + 4 * PAGE, 1);
        forgotten(space, addr + 4 * PAGE, 1);
        shows(space, addr + 3 * PAGE, &words[..1]);
        shows(space, addr + 5 * PAGE, &words[2..]);
        unmap(space, addr + 3 * PAGE, 1);
        unmap(space, addr + 5 * PAGE, 1);
        unmap(space, addr + 19 * PAGE, 1);
        give(space, &frames);
        free_sparse(space, addr);
    });
}

#[test]
fn page_is_mapped_to_other_frames_again() {
    everywhere(|space| {
        let addr = sparse(space, 8);
        for round in 0..10 {
            let frames = take(space, 8);
            Sim::run_on(round);
            map(space, addr, &frames);
            fill(space, addr, 8);
            Sim::run_on(round + 1);
            unmap(space, addr, 8);
            give(space, &frames);
        }
        free_sparse(space, addr);
    });
}

#[test]
fn free_unmaps_the_remaining_pages() {
    everywhere_in(64, |space| {
        let frames = take(space, 2);
        for _ in 0..10 {
            let addr = sparse(space, 20);
            map(space, addr + PAGE, &frames);
            fill(space, addr + PAGE, 2);
            space.platform().prefetch(0, pages(addr, 20));
            free_sparse(space, addr);
        }
        space.purge().expect("nothing fails");
        give(space, &frames);
    });
}

/// As after `vunmap`: the owner says that nothing uses it any more.
#[test]
fn frames_may_be_given_back_as_soon_as_their_area_is_freed() {
    everywhere(|space| {
        let frames = take(space, 2);
        let addr = sparse(space, 20);
        map(space, addr + PAGE, &frames);
        fill(space, addr + PAGE, 2);
        free_sparse(space, addr);
        give(space, &frames);
    });
}

#[test]
fn pending_pages_are_unmapped_before_they_are_mapped_again() {
    for point in [Point::Unmap, Point::Flush] {
        for discard in [Discard::Unmaps, Discard::Keeps] {
            let space = space(plain(PAGES, 3).discard(discard), Config::default());
            let frames = take(&space, 4);
            let addr = sparse(&space, 6);
            map(&space, addr, &frames);
            fill(&space, addr, 4);
            space.platform().fail_nth(point, 1);
            // SAFETY: nothing uses the pages any more.
            let first = unsafe { space.raw().unmap_pages(addr, 4) };
            assert!(matches!(first, Err(AreaError::Platform(_))), "{first:?}");
            space.verify().expect("every invariant holds");
            map(&space, addr, &frames);
            fill(&space, addr, 4);
            unmap(&space, addr, 4);
            give(&space, &frames);
            free_sparse(&space, addr);
            finish(&space);
        }
    }
}

#[test]
fn areas_of_any_request_can_be_sparse() {
    everywhere(|space| {
        let request = Request::new(5 * PAGE + 1).align(16 * PAGE).without_guard();
        let addr = space.raw().alloc_sparse(&request).expect("room");
        let area = space.find(addr).expect("busy");
        assert_eq!((page(addr) % 16, area.bytes, area.pages, area.guard), (0, 5 * PAGE + 1, 6, false));
        assert_eq!(kind(space, addr + 6 * PAGE), None);
        let limits = (0x1100 * PAGE, 0x1108 * PAGE);
        let low = space.raw().alloc_sparse(&Request::new(7 * PAGE).within(limits.0, limits.1)).expect("room");
        assert_eq!(low, limits.0);
        [addr, low].into_iter().for_each(|addr| free_sparse(space, addr));
    });
}

/// Larger than a loop over its pages could go through in a lifetime.
#[test]
fn sparse_area_is_freed_from_inside_it() {
    const HUGE: usize = 1 << 40;
    let options = plain(2 * HUGE as u64, 2);
    let space = space(options, Config::default());
    let frames = take(&space, 3);
    for round in 1..3 {
        let addr = sparse(&space, HUGE);
        map(&space, addr + (HUGE / 2) * PAGE, &frames[..round]);
        map(&space, addr + (HUGE - 1) * PAGE, &frames[2..]);
        free_sparse(&space, addr);
    }
    assert_eq!(space.platform().counts().discards, 4, "one for each run of frames");
    give(&space, &frames);
    finish(&space);
}

#[test]
fn pages_beyond_all_numbers_are_refused_as_such() {
    let space = space(plain(PAGES, 1), Config::default());
    let addr = sparse(&space, 8);
    // SAFETY: nothing is mapped there.
    let refused = |count| unsafe { space.raw().unmap_pages(addr, count) }.expect_err("not so many");
    let overflow = RequestError::SizeOverflow { bytes: usize::MAX };
    assert_eq!(refused(u64::MAX), AreaError::from(overflow));
    assert_eq!(refused(0), AreaError::from(RequestError::ZeroSize));
    assert!(matches!(refused(9), AreaError::Beyond { .. }));
    free_sparse(&space, addr);
    finish(&space);
}
