//! What an area gains as it is made or grows, and what a space gets back as areas go: a byte, a
//! page or an address more or less than documented is a mistake.

use crate::{PAGE, free};
use vmalloc::{Request, Resize, Space, SpaceOptions};
use vmalloc_sim::harness::check;
use vmalloc_sim::{Direct, Options, Sim};

fn direct(space_options: SpaceOptions, choose: impl FnOnce(Options) -> Options) -> Space<Direct> {
    Sim::run_on(0);
    Space::new(Direct::new(1 << 12, |options| choose(options.cpus(1))), space_options).expect("a space")
}

/// Room to grow again is for spaces that cache areas and allow that much slack.
#[test]
fn a_large_area_that_grows_gets_room_only_where_slack_is_allowed() {
    let plain = SpaceOptions::default().guard(false);
    for (space_options, has_room) in [
        (plain.max_slack_percent(25), true),
        (plain.max_slack_percent(0), false),
        (plain.unmap_on_free().max_slack_percent(25), false),
    ] {
        let space = direct(space_options, |it| it.max_slack_percent(25));
        let addr = space.raw().alloc(&Request::new(1024 * PAGE)).expect("room");
        // SAFETY: the area is the test's, and the old address is not used any more.
        let grown = unsafe { space.raw().realloc(addr, &Resize::new(1100 * PAGE)) }.expect("room");
        assert_eq!(grown, addr, "in place");
        let pages = space.usable_size(grown).expect("an area") / PAGE;
        assert_eq!(pages > 1100, has_room, "{pages} pages");
        free(&space, grown);
        check(&space);
    }
}

/// Areas that `free_atomic` has freed are no matter for a purge on request alone: where they are
/// too many, an ordinary free has them purged, though few areas are lazy.
#[test]
fn ordinary_frees_purge_what_free_atomic_freed() {
    let space = direct(SpaceOptions::default().unmap_on_free().lazy_max_pages(64), |it| it);
    let alloc = || space.raw().alloc(&Request::new(2 * PAGE)).expect("there is room");
    let areas: Vec<_> = (0..300).map(|_| alloc()).collect();
    let (few, most) = areas.split_at(5);
    // SAFETY: the areas are the test's, and nothing uses them any more.
    most.iter().for_each(|&addr| unsafe { space.raw().free_atomic(addr) }.expect("it is busy"));
    let purged = space.stats().purged_areas;
    few.iter().for_each(|&addr| free(&space, addr));
    let gained = space.stats().purged_areas - purged;
    assert!(gained >= most.len() as u64, "{gained} areas were purged: {:?}", space.stats());
    check(&space);
}

#[test]
fn pages_that_their_owner_has_altered_are_not_cached() {
    let space = direct(SpaceOptions::default(), |it| it);
    for pages in [1, 5, 300] {
        let addr = space.raw().alloc(&Request::new(pages * PAGE)).expect("there is room");
        // SAFETY: the area is the test's, and nothing uses it any more.
        unsafe { space.raw().free_altered(addr) }.expect("it is busy");
        assert_eq!(space.stats().cached_areas, 0, "{pages} pages");
    }
    check(&space);
}
/// A set of frames has room for its shares in lists of the space. Sets that are gone leave none.
#[test]
fn sets_of_frames_that_are_gone_take_no_memory() {
    let span = vmalloc::PageRange::from_len(0x1000, 1 << 10).expect("not empty");
    let space = Space::new(Options::new(span).frames(16).build(), SpaceOptions::default()).expect("a space");
    let after = |sets: usize| {
        (0..sets).for_each(|_| drop(space.frames(4).expect("there are some")));
        space.stats().metadata_bytes
    };
    let few = after(1);
    assert_eq!(after(1000), few);
}

#[test]
fn metadata_of_many_areas_is_counted() {
    let space = direct(SpaceOptions::default(), |it| it);
    let before = space.stats().metadata_bytes;
    let areas: Vec<_> = (0..1000)
        .map(|_| space.raw().reserve(&Request::new(PAGE).tag("one")).expect("there is room"))
        .collect();
    let gained = space.stats().metadata_bytes - before;
    let tags = areas.len() * size_of::<vmalloc::Tag>();
    assert!(gained >= tags as u64, "{gained} bytes, and the tags alone take {tags}");
    // SAFETY: the areas are the test's, and nothing uses them any more.
    areas.into_iter().for_each(|addr| unsafe { space.raw().unreserve(addr) }.expect("it is busy"));
    check(&space);
}
