//! Frames behind areas, sparse areas and blocks.

use super::{CALLS, PAGE, alloc, check, finish, free, lazy, range, refuse, space, touch};
use crate::mappings::support::{give, take, unmap_ram, unreserve};
use crate::short;
use vmalloc::{AreaError, Frame, Frames, PagedArea, Protection, Request, Space, SpaceOptions};
use vmalloc_sim::{Point, Sim};

/// The frames of an area go back when it is unmapped, and no sooner; those of others do.
#[test]
fn frames_of_a_refused_area_wait_and_those_of_others_do_not() {
    for call in CALLS {
        let space = space(1 << 10, lazy());
        let user = |pages| space.raw().alloc_shared(&Request::new(pages * PAGE)).expect("room");
        let (first, second) = (user(4), user(5));
        let shown = space.raw().map_shared(first, 4 * PAGE, Protection::Read, None).expect("room");
        refuse(&space, call, shown + PAGE);
        // SAFETY: nothing uses the areas any more.
        unsafe { space.raw().unmap(shown).expect("it is busy") };
        free(&space, first);
        free(&space, second);
        for _ in 0..3 {
            assert!(space.purge().is_err());
            assert_eq!(space.platform().taken_frames().len(), 4, "the others are free");
            check(&space);
            let third = user(6);
            free(&space, third);
        }
        finish(&space);
        assert!(space.platform().taken_frames().is_empty());
    }
}

#[test]
fn pending_range_keeps_no_other_area_back() {
    for call in CALLS {
        let space = space(1 << 10, lazy());
        let frames = take(&space, 8);
        let sparse = || space.raw().reserve(&Request::new(8 * PAGE)).expect("room");
        let (pending, other) = (sparse(), sparse());
        // SAFETY: nothing else maps there, here and below.
        unsafe {
            space.raw().map_pages(pending, &frames, Protection::ReadWrite).unwrap();
            refuse(&space, call, pending + 2 * PAGE);
            let refused = space.raw().unmap_pages(pending, 8);
            assert!(matches!(refused, Err(AreaError::Platform(_))), "{refused:?}");
            assert!(matches!(space.raw().unmap_pages(pending + PAGE, 3), Err(AreaError::Platform(_))));
            // Others are mapped, unmapped and purged.
            space.raw().map_pages(other, &frames, Protection::ReadWrite).unwrap();
            space.raw().unmap_pages(other, 8).unwrap();
            assert!(space.purge().is_err());
            assert_eq!(space.stats().lazy_areas, 0);
            // The area may be freed. Its addresses are not reused before the range is unmapped.
            space.raw().unreserve(pending).unwrap();
        }
        assert!(space.purge().is_err());
        assert_eq!(space.stats().refused_areas, 1);
        check(&space);
        space.platform().relent();
        space.purge().unwrap();
        unreserve(&space, other);
        let whole = alloc(&space, 900);
        space.purge().unwrap();
        touch(&space, whole, 900);
        free(&space, whole);
        give(&space, &frames);
        finish(&space);
    }
}

/// Frames that a purge unmapped, after a refusal, are unmapped by the next call of their owner, and
/// their pages can be used again.
#[test]
fn a_purge_that_unmaps_refused_frames_leaves_their_pages_usable() {
    for call in CALLS {
        let space = space(1 << 10, lazy());
        let frames = Frames::new(&space, 4).expect("there are frames");
        let mut area = PagedArea::new(&space, &Request::new(8 * PAGE)).expect("room");
        let shown = area.map(2 * PAGE, &frames, Protection::ReadWrite).expect("nothing is there");
        refuse(&space, call, shown + PAGE);
        // SAFETY: nothing uses the pages, here and below.
        let refused = unsafe { area.unmap(2 * PAGE) };
        assert!(matches!(refused, Err(AreaError::Platform(_))), "{refused:?}");
        space.platform().relent();
        space.purge().expect("nothing is refused any more");
        assert!(matches!(area.commit(2 * PAGE..3 * PAGE), Err(AreaError::Mapped { .. })));
        // SAFETY: as above.
        unsafe { area.unmap(2 * PAGE) }.expect("they are unmapped");
        area.commit(2 * PAGE..6 * PAGE).expect("nothing is there");
        drop((area, frames));
        space.purge().expect("nothing is refused any more");
        assert!(space.platform().taken_frames().is_empty());
        finish(&space);
    }
}

/// Pages were to be decommitted and were refused. When they are committed again, no later purge
/// takes them away.
#[test]
fn pages_that_are_committed_again_stay() {
    for call in CALLS {
        let space = space(1 << 10, lazy());
        let addr = space.raw().reserve(&Request::new(8 * PAGE)).expect("room");
        let pages = addr..addr + 8 * PAGE;
        let all = std::slice::from_ref(&pages);
        // SAFETY: the area is the test's, and nothing uses the pages that are taken away.
        unsafe {
            space.raw().commit(all).expect("there is memory");
            refuse(&space, call, addr + 2 * PAGE);
            assert!(matches!(space.raw().decommit(all), Err(AreaError::Platform(_))));
            assert!(matches!(space.raw().commit(all), Err(AreaError::Platform(_))), "refused still");
            space.platform().relent();
            space.raw().commit(all).expect("there is memory");
            space.purge().unwrap();
            touch(&space, addr, 8);
            space.raw().unreserve(addr).expect("it is busy");
        }
        finish(&space);
    }
}

/// A part of an area was refused, and the machine has relented when the area is freed. Its
/// addresses are not given back before that part is unmapped: later it would be taken from another
/// owner.
#[test]
fn a_free_that_traps_at_once_leaves_a_pending_range_to_the_purge() {
    for call in CALLS {
        let space = space(1 << 10, SpaceOptions::default().trap_on_free(true));
        let pending = space.raw().reserve(&Request::new(8 * PAGE)).expect("room");
        let pages = pending..pending + 8 * PAGE;
        let all = std::slice::from_ref(&pages);
        // SAFETY: the area is the test's, and nothing uses the pages that are taken away.
        unsafe {
            space.raw().commit(all).expect("there is memory");
            refuse(&space, call, pending + 2 * PAGE);
            assert!(matches!(space.raw().decommit(all), Err(AreaError::Platform(_))));
            space.platform().relent();
            space.raw().unreserve(pending).expect("it is busy");
        }
        let others: Vec<usize> = (0..20).map(|_| alloc(&space, 8)).collect();
        space.purge().unwrap();
        others.iter().for_each(|&addr| touch(&space, addr, 8));
        others.into_iter().for_each(|addr| free(&space, addr));
        finish(&space);
    }
}

/// Returns short mappings of which some are refused: of a block that is given back, and of one with
/// live ones.
fn map_slots(space: &Space<Sim>, frames: &[Frame]) -> Vec<usize> {
    let map = |_| {
        let addr = short(space).map(frames).expect("room");
        touch(space, addr, frames.len());
        addr
    };
    (0..64).map(map).collect()
}

#[test]
fn refused_slots_keep_their_block_back_and_no_other() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let frames = take(&space, 4);
        let slots = map_slots(&space, &frames);
        let first = range(slots[0], 1).start() / 64;
        let in_first = |addr: &usize| range(*addr, 1).start() / 64 == first;
        let of_first: Vec<_> = slots.iter().copied().filter(in_first).collect();
        assert!(of_first.len() > 4 && of_first.len() < slots.len());
        refuse(&space, call, of_first[1]);
        // All of the others, and some of the first.
        let live = of_first[0];
        slots.iter().filter(|addr| **addr != live).for_each(|addr| unmap_ram(&space, *addr, 4));
        assert!(space.purge().is_err());
        assert_eq!((space.stats().tenant_areas, space.stats().refused_areas), (1, 0));
        check(&space);
        let again = map_slots(&space, &frames);
        assert!(!again.iter().any(in_first), "its slots were not flushed");
        again.iter().for_each(|addr| unmap_ram(&space, *addr, 4));
        assert!(space.purge().is_err());
        assert_eq!(space.stats().tenant_areas, 1);
        unmap_ram(&space, live, 4);
        give(&space, &frames);
        finish(&space);
    }
}

#[test]
fn a_spent_block_that_is_refused_is_counted_and_comes_back() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let frames = take(&space, 4);
        let slots = map_slots(&space, &frames);
        refuse(&space, call, slots[1]);
        slots.iter().for_each(|addr| unmap_ram(&space, *addr, 4));
        let area = alloc(&space, 2);
        free(&space, area);
        for _ in 0..2 {
            assert!(space.flush().is_err());
            let stats = space.stats();
            assert_eq!((stats.refused_areas, stats.refused_pages), (1, 64), "{stats:?}");
            assert_eq!((stats.lazy_areas, stats.lazy_pages), (1, 64), "{stats:?}");
            check(&space);
        }
        give(&space, &frames);
        finish(&space);
        assert_eq!(space.stats().tenant_areas, 0);
    }
}

/// A child of a fork goes on with what its parent could not purge.
#[test]
fn refused_areas_survive_a_fork() {
    for live in [false, true] {
        let space = space(1 << 12, lazy());
        let frames = take(&space, 4);
        let (slots, area) = (map_slots(&space, &frames), alloc(&space, 3));
        refuse(&space, Point::Unmap, slots[1]);
        refuse(&space, Point::Unmap, area);
        let kept = usize::from(live);
        slots[kept..].iter().for_each(|addr| unmap_ram(&space, *addr, 4));
        free(&space, area);
        assert!(space.purge().is_err());
        space.quiesce();
        // SAFETY: this thread has called `quiesce`, and is the only one.
        unsafe { space.resume_in_child() };
        check(&space);
        assert!(space.purge().is_err());
        assert_eq!(space.stats().refused_areas, 2 - kept as u64);
        space.platform().relent();
        // What the child maps stays mapped.
        let again = map_slots(&space, &frames);
        space.purge().unwrap();
        again.iter().for_each(|addr| touch(&space, *addr, 4));
        again.iter().chain(&slots[..kept]).for_each(|addr| unmap_ram(&space, *addr, 4));
        give(&space, &frames);
        finish(&space);
    }
}
