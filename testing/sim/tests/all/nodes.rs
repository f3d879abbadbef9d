//! Nodes, pools and drains, on a platform that insists on the contract and counts its
//! calls.

use crate::{PAGE, alloc, free};
use vmalloc::{
    AllocError, DrainStatus, MemoryCost, PageRange, Request, RequestError, Space, SpaceError, SpaceOptions,
    Stats,
};
use vmalloc_sim::{Options, Sim};

fn machine(pages: u64, cpus: usize) -> Options {
    Options::new(PageRange::from_len(0x1000, pages).unwrap()).cpus(cpus)
}

/// Returns areas of exactly the pages asked for.
fn bare(options: SpaceOptions) -> SpaceOptions {
    options.guard(false)
}

pub(crate) fn space(pages: u64, options: SpaceOptions) -> Space<Sim> {
    Space::new(machine(pages, 4).build(), bare(options)).unwrap()
}

fn is_whole(stats: &Stats) -> bool {
    stats.largest_free_pages == stats.span_pages && stats.busy_areas == 0
}

#[test]
fn the_number_of_nodes_is_checked() {
    let nodes = |count| {
        Space::new(machine(100, 300).build(), SpaceOptions::default().nodes(count))
            .map(|s| s.node_stats().len())
    };
    assert_eq!(nodes(0).unwrap(), 128, "one for each CPU, as far as that goes");
    assert_eq!([nodes(1).unwrap(), nodes(128).unwrap()], [1, 128]);
    assert_eq!(nodes(129).unwrap_err(), SpaceError::TooManyNodes { nodes: 129 });
    assert_eq!(nodes(1000).unwrap_err(), SpaceError::TooManyNodes { nodes: 1000 });
}

/// A drain that is done leaves nothing that would drain what is freed later: the next free asks the
/// platform again.
#[test]
fn a_free_after_a_drain_that_is_done_asks_for_another() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let machine = machine(1 << 12, 1).promises_drains().build();
        let space = Space::new(machine, options).unwrap();
        for round in 0..3 {
            let asked = space.platform().counts().drains_by_age;
            let areas = [(); 3].map(|()| alloc(&space, 2));
            areas.iter().for_each(|&addr| free(&space, addr));
            assert_eq!(space.platform().counts().drains_by_age, asked + 1, "round {round}");
            let is_done = (0..20).any(|_| space.drain().unwrap() == DrainStatus::Done);
            assert!(is_done, "round {round}");
        }
    }
}

#[test]
fn purged_areas_return_to_their_owner_node() {
    let space = space(1 << 16, SpaceOptions::default().unmap_on_free());
    Sim::run_on(1);
    // As many as a node takes in one go, so that nothing waits in its pools.
    let areas: Vec<usize> = (0..200).map(|_| alloc(&space, 7)).collect();
    Sim::run_on(2);
    areas.iter().for_each(|&addr| free(&space, addr));
    let before: Vec<_> = space.node_stats().collect();
    assert_eq!((before[1].lazy_areas, before[2].lazy_areas), (0, 200), "freed where the freeing CPU is");
    space.flush().unwrap();
    let after: Vec<_> = space.node_stats().collect();
    assert_eq!(after[1].pooled_areas - before[1].pooled_areas, 200);
    assert_eq!(after[2].pooled_areas, 0);
    space.verify().unwrap();
}

/// Near the start of the span an area that a look at another node finds stays there.
#[test]
fn an_area_that_goes_back_to_its_node_is_none_that_was_reused() {
    for options in [SpaceOptions::default().unmap_on_free(), SpaceOptions::default()] {
        Sim::run_on(0);
        let space = space(1 << 16, options.memory_cost(MemoryCost::Cheap));
        let areas: Vec<_> = (0..100).map(|_| alloc(&space, 5)).collect();
        areas.into_iter().for_each(|addr| free(&space, addr));
        if options.cache_bytes == Some(0) {
            space.flush().unwrap();
        }
        Sim::run_on(1);
        let before = space.stats();
        let _own = alloc(&space, 5);
        let stats = space.stats();
        assert_eq!((before.allocations(), stats.allocations()), (100, 101), "{stats}");
        assert_eq!(stats.placed_areas, before.placed_areas + 1, "a leaf of its own");
    }
}

#[test]
fn pooled_and_cached_areas_decay_to_nothing_without_frees() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = space(1 << 20, options);
        let areas: Vec<usize> = (0..1000).map(|n| alloc(&space, 1 + n % 37)).collect();
        areas.iter().for_each(|&addr| free(&space, addr));
        let rounds = (0..100).take_while(|_| space.drain().unwrap() == DrainStatus::More).count();
        assert!(rounds < 100, "{:?}", space.stats());
        assert!(is_whole(&space.stats()) && space.platform().mapped_pages() == 0);
        space.verify().unwrap();
    }
}

/// A program that replaces its areas all the time keeps what it needs for that, and loses the rest.
#[test]
fn a_decay_spares_what_was_needed_since_the_last_one() {
    for pages in [5, 300] {
        let space = space(1 << 20, SpaceOptions::default().cache_bytes(128 << 20));
        let mut areas: Vec<usize> = (0..60).map(|_| alloc(&space, pages)).collect();
        let needed = space.stats().busy_pages / 3;
        areas.drain(..).for_each(|addr| free(&space, addr));
        for round in 0..100 {
            areas.extend((0..20).map(|_| alloc(&space, pages)));
            areas.drain(..).for_each(|addr| free(&space, addr));
            let _ = space.drain().unwrap();
            let cached = space.stats().cached_pages;
            assert!(cached >= needed, "round {round}: {cached} pages in areas of {pages}");
            assert!(round < 20 || cached == needed, "round {round}: {cached} pages in areas of {pages}");
        }
    }
}

/// The first one finds none that were there before.
#[test]
fn a_decay_takes_about_a_quarter() {
    let space = space(1 << 20, SpaceOptions::default());
    let areas: Vec<usize> = (0..400).map(|_| alloc(&space, 5)).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    for left in [400, 300, 225] {
        space.decay().unwrap();
        assert_eq!(space.stats().cached_areas, left);
    }
}

#[test]
fn the_shrinker_gives_back_no_more_than_it_was_asked_for() {
    let space = space(1 << 20, SpaceOptions::default());
    let areas: Vec<usize> = (0..400).map(|n| alloc(&space, 1 + n % 5)).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    let all = space.shrinkable();
    assert!(all >= 400);
    assert_eq!(space.shrink(0).unwrap(), 0);
    assert_eq!(space.shrink(150).unwrap(), 150);
    assert_eq!((space.shrinkable(), space.stats().cached_areas), (all - 150, 250), "memory first");
    assert_eq!(space.shrink(u64::MAX).unwrap(), all - 150);
    assert!(is_whole(&space.stats()));
    space.verify().unwrap();
}

#[test]
fn no_lock_is_held_for_more_than_32_areas() {
    for options in [
        SpaceOptions::default().cache_bytes(1 << 40),
        SpaceOptions::default().unmap_on_free().lazy_max_pages(1 << 19),
    ] {
        let space = space(1 << 20, options);
        let areas: Vec<usize> = (0..200_000).map(|_| alloc(&space, 1)).collect();
        areas.iter().for_each(|&addr| free(&space, addr));
        space.decay().unwrap();
        space.purge().unwrap();
        let longest = space.stats().longest_hold_areas;
        assert!((1..=32).contains(&longest), "{longest}");
        assert!(is_whole(&space.stats()));
    }
}

#[test]
fn there_is_at_most_one_flush_for_each_threshold_of_pages() {
    let lazy_max = 1000;
    let space = space(1 << 20, SpaceOptions::default().unmap_on_free().lazy_max_pages(lazy_max));
    let mut live: Vec<usize> = (0..500).map(|n| alloc(&space, 1 + n % 16)).collect();
    let mut freed = 0;
    for turn in 0..20_000 {
        let slot = turn * 7919 % live.len();
        freed += space.find(live[slot]).unwrap().pages;
        free(&space, live[slot]);
        live[slot] = alloc(&space, 1 + turn * 31 % 16);
    }
    let flushes = space.platform().counts().flushes;
    assert!(flushes > 0 && flushes <= freed / lazy_max, "{flushes} flushes for {freed} pages");
}

#[test]
fn a_steady_set_that_is_cached_is_never_flushed() {
    let space = space(1 << 20, SpaceOptions::default());
    for turn in 0..10_000 {
        let areas = [1, 3, 16, 64].map(|pages| alloc(&space, pages));
        areas.iter().for_each(|&addr| free(&space, addr));
        assert!(turn > 0 || space.platform().counts().maps <= 4);
    }
    assert_eq!(space.platform().counts().flushes, 0);
    assert!(space.platform().counts().maps <= 4);
}

#[test]
fn callers_purge_at_twice_the_threshold_without_a_drain() {
    let lazy_max = 200;
    let options = bare(SpaceOptions::default().unmap_on_free().lazy_max_pages(lazy_max));
    let space = Space::new(machine(1 << 16, 2).promises_drains().build(), options).unwrap();
    let mut most = 0;
    for _ in 0..10_000 {
        let addr = alloc(&space, 3);
        free(&space, addr);
        most = most.max(space.stats().lazy_pages);
    }
    assert!(space.platform().counts().drains > 0, "it was asked for at the threshold");
    assert!(most > lazy_max && most <= 3 * lazy_max, "{most} lazy pages");
    space.purge().unwrap();
    assert!(is_whole(&space.stats()));
}

/// The platform is told of the first area that waits, and again after a drain that left nothing.
#[test]
fn one_drain_by_age_is_asked_for_at_a_time() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = Space::new(machine(1 << 16, 2).promises_drains().build(), bare(options)).unwrap();
        let asked = |frees: &[usize]| {
            let before = space.platform().counts().drains_by_age;
            for &pages in frees {
                let addr = alloc(&space, pages);
                free(&space, addr);
            }
            space.platform().counts().drains_by_age - before
        };
        // Areas with and without a place in a node.
        assert_eq!((asked(&[1, 300, 2]), asked(&[3, 301])), (1, 0));
        let rounds = (0..40).take_while(|_| space.drain() == Ok(DrainStatus::More));
        assert!(rounds.count() < 40, "repeated, a drain reaches zero");
        assert_eq!((asked(&[300]), asked(&[1])), (1, 0));
        assert_eq!(space.drain(), Ok(DrainStatus::More));
        assert_eq!(asked(&[1]), 0, "the drain that left something comes again");
    }
}

#[test]
fn try_find_answers_while_all_locks_are_held() {
    let space = space(1 << 16, SpaceOptions::default());
    let plain = alloc(&space, 3);
    let far = space.raw().alloc(&Request::new(PAGE).tag("noted").within(0x8000 << 12, 0x9000 << 12)).unwrap();
    space.quiesce();
    let found = space.try_find(plain + 2 * PAGE + 17).map(|area| area.map(|area| area.addr));
    let noted = space.try_find(far);
    // SAFETY: this thread has called `quiesce` just now.
    unsafe {
        space.resume();
    }
    assert_eq!(found, Ok(Some(plain)));
    assert!(noted.is_err(), "its tag is under a lock");
    assert_eq!(space.try_find(far).unwrap().unwrap().tag, Some("noted".into()));
}

#[test]
fn metadata_for_a_live_area_stays_within_32_bytes() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = space(1 << 24, options);
        let mut live: Vec<usize> = (0..20_000).map(|n| alloc(&space, 1 + n % 64)).collect();
        for turn in 0..100_000 {
            let slot = turn * 7919 % live.len();
            free(&space, live[slot]);
            live[slot] = alloc(&space, 1 + turn * 31 % 64);
        }
        let each = space.stats().metadata_bytes as f64 / live.len() as f64;
        assert!(each <= 32.0, "{each} bytes an area");
    }
}

/// With the second area of a size others come along. They lie in its leaf, each at a multiple of the
/// alignment.
#[test]
fn an_aligned_allocation_brings_others_along() {
    for (pages, align) in [(5, 8), (8, 8), (1, 64), (1, 512)] {
        let space = space(1 << 16, SpaceOptions::default().unmap_on_free());
        let request = Request::new(pages * PAGE).align(align * PAGE);
        let [one, first] = [(); 2].map(|()| space.raw().alloc(&request).unwrap());
        let pooled = space.node_stats().map(|node| node.pooled_areas).sum::<u64>() as usize;
        assert_eq!(pooled == 0, align > 64, "{pooled} of {pages} pages at a multiple of {align}");
        let free_pages = space.stats().free_pages;
        let more: Vec<usize> = (0..pooled).map(|_| space.raw().alloc(&request).unwrap()).collect();
        assert_eq!(space.stats().free_pages, free_pages, "all of them waited");
        let leaf = |addr: usize| addr / PAGE / 256;
        assert!(more.iter().all(|&addr| addr % (align * PAGE) == 0 && leaf(addr) == leaf(first)));
        more.iter().chain([&first, &one]).for_each(|&addr| free(&space, addr));
        space.purge().unwrap();
        assert!(is_whole(&space.stats()));
        space.verify().unwrap();
    }
}

#[test]
fn requests_for_a_node_use_its_pool() {
    let space = space(1 << 16, SpaceOptions::default().unmap_on_free());
    Sim::run_on(1);
    let addr = space.raw().alloc(&Request::new(3 * PAGE).node(2)).unwrap();
    free(&space, addr);
    space.flush().unwrap();
    let pooled: Vec<u64> = space.node_stats().map(|node| node.pooled_areas).collect();
    assert!(pooled[2] >= 1, "{pooled:?}");
    assert_eq!(space.raw().alloc(&Request::new(3 * PAGE).node(2)).unwrap(), addr);
    free(&space, addr);
    for pages in [1, 255, 256, 257, 5000] {
        let addr = space.raw().alloc(&Request::new(pages * PAGE).node(2)).unwrap();
        free(&space, addr);
    }
    let refused = space.raw().alloc(&Request::new(PAGE).node(4)).unwrap_err();
    assert_eq!(refused, AllocError::Request(RequestError::NoSuchNode { node: 4, nodes: 4 }));
    space.purge().unwrap();
    space.verify().unwrap();
}
