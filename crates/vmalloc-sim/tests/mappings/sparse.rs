//! Areas into which frames are mapped page by page.

use crate::support::{
    PAGE, PAGES, everywhere, everywhere_in, faults, fill, finish, forgotten, free_sparse, give, kind, page,
    pages, plain, shows, space, take,
};
use vmalloc::{AreaError, Config, Frame, Kind, Protection, Request, Space};
use vmalloc_sim::{LetGo, Point, Sim};

const RW: Protection = Protection::ReadWrite;

fn sparse(space: &Space<Sim>, count: usize) -> usize {
    space.sparse(&Request::new(count * PAGE)).expect("room")
}

fn map(space: &Space<Sim>, addr: usize, frames: &[Frame]) {
    // SAFETY: nobody else maps there.
    unsafe { space.map_pages(addr, frames, RW) }.expect("nothing is mapped there");
}

fn unmap(space: &Space<Sim>, addr: usize, count: u64) {
    // SAFETY: nothing uses the pages any more.
    unsafe { space.unmap_pages(addr, count) }.expect("they are mapped");
}

#[test]
fn only_what_was_mapped_can_be_reached() {
    everywhere(|space| {
        let frames = take(space, 4);
        let addr = space.sparse(&Request::new(20 * PAGE).tag("sparse")).expect("room");
        assert_eq!(
            space.find(addr).map(|area| (area.kind, area.pages, area.tag)),
            Some((Kind::Sparse, 20, Some("sparse")))
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
fn a_page_leads_to_other_frames_as_often_as_it_is_mapped() {
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
fn freeing_unmaps_what_is_left() {
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
#[ignore = "`free_sparse` does not let go what is mapped"]
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
#[ignore = "what was unmapped before the refusal is refused as not mapped"]
fn pages_that_were_unmapped_in_part_can_be_unmapped_again() {
    for point in [Point::Unmap, Point::Flush] {
        for let_go in [LetGo::Unmaps, LetGo::Keeps] {
            let space = space(plain(PAGES, 3).let_go(let_go), Config::default());
            let frames = take(&space, 4);
            let addr = sparse(&space, 6);
            map(&space, addr, &frames);
            fill(&space, addr, 4);
            space.platform().fail_nth(point, 1);
            // SAFETY: nothing uses the pages any more.
            let first = unsafe { space.unmap_pages(addr, 4) };
            assert!(matches!(first, Err(AreaError::Platform(_))), "{first:?}");
            // SAFETY: as before.
            unsafe { space.unmap_pages(addr, 4) }.expect("as the documentation says");
            forgotten(&space, addr, 4);
            map(&space, addr, &frames);
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
        let addr = space.sparse(&request).expect("room");
        let area = space.find(addr).expect("busy");
        assert_eq!((page(addr) % 16, area.bytes, area.pages, area.guard), (0, 5 * PAGE + 1, 6, false));
        assert_eq!(kind(space, addr + 6 * PAGE), None);
        let limits = (0x1100 * PAGE, 0x1108 * PAGE);
        let low = space.sparse(&Request::new(7 * PAGE).within(limits.0, limits.1)).expect("room");
        assert_eq!(low, limits.0);
        [addr, low].into_iter().for_each(|addr| free_sparse(space, addr));
    });
}
