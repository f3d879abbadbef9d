//! A space that grows joins cached areas that lie side by side.

#![allow(unsafe_code)]

use crate::{alloc, free};
use vmalloc::{FreeError, MemoryCost, PageRange, Request, Resize, Space, SpaceOptions, Stats};
use vmalloc_sim::harness::check;
use vmalloc_sim::{Direct, Due, Options, Point, Sim, heap};

const SHIFT: u32 = Sim::PAGE_SHIFT;

fn space(cache_bytes: usize, guard: bool) -> Space<Sim> {
    space_with(cache_bytes, guard, |in_use| (in_use / 3).max(4))
}

/// Returns an empty space that may cache so many pages beside those in use.
fn space_with(cache_bytes: usize, guard: bool, beside: fn(u64) -> u64) -> Space<Sim> {
    let span = PageRange::new(0x100, 0x8000).expect("not empty");
    let space_options = SpaceOptions::default().guard(guard).memory_cost(MemoryCost::Dear);
    let space_options = space_options.max_slack_percent(25).cache_bytes(cache_bytes);
    let options = Options::new(span).cpus(2);
    Space::new(options.build(), space_options.cached_beside(beside)).expect("an empty space")
}

/// Small areas that were not needed while the space grew are joined, and serve a larger one: no new
/// memory is mapped, and what is left over serves the next.
#[test]
fn growth_joins_areas_that_lie_side_by_side() {
    let space = space(1 << 20, false);
    // A third as much may be cached.
    let _large = alloc(&space, 600);
    let small: Vec<usize> = (0..20).map(|_| alloc(&space, 10)).collect();
    small.iter().for_each(|&addr| free(&space, addr));
    // The first miss passes by their size, and the next moves them.
    let _apart = [26, 27].map(|pages| alloc(&space, pages));
    let taken = space.platform().taken_frames().len();
    let joined = alloc(&space, 25);
    let are_small = small.iter().any(|&addr| (addr..addr + (10 << SHIFT)).contains(&joined));
    assert!(are_small, "{joined:#x} is none of {small:x?}");
    assert_eq!(space.platform().taken_frames().len(), taken);
    let [last, behind] = [24, 25].map(|page| space.find(joined + (page << SHIFT)));
    assert_eq!(last.map(|area| (area.addr, area.pages)), Some((joined, 25)));
    assert_eq!(behind, None);
    check(&space);
    let _rest = alloc(&space, 5);
    assert_eq!(space.platform().taken_frames().len(), taken);
    check(&space);
    space.purge().expect("no fault was asked for");
    check(&space);
}

/// Areas for which the stock has no memory are lazy, and nothing else has them: the pages that they
/// took of the budget are there again.
#[test]
fn growth_without_memory_for_the_stock_makes_areas_lazy() {
    let mut made_lazy = 0;
    for nth in 1.. {
        let space = space(1 << 20, false);
        let _large = alloc(&space, 600);
        // No two lie side by side.
        let small: Vec<usize> = (0..40).map(|_| alloc(&space, 10)).collect();
        small.iter().step_by(2).for_each(|&addr| free(&space, addr));
        let _apart = alloc(&space, 26);
        let grow = || space.raw().alloc(&Request::new(27 << SHIFT));
        let (_, demand) = heap::short_of(Due::From(nth), grow);
        if demand.refused == 0 {
            break;
        }
        // This platform does not drain, so growth purges what it has made lazy.
        made_lazy += space.stats().purged_areas;
        check(&space);
    }
    assert!(made_lazy > 0, "no area became lazy");
}

/// A policy of the user's says how much stays cached when the space would grow: nothing, or as much
/// as was in use.
#[test]
fn a_policy_of_the_user_bounds_the_cache() {
    let nothing: fn(u64) -> u64 = |_| 0;
    for (policy, keeps) in [(nothing, false), (|in_use| in_use, true)] {
        let span = PageRange::new(0x100, 0x8000).expect("not empty");
        let options = SpaceOptions::default().memory_cost(MemoryCost::Dear).cached_beside(policy);
        let options = options.cache_bytes(16 << 20);
        let space = Space::new(Options::new(span).cpus(2).build(), options).expect("an empty space");
        let [smaller, _apart, larger] = [400, 300, 900].map(|pages| alloc(&space, pages));
        [smaller, larger].iter().for_each(|&addr| free(&space, addr));
        let cached = space.stats().cached_pages;
        assert!(cached >= 1300, "a free keeps all where the space is no larger than it was: {cached}");
        let _neither = alloc(&space, 1000);
        assert_eq!(space.stats().cached_pages == cached, keeps);
        check(&space);
    }
}

/// Memory of the stock that an area takes is no new memory, and so nothing has to go for it.
#[test]
fn what_serves_an_area_pays_for_its_growth() {
    let space = space(16 << 20, false);
    let _large = alloc(&space, 8000);
    let stocked = alloc(&space, 400);
    let _between = alloc(&space, 300);
    free(&space, stocked);
    let cached = space.stats().cached_pages;
    assert_eq!(cached, 400);
    let taken = space.platform().taken_frames().len();
    let parts = [300, 60, 40].map(|pages| alloc(&space, pages));
    assert_eq!(parts, [0, 300, 360].map(|page| stocked + (page << SHIFT)));
    assert_eq!((space.stats().cached_pages, space.platform().taken_frames().len()), (0, taken));
    check(&space);
    parts.iter().for_each(|&addr| free(&space, addr));
    check(&space);
}

/// Cached memory makes way for the new pages of an area that grows, as for those of a new area.
#[test]
fn an_area_that_grows_makes_the_space_grow() {
    let space = space(16 << 20, false);
    let first = [(); 3].map(|()| alloc(&space, 300));
    let addr = alloc(&space, 100);
    first.iter().for_each(|&addr| free(&space, addr));
    assert_eq!(space.stats().cached_pages, 900);
    // SAFETY: the area is this test's.
    unsafe { space.raw().grow_in_place(addr, 1200 << SHIFT) }.expect("the pages behind it are free");
    assert_eq!(space.stats().cached_pages, 400, "a third of what is in use");
    check(&space);
}

/// Cached memory makes way for the new pages of an area that moves. Its old pages count once,
/// though they have two places meanwhile.
#[test]
fn an_area_that_moves_makes_the_space_grow_by_its_new_pages() {
    let options = SpaceOptions::default().guard(false).memory_cost(MemoryCost::Dear);
    let options = options.cache_bytes(4096 << SHIFT);
    let machine = Direct::new(4096, |options| options.cpus(3).relocates());
    let space =
        Space::new(machine, options.cached_beside(|in_use| (in_use / 3).max(4))).expect("an empty space");
    let (moving, _behind) = (alloc(&space, 400), alloc(&space, 1));
    [(); 2].map(|()| alloc(&space, 300)).into_iter().for_each(|addr| free(&space, addr));
    assert_eq!(space.stats().cached_pages, 600);
    assert_ne!(realloc(&space, moving, 700), moving);
    // The most in use was 1,001 pages, of which a batch of 256 is noted with the next miss. If the
    // old pages counted twice none were cached, and 600 if nothing made way.
    assert_eq!(space.stats().cached_pages, 292);
    check(&space);
}

fn realloc(space: &Space<Direct>, addr: usize, pages: usize) -> usize {
    // SAFETY: the area is the test's, and the old address is not used again when it moves.
    unsafe { space.raw().realloc(addr, &Resize::new(pages << SHIFT)) }.expect("room")
}

#[test]
fn an_area_that_was_moved_grows_in_place_next_time() {
    for relocates in [true, false] {
        let machine = |options: Options| if relocates { options.relocates() } else { options };
        let space = Space::new(Direct::new(4096, machine), SpaceOptions::default()).expect("an empty space");
        let [addr, _neighbour] = [(); 2].map(|()| alloc(&space, 300));
        // More than lies between areas that begin at huge pages.
        let moved = realloc(&space, addr, 308);
        assert_ne!(moved, addr);
        assert_eq!(realloc(&space, moved, 600), moved, "as much again was free behind it");
        check(&space);
    }
}

/// An area that was joined with others when it was freed says that it was freed already, as every
/// other does; so does each page in it.
#[test]
fn an_area_that_was_joined_is_told_as_freed() {
    let space = space(16 << 20, false);
    let areas: Vec<usize> = (0..3).map(|_| alloc(&space, 400)).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    assert_eq!(space.stats().large_areas, 1, "all three are one");
    for addr in [areas[0], areas[1], areas[2], areas[2] + (7 << SHIFT)] {
        // SAFETY: the free is refused.
        let refused = unsafe { space.raw().free(addr) };
        assert_eq!(refused, Err(FreeError::AlreadyFreed { addr }));
    }
    check(&space);
}

/// Small areas that are cut out of a large one are freed to a node, as those of new addresses are:
/// also where the leaf in which they lie was made by the cut.
#[test]
fn small_areas_that_were_cut_out_of_a_large_one_go_to_a_node() {
    let space = space(16 << 20, false);
    let large = alloc(&space, 3000);
    free(&space, large);
    let small: Vec<usize> = (0..40).map(|_| alloc(&space, 50)).collect();
    assert!(small.iter().all(|addr| (large..large + (3000 << SHIFT)).contains(addr)));
    let before = space.stats();
    small.iter().for_each(|&addr| free(&space, addr));
    let after = space.stats();
    let in_nodes = |stats: &Stats| stats.cached_areas - stats.large_areas;
    assert_eq!(in_nodes(&after) - in_nodes(&before), 40, "{after:?}");
    check(&space);
}

/// Returns how many cached pages go for an area of `pages` pages, of a space that has left many
/// sizes behind.
fn gone_for(pages: usize) -> u64 {
    // With guards nothing is joined. An eighth of what may be cached may be lazy: here more than
    // goes before the step. After a purge its addresses would serve misses, and less would go.
    let space = space_with(64 << 20, true, |in_use| in_use);
    let _large = alloc(&space, 8000);
    let small: Vec<usize> = (30..54).flat_map(|pages| [pages; 3]).map(|pages| alloc(&space, pages)).collect();
    small.iter().for_each(|&addr| free(&space, addr));
    // The space is as large as it was, and then misses pass by each size once.
    let _other = alloc(&space, 3000);
    (0..24).for_each(|nth| _ = alloc(&space, 60 + nth));
    let Stats { cached_pages: cached, purges: 0, .. } = space.stats() else { panic!("too much was lazy") };
    let _ = alloc(&space, pages);
    check(&space);
    cached - space.stats().cached_pages
}

#[test]
fn a_large_step_makes_as_many_pages_go_as_come() {
    let [small, large] = [900, 1100].map(gone_for);
    assert!(small <= 54 * 3, "one look: {small}");
    assert!((1100..1100 + 54 * 3).contains(&large), "as many as come: {large}");
}

/// Returns how many cached pages are left when areas of `pages` pages, 1,200 together, have come.
fn left_after(pages: usize) -> u64 {
    let space = space(16 << 20, true);
    let _large = alloc(&space, 600);
    let small: Vec<usize> = (0..20).map(|_| alloc(&space, 30)).collect();
    small.iter().for_each(|&addr| free(&space, addr));
    (0..1200 / pages).for_each(|_| _ = alloc(&space, pages));
    check(&space);
    space.stats().cached_pages
}

#[test]
fn a_space_of_many_small_areas_gives_cached_memory_back_as_well() {
    assert_eq!([1, 2, 3, 4, 8].map(left_after), [0; 5]);
}

/// Uses pages on both CPUs, so that each remembers them.
fn touch(space: &Space<Sim>, addr: usize, pages: u64) {
    let first = (addr >> SHIFT) as u64;
    for page in first..first + pages {
        (0..2).for_each(|cpu| space.platform().write(cpu, page, page).expect("it is mapped"));
    }
}

/// Returns three areas side by side, of 300 pages and a guard page each, after they were freed.
fn three_waiting(space: &Space<Sim>) -> [usize; 3] {
    let areas = [(); 3].map(|()| alloc(space, 300));
    let _behind = alloc(space, 2000);
    areas.iter().for_each(|&addr| touch(space, addr, 300));
    assert_eq!([areas[1], areas[2]], [301, 602].map(|pages| areas[0] + (pages << SHIFT)));
    areas.iter().for_each(|&addr| free(space, addr));
    assert_eq!(space.stats().large_areas, 3);
    areas
}

/// Returns how many ranges `act` maps, and how many calls of `unmap` it makes.
fn calls(space: &Space<Sim>, act: impl FnOnce()) -> [u64; 2] {
    let now = || [space.platform().counts().maps, space.platform().counts().unmaps];
    let before = now();
    act();
    [0, 1].map(|nth| now()[nth] - before[nth])
}

/// The guard pages inside are mapped, and one is unmapped at the end; no CPU reads it any more.
#[test]
fn guarded_memory_that_waits_serves_a_request_of_another_size() {
    let space = space(16 << 20, true);
    let [first, ..] = three_waiting(&space);
    let mut large = 0;
    assert_eq!(calls(&space, || large = alloc(&space, 700)), [2, 1]);
    assert_eq!((large, space.find(large).map(|area| area.pages)), (first, Some(700)));
    touch(&space, large, 700);
    let guard = (large >> SHIFT) as u64 + 700;
    (0..2).for_each(|cpu| assert!(space.platform().read(cpu, guard).is_err(), "{guard:#x} is mapped"));
    check(&space);
    let mut rest = 0;
    assert_eq!(calls(&space, || rest = alloc(&space, 190)), [0, 0], "less than it has, by a little");
    assert_eq!(rest, first + (701 << SHIFT));
    touch(&space, rest, 200);
    [large, rest].iter().for_each(|&addr| free(&space, addr));
    check(&space);
    space.purge().expect("no fault was asked for");
    check(&space);
}

/// A request that may not wait gets no part: it would have to flush.
#[test]
fn a_request_that_may_not_wait_takes_what_needs_no_call() {
    let space = space(16 << 20, true);
    let areas = three_waiting(&space);
    let alloc =
        |pages: usize| space.raw().alloc(&Request::new(pages << SHIFT).may_block(false)).expect("room");
    let mut other = 0;
    assert_eq!(calls(&space, || other = alloc(700)), [1, 0]);
    assert!(!areas.contains(&other));
    let mut same = 0;
    assert_eq!(calls(&space, || same = alloc(290)), [0, 0]);
    assert!(areas.contains(&same));
    check(&space);
}

/// Where the platform has no memory for a guard page inside, or refuses to unmap the one behind,
/// the request is served by other memory, and the part goes with a later purge.
#[test]
fn a_part_that_the_platform_refuses_is_not_lost() {
    for point in [Point::Map, Point::Unmap, Point::Flush] {
        let space = space(16 << 20, true);
        three_waiting(&space);
        let free_pages = space.stats().free_pages;
        space.platform().fail_nth(point, if point == Point::Map { 2 } else { 1 });
        let other = alloc(&space, 700);
        assert_eq!(space.platform().injected(point), 1);
        touch(&space, other, 700);
        check(&space);
        space.purge().expect("it relented");
        check(&space);
        assert_eq!(space.stats().free_pages, free_pages + 903 - 701, "{point:?}");
        assert_eq!(space.stats().lazy_areas, 0);
    }
}
