//! How far a space spreads: areas in use lie close together, however long a load goes on and
//! however its threads move from CPU to CPU.

use crate::{PAGE, alloc, free};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use vmalloc::{MemoryCost, PageRange, Policy, Raw, Request, Space, SpaceOptions};
use vmalloc_sim::{Options, Sim};

const START: u64 = 1 << 20;

fn space(cpus: usize, space_options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::from_len(START, 1 << 24).unwrap();
    Space::new(Options::new(span).cpus(cpus).build(), space_options.guard(false)).unwrap()
}

/// Areas that replace one another at random, each call on any CPU.
struct Load {
    space: Space<Sim>,
    rng: SplitMix64,
    cpus: usize,
    live: Vec<(usize, usize)>,
    pages: usize,
}

impl Load {
    fn new(cpus: usize, space_options: SpaceOptions, areas: usize) -> Self {
        let rng = SplitMix64::seed_from_u64(1);
        let mut load = Self { space: space(cpus, space_options), rng, cpus, live: Vec::new(), pages: 0 };
        (0..areas).for_each(|_| load.grow());
        load
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.next_u64() as usize % bound
    }

    fn move_somewhere(&mut self) {
        let cpu = self.below(self.cpus);
        Sim::run_on(cpu);
    }

    /// Sizes from 1 to 256 pages, each doubling as likely as the next.
    fn grow(&mut self) {
        self.move_somewhere();
        let pages = 256f64.powf(self.below(1 << 20) as f64 / f64::from(1 << 20)) as usize;
        self.live.push((alloc(&self.space, pages), pages));
        self.pages += pages;
    }

    fn shrink(&mut self) {
        self.move_somewhere();
        let nth = self.below(self.live.len());
        let (addr, pages) = self.live.swap_remove(nth);
        free(&self.space, addr);
        self.pages -= pages;
    }

    /// Replaces areas. Returns the largest span on the way, in hundredths of the pages in use then.
    fn run(&mut self, steps: usize) -> usize {
        let mut widest = 0;
        for step in 0..steps {
            self.shrink();
            self.grow();
            if step % 500 == 0 {
                let end = self.live.iter().map(|(addr, pages)| addr / PAGE + pages).max().unwrap();
                widest = widest.max(100 * (end - START as usize) / self.pages);
            }
        }
        widest
    }
}

/// On 1 and on 4 CPUs, cached and unmapped, the first run and a later one.
#[test]
fn the_span_of_a_steady_load_stops_growing() {
    for (cpus, space_options) in [(1, SpaceOptions::default()), (4, SpaceOptions::default())]
        .into_iter()
        .flat_map(|(cpus, space_options)| [(cpus, space_options), (cpus, space_options.unmap_on_free())])
    {
        let mut load = Load::new(cpus, space_options, 8_000);
        let (first, _, last) = (load.run(40_000), load.run(40_000), load.run(40_000));
        assert!(last <= first + 4, "{first} and later {last} hundredths on {cpus} CPUs, {space_options:?}");
        assert!(last <= 140, "{last} hundredths of what is in use on {cpus} CPUs, {space_options:?}");
        load.space.verify().unwrap();
    }
}

#[test]
fn addresses_that_wait_in_one_node_serve_another() {
    let space = space(2, SpaceOptions::default().unmap_on_free());
    let areas: Vec<usize> = (0..300).map(|_| alloc(&space, 100)).collect();
    let end = areas.iter().max().unwrap() + 100 * PAGE;
    areas.iter().for_each(|&addr| free(&space, addr));
    space.flush().unwrap();
    assert!(space.stats().pooled_areas > 100, "they wait in the pools of node 0");
    Sim::run_on(1);
    let first = alloc(&space, 100);
    assert!(first < end, "{first:#x} is new, and {} areas wait", space.stats().pooled_areas);
}

#[test]
fn a_pool_holds_no_more_than_twice_what_a_purge_takes() {
    let space = space(2, SpaceOptions::default().unmap_on_free().lazy_max_pages(4_000));
    let areas: Vec<usize> = (0..200).map(|_| alloc(&space, 100)).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    space.flush().unwrap();
    let stats = space.stats();
    assert_eq!(stats.lazy_pages, 0);
    assert!(stats.pooled_pages <= 9_000 && stats.pooled_pages > 4_000, "{} pages", stats.pooled_pages);
}

#[test]
fn what_no_node_has_used_for_a_cycle_goes_back() {
    let space = space(1, SpaceOptions::default().unmap_on_free());
    let areas: Vec<usize> = (0..100).map(|_| alloc(&space, 70)).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    space.flush().unwrap();
    let pooled = space.stats().pooled_areas;
    assert_eq!(pooled, 100);
    // The first cycle begins when the areas come in; then half of the idle ones go each time.
    for _ in 0..12 {
        let many: Vec<usize> = (0..20_000).map(|_| alloc(&space, 1)).collect();
        many.iter().for_each(|&addr| free(&space, addr));
    }
    let left = || space.cached().filter(|(area, _)| area.len() == 70).count();
    assert!(
        left() < pooled as usize / 10,
        "where the pool is full, {} areas of a size that nobody asks for",
        left()
    );
    (0..20).for_each(|_| space.decay().unwrap());
    assert_eq!(left(), 0, "by age");
}

#[test]
fn the_cache_grows_with_what_is_in_use() {
    let cached_after = |live: usize| {
        let space = space(4, SpaceOptions::default());
        let _kept: Vec<usize> = (0..live).map(|_| alloc(&space, 100)).collect();
        let areas: Vec<usize> = (0..200).map(|_| alloc(&space, 200)).collect();
        areas.iter().for_each(|&addr| free(&space, addr));
        space.stats().cached_pages
    };
    let (little, much) = (cached_after(0), cached_after(20_000));
    assert!(little < 9_000 && much > 30_000, "{little} and {much} pages");
}

/// Where memory is dear, with at least 1 MiB cached.
fn dear() -> SpaceOptions {
    let space_options = SpaceOptions::default().memory_cost(MemoryCost::Dear).cache_bytes(256 << 20);
    space_options.cached_beside(|in_use| (in_use / 3).max(256)).lazy_max_pages(1024)
}

/// The cost of memory alone says what the cache follows, and slack alone how much larger an area
/// may be than what is asked for.
#[test]
fn slack_is_no_matter_of_what_memory_costs() {
    for (cost, slack) in [MemoryCost::Cheap, MemoryCost::Dear].into_iter().flat_map(|it| [(it, 0), (it, 25)])
    {
        let is_dear = cost == MemoryCost::Dear;
        let space = space(1, dear().cache_bytes(16 << 20).memory_cost(cost).max_slack_percent(slack));
        let areas: Vec<usize> = (0..100).map(|_| alloc(&space, 40)).collect();
        areas.iter().for_each(|&addr| free(&space, addr));
        let cached = space.stats().cached_pages;
        assert_eq!(cached == 4_000, is_dear, "{cost:?}, {slack} %: {cached} pages");
        let again: Vec<usize> = (0..100).map(|_| alloc(&space, 35)).collect();
        let larger =
            { again.iter() }.filter(|&&addr| space.find(addr).expect("it is busy").pages != 35).count();
        assert_eq!(larger != 0, slack != 0, "{cost:?}, {slack} %: {larger} areas are larger");
        space.verify().unwrap();
    }
    let pages = PageRange::from_len(0x1000, 1 << 20).expect("not empty");
    let platform = Options::new(pages).memory_cost(MemoryCost::Dear).build();
    let space = Space::new(platform, SpaceOptions::default().max_slack_percent(0)).expect("an empty space");
    assert_eq!(space.options().memory_cost, Some(MemoryCost::Dear), "as the platform says");
}

/// Areas of one size are had and given up in turn, all at once, as a collector of garbage does it.
#[test]
fn what_is_freed_below_the_highest_size_stays_cached() {
    let space = space(1, dear());
    for round in 0..3 {
        let areas: Vec<usize> = (0..100).map(|_| alloc(&space, 200)).collect();
        areas.iter().for_each(|&addr| free(&space, addr));
        assert_eq!(space.stats().cached_pages, 20_000, "round {round}");
    }
}

/// Small and large sizes, each of which is left behind for the next.
#[test]
fn a_space_is_at_most_a_third_larger_than_what_was_in_use() {
    let space = space(1, dear());
    let mut highest = 0;
    for pages in (20..600).step_by(7).chain((20..600).step_by(31)) {
        let areas: Vec<usize> = (0..500).map(|_| alloc(&space, pages)).collect();
        let (cached, in_use) = (space.stats().cached_pages, 500 * pages as u64);
        highest = highest.max(in_use);
        // Addresses in pools count as in use, and a miss may leave some to the next one.
        let most = highest + highest / 3 + 2_048;
        assert!(cached + in_use <= most, "{cached} pages are cached beside {in_use}, in areas of {pages}");
        areas.iter().for_each(|&addr| free(&space, addr));
    }
}

/// Growth on one CPU makes go what others have cached, one after the other.
#[test]
fn growth_on_one_cpu_takes_what_others_have_cached() {
    for cpus in [2, 8] {
        let space = space(cpus, dear());
        let areas: Vec<usize> = (0..100).map(|_| alloc(&space, 200)).collect();
        for (nth, &addr) in areas.iter().enumerate() {
            Sim::run_on(nth % (cpus - 1));
            free(&space, addr);
        }
        Sim::run_on(cpus - 1);
        let areas: Vec<usize> = (0..400).map(|_| alloc(&space, 100)).collect();
        // A third of the 40,000 that are in use.
        let cached = space.stats().cached_pages;
        assert!(cached <= 13_400, "{cached} pages are cached on {cpus} CPUs");
        areas.iter().for_each(|&addr| free(&space, addr));
        space.verify().unwrap();
    }
}

/// Areas that are in use again are not taken for cached ones, and so growth is seen at once: before
/// the space is a third larger than it was.
#[test]
fn growth_is_seen_after_cached_areas_are_in_use_again() {
    let space = space(1, dear());
    let fill =
        |count: usize, pages: usize| -> Vec<usize> { (0..count).map(|_| alloc(&space, pages)).collect() };
    let left_behind = fill(100, 50);
    let used_again = fill(100, 200);
    left_behind.iter().chain(&used_again).for_each(|&addr| free(&space, addr));
    let _used_again = fill(100, 200);
    assert_eq!(space.stats().cached_pages, 5_000);
    let _more = fill(50, 150);
    let cached = space.stats().cached_pages;
    assert!(cached < 4_000, "{cached} pages of a size that was left behind");
}

/// Areas that growth has made lazy count at once as neither in use nor cached, however much may be
/// lazy: no more go than the space grows.
#[test]
fn growth_is_counted_once() {
    let space = space(1, dear().lazy_max_pages(1 << 16));
    let fill =
        |count: usize, pages: usize| -> Vec<usize> { (0..count).map(|_| alloc(&space, pages)).collect() };
    let _held = fill(200, 200);
    fill(60, 50).iter().for_each(|&addr| free(&space, addr));
    let _as_much = fill(20, 150);
    let before = space.stats().cached_pages;
    let _more = fill(6, 150);
    let (stats, grown) = (space.stats(), 6 * 150);
    assert!(stats.cached_pages < before && before - stats.cached_pages <= grown, "{before}: {stats:?}");
}

/// Large areas of sizes that a program has left behind serve other sizes, or are given back while
/// the space grows; and only then.
#[test]
fn memory_of_large_sizes_that_are_left_behind_serves_others() {
    let space = space(1, dear());
    let all_at_once = |pages: usize| {
        let areas: Vec<usize> = (0..5).map(|_| alloc(&space, pages)).collect();
        let cached = space.stats().large_pages;
        areas.iter().for_each(|&addr| free(&space, addr));
        cached
    };
    for pages in [300, 1_200, 4_800] {
        let cached = all_at_once(pages);
        assert!(cached <= 5 * pages as u64 / 3, "{cached} pages are cached beside five areas of {pages}");
    }
    let mapped = space.platform().mapped_pages();
    assert!(mapped >= 5 * 4_800, "{mapped} pages are mapped");
    let _ = [1_200, 300, 4_800].map(all_at_once);
    assert_eq!(space.platform().mapped_pages(), mapped, "it has not grown");
    space.verify().unwrap();
}

/// Growth by large areas for which no large cached area can go makes small ones go.
#[test]
fn a_space_that_grows_by_large_areas_keeps_no_small_sizes_that_are_left_behind() {
    let space = space(1, dear().cached_beside(|in_use| (in_use / 3).max(8192)));
    let small: Vec<usize> = (0..640).map(|nth| alloc(&space, 2 + nth % 10)).collect();
    small.iter().for_each(|&addr| free(&space, addr));
    let before = space.stats().cached_pages;
    assert!(before > 4_000, "{before} pages are cached");
    let large: Vec<usize> = (0..10).map(|_| alloc(&space, 1_000)).collect();
    // A miss of a small size gives some of them back each time.
    let missed: Vec<usize> = (0..200).map(|_| alloc(&space, 20)).collect();
    let after = space.stats().cached_pages;
    assert!(after < before * 3 / 4, "{after} of {before} cached pages are left");
    missed.iter().chain(&large).for_each(|&addr| free(&space, addr));
}

/// A request that can't be met is no growth: what grows later on gives large areas back as ever.
#[test]
fn a_request_without_a_place_is_no_growth() {
    let after_growth = |doomed: bool| {
        let space = space(1, dear());
        let fill = || {
            let areas: Vec<usize> = (0..8).map(|_| alloc(&space, 300)).collect();
            areas.iter().for_each(|&addr| free(&space, addr));
        };
        fill();
        if doomed {
            assert!(space.raw().alloc(&Request::new((1 << 25) * PAGE)).is_err());
            fill();
        }
        assert_eq!(space.stats().large_pages, 8 * 300);
        let _large = alloc(&space, 4_800);
        space.stats().large_pages
    };
    assert_eq!([after_growth(false), after_growth(true)], [0; 2]);
}

/// Memory of any size that waits lies at a random place already, and serves the next request.
#[test]
fn what_waits_at_random_places_is_reused() {
    let options = SpaceOptions::default().policy(Policy::Random { seed: 7 }).memory_cost(MemoryCost::Dear);
    let options = options.cache_bytes(16 << 20);
    let span = PageRange::from_len(0x1000, 1 << 16).expect("not empty");
    let space = Space::new(Options::new(span).build(), options).expect("an empty space");
    for pages in [1, 200, 1000] {
        let addr = alloc(&space, pages);
        free(&space, addr);
        let maps = space.platform().counts().maps;
        assert_eq!((alloc(&space, pages), space.platform().counts().maps), (addr, maps), "{pages} pages");
        let request = Request::new(pages * PAGE).policy(Policy::Random { seed: 7 });
        assert_ne!(space.raw().alloc(&request), Ok(addr), "a policy of its own is meant");
    }
}

/// Each seed is mixed with the machine's entropy, whatever the area is for.
#[test]
fn random_places_of_one_seed_differ() {
    let options = SpaceOptions::default().policy(Policy::Random { seed: 7 }).cache_bytes(0);
    let span = PageRange::from_len(0x1000, 1 << 20).expect("not empty");
    let space = Space::new(Options::new(span).build(), options).expect("an empty space");
    let raw = space.raw();
    let request = Request::new(3 * PAGE);
    for call in [Raw::alloc, Raw::alloc_shared, Raw::alloc_exec, Raw::reserve] {
        let made: BTreeSet<usize> = (0..20).map(|_| call(&raw, &request).expect("room")).collect();
        let gaps: BTreeSet<usize> = made.iter().zip(made.iter().skip(1)).map(|(a, b)| b - a).collect();
        assert!(gaps.len() > 10, "{gaps:x?}");
    }
}
