//! Changing the size of memory, on a machine with real bytes.

use crate::mappings::support::{PAGE, PAGES, cpus, faults, finish, free, page, pages};
use vmalloc::{AreaError, Request, Space, SpaceOptions};
use vmalloc_harness::Told;
use vmalloc_sim::harness::check;
use vmalloc_sim::{Direct, Discard, Options, Sim};

/// Too large for pools: what is behind such an area is free.
const LARGE: usize = 300;

fn direct(space_options: SpaceOptions, choose: impl FnOnce(Options) -> Options) -> Space<Direct> {
    Sim::run_on(0);
    let machine =
        Direct::new(PAGES, |options| choose(options.cpus(3).huge_order(3).on_violation(Default::default())));
    Space::new(machine, space_options).expect("an empty space")
}

/// Machines that move pages, and machines that don't; kept or unmapped.
fn everywhere(test: impl Fn(&Space<Direct>)) {
    let settings = [
        SpaceOptions::default(),
        SpaceOptions::default().unmap_on_free(),
        SpaceOptions::default().unmap_on_free().guard(false),
    ];
    for space_options in settings {
        for discard in [Discard::Unmaps, Discard::Keeps] {
            for moves in ["moves", "copies"] {
                let _told = Told(|| format!("{space_options:?}, {moves}"));
                let space = direct(space_options, |options| {
                    let options = options.discard(discard);
                    if moves == "moves" { options.relocates() } else { options }
                });
                test(&space);
                finish(&space);
            }
        }
    }
}

fn alloc(space: &Space<Direct>, bytes: usize) -> usize {
    space.raw().alloc(&Request::new(bytes)).expect("room")
}

fn realloc(space: &Space<Direct>, addr: usize, bytes: usize) -> usize {
    try_realloc(space, addr, bytes).expect("room")
}

fn try_realloc(space: &Space<Direct>, addr: usize, bytes: usize) -> Result<usize, AreaError> {
    // SAFETY: the area is the test's, and the old address is not used again when it moves.
    unsafe { space.raw().realloc(addr, &vmalloc::Request::new(bytes)) }
}

/// Every CPU remembers the pages.
fn remember(space: &Space<Direct>, addr: usize) {
    let area = space.find(addr).expect("busy");
    cpus(space).for_each(|cpu| space.platform().sim().prefetch(cpu, pages(addr, area.pages as usize)));
}

/// Returns a byte for each place, none of them what poison or zeros are.
fn pattern(nth: usize) -> u8 {
    (nth % 211) as u8 + 1
}

fn bytes(addr: usize, count: usize) -> &'static mut [u8] {
    // SAFETY: the caller has mapped memory of that length there, which nothing else uses while this
    // lives.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(addr), count) }
}

fn write(space: &Space<Direct>, addr: usize, count: usize) {
    bytes(addr, count).iter_mut().enumerate().for_each(|(nth, byte)| *byte = pattern(nth));
    remember(space, addr);
}

fn holds(addr: usize, count: usize) {
    let wrong = bytes(addr, count).iter().enumerate().find(|&(nth, &byte)| byte != pattern(nth));
    assert_eq!(wrong, None, "of {count} bytes");
}

/// The area at `addr` has this size and its guard, and can be used from end to end on every CPU.
fn is_sound(space: &Space<Direct>, addr: usize, size: usize) {
    let area = space.find(addr).expect("busy");
    let count = size.div_ceil(PAGE);
    assert_eq!((area.addr, area.bytes, area.pages), (addr, count * PAGE, count as u64));
    for cpu in cpus(space) {
        for page in page(addr)..page(addr) + area.pages {
            space.platform().sim().read(cpu, page).expect("it is mapped");
        }
    }
    if area.guard {
        faults(space, addr + count * PAGE, 1);
    }
    check(space);
}

#[test]
fn moved_area_grows_in_place_next_time() {
    everywhere(|space| {
        let addr = alloc(space, LARGE * PAGE);
        let neighbour = alloc(space, LARGE * PAGE);
        write(space, addr, LARGE * PAGE);
        // More than lies between areas that begin at huge pages.
        let moved = realloc(space, addr, (LARGE + 8) * PAGE);
        assert_ne!(moved, addr);
        assert_eq!(realloc(space, moved, (2 * LARGE) * PAGE), moved, "as much again was free behind it");
        holds(moved, LARGE * PAGE);
        is_sound(space, moved, 2 * LARGE * PAGE);
        [moved, neighbour].into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn cached_memory_is_evicted_for_growth() {
    let space = direct(SpaceOptions::default(), |options| options.frames(40).relocates());
    let [addr, freed] = [0; 2].map(|_| alloc(&space, 16 * PAGE));
    write(&space, addr, 16 * PAGE);
    free(&space, freed);
    let grown = realloc(&space, addr, 30 * PAGE);
    holds(grown, 16 * PAGE);
    free(&space, grown);
    finish(&space);
}

/// Cached memory makes way for the new pages of an area that moves. Its old pages count once,
/// though they have two places meanwhile.
#[test]
fn an_area_that_moves_makes_the_space_grow_by_its_new_pages() {
    let options = SpaceOptions::default().guard(false).max_slack_percent(25);
    let options = options.cache_bytes(PAGES as usize * PAGE).cached_beside(|in_use| (in_use / 3).max(4));
    let space = direct(options, |options| options.relocates());
    let alloc = |pages: usize| space.raw().alloc(&Request::new(pages * PAGE).guard(false)).expect("room");
    let (moving, _behind) = (alloc(400), alloc(1));
    // SAFETY: the areas are this test's.
    [(); 2]
        .map(|()| alloc(300))
        .into_iter()
        .for_each(|addr| unsafe { space.raw().free(addr) }.expect("busy"));
    assert_eq!(space.stats().cached_pages, 600);
    // SAFETY: as above.
    let moved = unsafe { space.raw().realloc(moving, &Request::new(700 * PAGE).guard(false)) };
    assert_ne!(moved.expect("room"), moving);
    // The most in use was 1,001 pages, of which a batch of 256 is noted with the next miss. If the
    // old pages counted twice 244 were cached, and 600 if nothing made way.
    assert_eq!(space.stats().cached_pages, 303);
    check(&space);
}
