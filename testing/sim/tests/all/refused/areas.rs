//! Ordinary areas, and parts of them.

use super::{CALLS, PAGE, alloc, calls, check, finish, free, lazy, refuse, space};
use vmalloc::{AllocError, DrainStatus, Request, SpaceOptions};
use vmalloc_sim::Point;

#[test]
fn one_refused_page_keeps_one_area_back() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let areas: Vec<_> = (0..200).map(|nth| alloc(&space, 1 + nth % 7)).collect();
        refuse(&space, call, areas[101] + PAGE);
        areas.iter().for_each(|addr| free(&space, *addr));
        for _ in 0..3 {
            let refused = space.purge().unwrap_err();
            assert!(refused.to_string().contains("refused page"), "{refused}");
            let stats = space.stats();
            assert_eq!((stats.lazy_areas, stats.refused_areas), (1, 1), "{stats:?}");
            assert_eq!((stats.lazy_pages, stats.refused_pages), (5, 5), "{stats:?}");
            assert_eq!(stats.free_pages, stats.span_pages - 5);
            check(&space);
        }
        finish(&space);
    }
}

#[test]
fn later_purges_go_on_at_the_price_of_one_call() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let stuck = alloc(&space, 3);
        refuse(&space, call, stuck);
        free(&space, stuck);
        assert_eq!(space.drain(), Ok(DrainStatus::More));
        for _ in 0..50 {
            let areas = [alloc(&space, 2), alloc(&space, 3)];
            areas.iter().for_each(|addr| free(&space, *addr));
            let made = calls(&space, || assert_eq!(space.drain(), Ok(DrainStatus::More)));
            // One for what is lazy, each an unmap and a flush. For the refused area one with all of
            // them, and one alone.
            assert!(made <= 6, "{made} calls");
            assert_eq!(space.stats().lazy_areas, 1);
        }
        assert!(space.decay().is_err() && space.flush().is_err());
        assert_eq!(space.shrink(1000).map(|_| space.stats().lazy_areas), Ok(1));
        space.platform().relent();
        while space.drain() == Ok(DrainStatus::More) {}
        finish(&space);
    }
}

/// To find k among n takes about 2 k log n calls.
#[test]
fn few_refused_areas_among_many_are_found_in_few_calls() {
    let space = space(1 << 12, lazy());
    let areas: Vec<_> = (0..1000).map(|_| alloc(&space, 1)).collect();
    for nth in [3, 500, 501, 999] {
        refuse(&space, Point::Unmap, areas[nth]);
    }
    areas.iter().for_each(|addr| free(&space, *addr));
    let made = calls(&space, || assert!(space.purge().is_err()));
    assert!(made <= 4 * 3 * 10, "{made} calls");
    assert_eq!(space.stats().refused_areas, 4);
    finish(&space);
}

/// A program that frees on and on while nothing can be unmapped: what is refused for good is no
/// reason to purge, and no purge that starts by itself tries more than 32 by themselves.
#[test]
fn refused_areas_start_no_purge() {
    let space = space(1 << 14, lazy().lazy_max_pages(64));
    space.platform().fail_from(Point::Unmap, 1);
    let mut most = 0;
    for nth in 0..3000 {
        let addr = alloc(&space, 1);
        let made = calls(&space, || free(&space, addr));
        if nth > 200 {
            most = most.max(made);
        }
    }
    let stats = space.stats();
    assert!(stats.refused_areas > 2500, "{stats:?}");
    assert!(most <= 200, "{most} calls for one free");
    let all = calls(&space, || {
        for _ in 0..10 {
            let addr = alloc(&space, 1);
            free(&space, addr);
        }
    });
    assert!(all <= 200, "{all} calls for ten frees");
    space.platform().heal();
    finish(&space);
}

#[test]
fn allocation_ends_where_everything_is_refused() {
    for call in CALLS {
        for space_options in [lazy(), lazy().lazy_max_pages(1), SpaceOptions::default()] {
            let space = space(256, space_options);
            space.platform().fail_from(call, 1);
            let refused = (0..100_000).find_map(|_| match space.raw().alloc(&Request::new(3 * PAGE)) {
                Ok(addr) => {
                    free(&space, addr);
                    None
                }
                Err(error) => Some(error),
            });
            // A cached area needs no flush to be had again.
            assert_eq!(refused.is_none(), space.options().cache_bytes > Some(0));
            assert!(matches!(refused, None | Some(AllocError::NoSpace(_))), "{refused:?}");
            assert!(space.options().cache_bytes > Some(0) || space.purge().is_err());
            check(&space);
            space.platform().heal();
            let addr = alloc(&space, 200);
            free(&space, addr);
            finish(&space);
        }
    }
}

#[test]
fn an_allocation_in_need_gets_all_that_is_not_refused() {
    for call in CALLS {
        let space = space(256, lazy());
        let mut areas: Vec<_> = (0..128).map(|_| alloc(&space, 1)).collect();
        areas.sort_unstable();
        let stuck = areas.remove(64);
        refuse(&space, call, stuck);
        free(&space, stuck);
        for _ in 0..3 {
            areas.iter().for_each(|addr| free(&space, *addr));
            // Once as one area on either side, as far as that goes, and once as many.
            let large = [125, 125].map(|pages| alloc(&space, pages));
            large.iter().for_each(|addr| free(&space, *addr));
            let mut again: Vec<_> = (0..127).map(|_| alloc(&space, 1)).collect();
            again.sort_unstable();
            assert_eq!(again, areas);
        }
        areas.iter().for_each(|addr| free(&space, *addr));
        finish(&space);
    }
}

/// A purge that starts by itself tries some of the refused areas in turn, and begins again behind
/// the last one.
#[test]
fn refused_areas_are_tried_again_after_a_whole_round() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let areas: Vec<_> = (0..40).map(|_| alloc(&space, 2)).collect();
        areas.iter().for_each(|&addr| refuse(&space, call, addr));
        areas.iter().for_each(|&addr| free(&space, addr));
        // Of three rounds, none gets anything.
        for _ in 0..6 {
            assert_eq!(space.drain(), Ok(DrainStatus::More));
            assert_eq!(space.stats().refused_areas, 40);
        }
        space.platform().relent();
        refuse(&space, call, areas[7]);
        // Not all can be had at once, so each is tried in its turn.
        for _ in 0..4 {
            assert_eq!(space.drain(), Ok(DrainStatus::More));
        }
        let stats = space.stats();
        assert_eq!((stats.refused_areas, stats.refused_pages), (1, 3), "{stats:?}");
        finish(&space);
    }
}

/// The counts of a space that refused areas for a while: they add up with what was freed.
#[test]
fn counts_of_purged_and_refused_areas_add_up() {
    for call in CALLS {
        let space = space(1 << 12, lazy());
        let areas: Vec<_> = (0..300).map(|_| alloc(&space, 2)).collect();
        areas[100..].iter().for_each(|&addr| refuse(&space, call, addr));
        areas.iter().for_each(|&addr| free(&space, addr));
        let before = space.stats();
        assert_eq!((before.purges, before.purged_areas, before.lazy_areas), (0, 0, 300), "{before:?}");
        assert!(space.purge().is_err());
        let refused = space.stats();
        assert_eq!(
            (refused.purged_areas, refused.refused_areas, refused.purges),
            (100, 200, 1),
            "{refused:?}"
        );
        space.platform().relent();
        space.purge().expect("nothing is refused any more");
        let after = space.stats();
        assert_eq!((after.purged_areas, after.refused_areas), (300, 0), "{after:?}");
        assert!((1..=32).contains(&after.longest_hold_areas), "{after:?}");
        finish(&space);
    }
}
