//! The heap runs out at every single request that a space makes of it: a typed error, and nothing
//! is lost.

use crate::PAGE;
use vmalloc::{AllocError, PageRange, Request, Space, SpaceError, SpaceOptions};
use vmalloc_model::{Seeded, Source};
use vmalloc_sim::heap::{self, Demand, Shortage};
use vmalloc_sim::{Options, Sim};

/// Operations of a program: its lists, leaves and directories grow several times.
const OPS: usize = 400;

fn sim() -> Sim {
    Options::new(PageRange::new(0x1000, 0x101000).expect("not empty")).build()
}

/// Settings with which a freed area becomes lazy, is purged soon, or is cached.
fn configs() -> [SpaceOptions; 3] {
    let unmapping = SpaceOptions::default().unmap_on_free();
    [unmapping, unmapping.lazy_max_pages(32), SpaceOptions::default()]
}

/// When the heap runs out, counted over all operations of a program, and for how long.
#[derive(Clone, Copy)]
enum Lack {
    Never,
    /// At this request alone.
    Once(u64),
    /// From this request to the end of the operation that made it.
    Operation(u64),
}

/// A space, what lives in it, and a heap that fails.
struct Bench {
    space: Space<Sim>,
    live: Vec<usize>,
    source: Seeded,
    lack: Lack,
    demand: Demand,
    /// Operations that were refused for it.
    errors: u64,
}

impl Bench {
    fn new(config: SpaceOptions, lack: Lack) -> Self {
        let space = Space::new(sim(), config).expect("an empty space");
        Self { space, live: Vec::new(), source: Seeded::new(1), lack, demand: Demand::default(), errors: 0 }
    }

    /// Runs `act` on the heap as it is; its result, and whether it was refused memory.
    fn on_heap<R>(&mut self, act: impl FnOnce(&Space<Sim>) -> R) -> (R, bool) {
        let before = self.demand.asked;
        let shortage = match self.lack {
            Lack::Once(nth) if nth > before => Shortage::Nth(nth - before),
            Lack::Operation(nth) if nth > before => Shortage::From(nth - before),
            _ => Shortage::From(u64::MAX),
        };
        let (result, demand) = heap::short_of(shortage, || act(&self.space));
        self.demand.asked += demand.asked;
        self.demand.refused += demand.refused;
        (result, demand.refused > 0)
    }

    fn alloc(&mut self) {
        let mut request = Request::new(self.source.between(1, 6 * PAGE as u64) as usize);
        if self.source.chance(64) {
            // Far apart, and with a note.
            request = request.align(PAGE << self.source.below(11)).tag("aligned");
        }
        match self.on_heap(|space| space.raw().alloc(&request)) {
            (Ok(addr), _) => {
                let page = (addr / PAGE) as u64;
                self.space.platform().write(0, page, page).expect("it is mapped");
                self.live.push(addr);
            }
            (Err(AllocError::Metadata), true) => self.errors += 1,
            (Err(error), refused) => panic!("{error}, memory refused: {refused}"),
        }
    }

    fn free(&mut self) {
        let index = self.source.below(self.live.len() as u64) as usize;
        let addr = self.live.swap_remove(index);
        let page = (addr / PAGE) as u64;
        assert_eq!(self.space.platform().read(1, page), Ok(page));
        // SAFETY: the area is the bench's own, and it is forgotten here.
        let (freed, _) = self.on_heap(|space| unsafe { space.raw().free(addr) });
        freed.expect("a free needs no memory");
    }

    fn purge(&mut self) {
        self.on_heap(Space::purge).0.expect("a purge needs no memory");
    }

    fn step(&mut self) {
        match self.source.below(32) {
            0 => self.purge(),
            1..12 if !self.live.is_empty() => self.free(),
            _ => self.alloc(),
        }
        self.check();
    }

    fn check(&self) {
        self.space.verify().expect("every invariant holds");
        assert_eq!(self.space.stats().busy_areas, self.live.len() as u64);
    }

    /// Frees everything, and finds everything back.
    fn finish(&mut self) {
        while !self.live.is_empty() {
            self.free();
        }
        self.space.purge().expect("no fault");
        self.check();
        let stats = self.space.stats();
        assert_eq!((stats.free_pages, stats.largest_free_pages), (stats.span_pages, stats.span_pages));
        self.space.platform().check_end();
    }
}

/// A program from its first operation to its last; what it asked for, and how many operations were
/// refused.
fn run(config: SpaceOptions, lack: Lack) -> (Demand, u64) {
    let mut bench = Bench::new(config, lack);
    (0..OPS).for_each(|_| bench.step());
    bench.finish();
    (bench.demand, bench.errors)
}

#[test]
fn a_heap_that_fails_at_any_request_loses_nothing() {
    for config in configs() {
        let (whole, errors) = run(config, Lack::Never);
        assert_eq!((whole.refused, errors), (0, 0));
        // Hash tables grow sooner or later by the seed of their hashes: not every run asks for as
        // much.
        let lacks = (1..=whole.asked).flat_map(|nth| [Lack::Once(nth), Lack::Operation(nth)]);
        let runs: Vec<(Demand, u64)> = lacks.map(|lack| run(config, lack)).collect();
        let (refused, errors) =
            runs.iter().fold((0, 0), |sum, (demand, errors)| (sum.0 + demand.refused, sum.1 + errors));
        assert!(
            refused >= whole.asked && errors > 10,
            "only {refused} refusals and {errors} errors: {config:?}"
        );
    }
}

/// A heap with nothing left at all: what needs none goes on.
#[test]
fn areas_are_freed_and_purged_without_any_memory() {
    for config in configs() {
        let mut bench = Bench::new(config, Lack::Never);
        (0..500).for_each(|_| bench.alloc());
        bench.lack = Lack::Operation(bench.demand.asked + 1);
        for left in (20..500).rev() {
            bench.free();
            bench.check();
            assert_eq!(bench.live.len(), left);
            bench.lack = Lack::Operation(bench.demand.asked + 1);
        }
        bench.purge();
        let stats = bench.space.stats();
        assert_eq!((stats.lazy_areas, stats.cached_areas, stats.pooled_areas), (0, 0, 0), "{config:?}");
        bench.finish();
    }
}

#[test]
fn a_space_without_memory_to_begin_with_is_a_typed_error() {
    let begin =
        |sim: Sim| heap::short_of(Shortage::From(1), || Space::new(sim, SpaceOptions::default()).err());
    let (error, demand) = begin(sim());
    assert!(demand.refused == 0 || error == Some(SpaceError::Metadata), "{error:?}, {demand:?}");
}

/// A purge without memory for longer lists goes in several rounds.
#[test]
fn everything_cached_is_flushed_without_any_memory() {
    let config = SpaceOptions::default().cache_bytes(1 << 24).guard(false);
    let mut bench = Bench::new(config, Lack::Never);
    (0..500).for_each(|_| bench.alloc());
    while !bench.live.is_empty() {
        bench.free();
    }
    let kept = bench.space.stats().cached_areas;
    assert!(kept > 400, "far more than a list has room for: {kept}");
    bench.lack = Lack::Operation(bench.demand.asked + 1);
    bench.on_heap(Space::flush).0.expect("a flush needs no memory");
    assert_eq!(bench.space.stats().cached_areas, 0, "of {kept}");
    bench.finish();
}
