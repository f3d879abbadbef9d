//! What an area gains as it is made or grows, and what a space gets back as areas go: a byte, a
//! page or an address more or less than documented is a mistake.

use vmalloc::{Config, Request, Space};
use vmalloc_sim::harness::check;
use vmalloc_sim::{Direct, Options, Sim};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

fn direct(config: Config, choose: impl FnOnce(Options) -> Options) -> Space<Direct> {
    Sim::run_on(0);
    Space::new(Direct::new(1 << 12, |options| choose(options.cpus(1))), config).expect("a space")
}

fn free(space: &Space<Direct>, addr: usize) {
    // SAFETY: the area is the test's, and nothing uses it any more.
    unsafe { space.raw().free(addr) }.expect("it is busy");
}

/// Room to grow again is for spaces that cache areas and allow that much slack.
#[test]
fn a_large_area_that_grows_gets_room_only_where_slack_is_allowed() {
    let plain = Config::default().guard(false);
    for (config, has_room) in [
        (plain.max_slack_percent(25), true),
        (plain.max_slack_percent(0), false),
        (plain.unmap_on_free().max_slack_percent(25), false),
    ] {
        let space = direct(config, |it| it.max_slack_percent(25));
        let addr = space.raw().alloc(&Request::new(1024 * PAGE)).expect("room");
        // SAFETY: the area is the test's, and the old address is not used any more.
        let grown = unsafe { space.raw().realloc(addr, &Request::new(1100 * PAGE)) }.expect("room");
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
    let space = direct(Config::default().unmap_on_free().lazy_max_pages(64), |it| it);
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
