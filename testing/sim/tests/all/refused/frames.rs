//! Frames behind areas, sparse areas and blocks, and areas that shrink.

use super::{CALLS, PAGE, alloc, check, finish, free, lazy, options, range, refuse, space, touch};
use crate::mappings::support::{give, take, unmap_ram, unreserve};
use crate::short;
use vmalloc::{AreaError, Frame, Protection, Request, Space};
use vmalloc_sim::{Direct, Point, Sim};

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

/// Areas can only shrink where there is memory.
fn direct(pages: u64) -> Space<Direct> {
    Sim::run_on(0);
    Space::new(Direct::new(pages, |it| options(it, pages)), lazy()).expect("an empty space")
}

/// An area that shrinks gives its tail back later where the platform refuses to unmap it, or the
/// guard page before it. Those addresses have no owner before, and stay with theirs afterwards.
#[test]
fn refused_tail_is_not_reused_until_unmapped() {
    for call in CALLS {
        for refused in [10, 15] {
            let space = direct(256);
            let area = alloc(&space, 20);
            refuse(&space, call, area + refused * PAGE);
            // SAFETY: the area is the test's.
            assert_eq!(unsafe { space.raw().realloc(area, &vmalloc::Resize::new(10 * PAGE)) }, Ok(area));
            assert!(space.purge().is_err());
            assert_eq!((space.stats().refused_areas, space.stats().pending_ranges), (1, 1));
            // The part cut off before is still refused, so the part that meets it is, too.
            // SAFETY: as above.
            assert_eq!(unsafe { space.raw().realloc(area, &vmalloc::Resize::new(8 * PAGE)) }, Ok(area));
            assert!(space.purge().is_err());
            let others: Vec<_> = (0..20).map(|_| alloc(&space, 5)).collect();
            assert!(others.iter().all(|addr| !range(area, 21).contains(range(*addr, 1).start())));
            check(&space);
            space.platform().sim().relent();
            space.purge().unwrap();
            let inside = alloc(&space, 10);
            assert!(range(area, 21).contains(range(inside, 1).start()));
            space.purge().unwrap();
            touch(&space, inside, 10);
            touch(&space, area, 8);
            space.areas().for_each(|area| free(&space, area.addr));
            finish(&space);
        }
    }
}

/// One area's refused pages do not keep other areas from growing where they are.
#[test]
fn pending_range_keeps_no_other_area_from_growing() {
    for call in CALLS {
        let space = direct(256);
        let [pending, other] = [20, 3].map(|pages| alloc(&space, pages));
        // The range taken for later lies behind it.
        space.purge().unwrap();
        refuse(&space, call, pending + 15 * PAGE);
        // SAFETY: the areas are the test's.
        unsafe {
            assert_eq!(space.raw().realloc(pending, &vmalloc::Resize::new(10 * PAGE)), Ok(pending));
            assert_eq!(space.raw().realloc(other, &vmalloc::Resize::new(9 * PAGE)), Ok(other));
            touch(&space, other, 9);
            // It grows itself as well, elsewhere.
            let moved = space.raw().realloc(pending, &vmalloc::Resize::new(18 * PAGE)).unwrap();
            assert_ne!(moved, pending);
            touch(&space, moved, 18);
            [moved, other].iter().for_each(|addr| free(&space, *addr));
        }
        assert!(space.purge().is_err());
        finish(&space);
    }
}
