//! Frames in reserved areas, page by page.

use crate::mappings::support::{PAGE, PAGES, finish, give, plain, space, take, unreserve};
use vmalloc::{AreaError, Frame, MapFrames, Protection, Request, RequestError, Space, SpaceOptions};
use vmalloc_sim::Sim;

const RW: Protection = Protection::ReadWrite;

fn reserve(space: &Space<Sim>, count: usize) -> usize {
    space.raw().reserve(&Request::new(count * PAGE)).expect("room")
}

fn map(space: &Space<Sim>, addr: usize, frames: &[Frame]) {
    // SAFETY: nothing else maps there.
    unsafe { space.raw().map_pages(addr, frames, RW) }.expect("nothing is mapped there");
}

/// Larger than a loop over its pages could go through in a lifetime.
#[test]
fn an_area_with_few_frames_is_freed_without_a_walk() {
    const HUGE: usize = 1 << 40;
    let options = plain(2 * HUGE as u64, 2);
    let space = space(options, SpaceOptions::default());
    let frames = take(&space, 3);
    for round in 1..3 {
        let addr = reserve(&space, HUGE);
        map(&space, addr + (HUGE / 2) * PAGE, &frames[..round]);
        map(&space, addr + (HUGE - 1) * PAGE, &frames[2..]);
        unreserve(&space, addr);
        space.flush().expect("nothing fails");
        let shown = [HUGE / 2, HUGE - 1].map(|nth| (addr / PAGE + nth) as u64);
        assert_eq!(shown.map(|page| space.platform().frame_at(page)), [None; 2]);
    }
    give(&space, &frames);
    finish(&space);
}

#[test]
fn pages_beyond_all_numbers_are_refused_as_such() {
    let space = space(plain(PAGES, 1), SpaceOptions::default());
    let addr = reserve(&space, 8);
    // SAFETY: nothing is mapped there.
    let refused = |count| unsafe { space.raw().unmap_pages(addr, count) }.expect_err("not so many");
    let overflow = RequestError::SizeOverflow { bytes: usize::MAX };
    assert_eq!(refused(u64::MAX), AreaError::from(overflow));
    assert_eq!(refused(0), AreaError::from(RequestError::ZeroSize));
    assert!(matches!(refused(9), AreaError::Beyond { .. }));
    unreserve(&space, addr);
    finish(&space);
}
