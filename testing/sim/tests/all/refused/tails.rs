//! Areas that shrink: what they give back is refused.

use super::{CALLS, PAGE, alloc, check, finish, free, lazy, options, range, refuse, touch};
use vmalloc::{Request, Space};
use vmalloc_sim::{Direct, Sim};

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
            assert_eq!(unsafe { space.raw().realloc(area, &vmalloc::Request::new(10 * PAGE)) }, Ok(area));
            assert!(space.purge().is_err());
            assert_eq!((space.stats().refused_areas, space.stats().pending_ranges), (1, 1));
            // The part cut off before is still refused, so the part that meets it is, too.
            // SAFETY: as above.
            assert_eq!(unsafe { space.raw().realloc(area, &vmalloc::Request::new(8 * PAGE)) }, Ok(area));
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

/// The refusal passed before the area shrinks again: its old tail must not be unmapped when
/// another area is there.
#[test]
fn refused_tail_is_unmapped_once() {
    for call in CALLS {
        let space = direct(256);
        let area = alloc(&space, 20);
        space.platform().sim().fail_nth(call, 1);
        for pages in [10, 3] {
            // SAFETY: the area is the test's.
            assert_eq!(unsafe { space.raw().realloc(area, &vmalloc::Request::new(pages * PAGE)) }, Ok(area));
        }
        // All that was given back so far, up to where the first tail began.
        let inside = space.raw().alloc(&Request::new(7 * PAGE).guard(false)).expect("there is room");
        assert_eq!(inside, area + 4 * PAGE, "it is the lowest place");
        space.purge().unwrap();
        touch(&space, inside, 7);
        touch(&space, area, 3);
        [inside, area].iter().for_each(|addr| free(&space, *addr));
        finish(&space);
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
            assert_eq!(space.raw().realloc(pending, &vmalloc::Request::new(10 * PAGE)), Ok(pending));
            assert_eq!(space.raw().realloc(other, &vmalloc::Request::new(9 * PAGE)), Ok(other));
            touch(&space, other, 9);
            // It grows itself as well, elsewhere.
            let moved = space.raw().realloc(pending, &vmalloc::Request::new(18 * PAGE)).unwrap();
            assert_ne!(moved, pending);
            touch(&space, moved, 18);
            [moved, other].iter().for_each(|addr| free(&space, *addr));
        }
        assert!(space.purge().is_err());
        finish(&space);
    }
}
