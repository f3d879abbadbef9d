//! A heap with nothing left at all: what needs none goes on.

use crate::{PAGE, free};
use vmalloc::{PageRange, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{check, check_whole};
use vmalloc_sim::{Due, heap};
use vmalloc_sim::{Options, Sim};

fn sim() -> Sim {
    Options::new(PageRange::new(0x1000, 0x10_1000).expect("not empty")).build()
}

/// Runs `act` without any memory.
fn without_memory<R>(act: impl FnOnce() -> R) -> R {
    heap::short_of(Due::From(1), act).0
}

/// Returns a space with 500 areas of one to six pages.
fn filled(options: SpaceOptions) -> (Space<Sim>, Vec<usize>) {
    let space = Space::new(sim(), options).expect("an empty space");
    let requests = (0..500).map(|nth| Request::new((1 + nth * 7 % 6) * PAGE - nth % 5));
    let far = |nth: usize, request: Request| match nth % 4 {
        0 => request.align(PAGE << (nth % 11)).tag("aligned"),
        _ => request,
    };
    let areas =
        requests.enumerate().map(|(nth, request)| space.raw().alloc(&far(nth, request)).expect("room"));
    let areas = areas.collect();
    (space, areas)
}

#[test]
fn areas_are_freed_and_purged_without_any_memory() {
    let unmapping = SpaceOptions::default().unmap_on_free();
    for options in [unmapping, unmapping.lazy_max_pages(32), SpaceOptions::default()] {
        let (space, mut areas) = filled(options);
        while areas.len() > 20 {
            let addr = areas.swap_remove(areas.len() * 5 % 17);
            without_memory(|| free(&space, addr));
            check(&space);
            assert_eq!(space.stats().busy_areas, areas.len() as u64);
        }
        without_memory(|| space.purge()).expect("a purge needs no memory");
        let stats = space.stats();
        assert_eq!((stats.lazy_areas, stats.cached_areas, stats.pooled_areas), (0, 0, 0), "{options:?}");
        areas.into_iter().for_each(|addr| free(&space, addr));
        check_whole(&space);
    }
}

/// However many areas wait, their lists are asked of the heap in pieces: a kernel's gives no large
/// ones, or to some callers only. The nodes of the tree are one array.
#[test]
fn lists_of_areas_are_no_large_pieces() {
    let [list, tree] = [64 << 10, 96 << 10];
    let span = PageRange::from_len(0x1000, 1 << 26).expect("not empty");
    let options = [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()];
    for (cpus, options) in [1, 16].into_iter().flat_map(|cpus| options.map(|options| (cpus, options))) {
        let space = Space::new(Options::new(span).cpus(cpus).build(), options).expect("an empty space");
        let largest = |act: &mut dyn FnMut()| heap::short_of(Due::Nth(1 << 40), act).1.largest;
        let mut areas = Vec::with_capacity(100_000);
        let request = |nth: usize| Request::new((1 + nth % 4) * PAGE).record(nth as u64 + 1);
        let mut make =
            || (0..100_000).for_each(|nth| areas.push(space.raw().alloc(&request(nth)).expect("room")));
        assert!((list..tree).contains(&largest(&mut make)));
        let mut free_all = || (0..100_000).for_each(|nth| free(&space, areas[nth * 7919 % 100_000]));
        let largest = [
            largest(&mut free_all),
            largest(&mut || space.flush().expect("it can")),
            largest(&mut || space.purge().expect("it can")),
        ];
        assert!(largest.iter().all(|&bytes| bytes <= list), "{options:?}: {largest:?} bytes");
        check_whole(&space);
    }
}

/// A node whose list of lazy areas is full begins another: how many pages wait is decided by their
/// limit alone.
#[test]
fn full_lists_of_lazy_areas_start_no_purge() {
    let span = PageRange::from_len(0x1000, 1 << 26).expect("not empty");
    let options = SpaceOptions::default().unmap_on_free().lazy_max_pages(1 << 20);
    let space = Space::new(Options::new(span).build(), options).expect("an empty space");
    let areas: Vec<usize> =
        (0..20_000).map(|_| space.raw().alloc(&Request::new(PAGE)).expect("room")).collect();
    areas.iter().for_each(|&addr| free(&space, addr));
    assert_eq!((space.stats().lazy_areas, space.stats().purges), (20_000, 0));
    check(&space);
    space.purge().expect("it can");
    assert_eq!((space.stats().lazy_areas, space.stats().purges), (0, 1));
    check_whole(&space);
}

/// A flush without memory for longer lists gives back what it has taken whenever they are full.
#[test]
fn everything_cached_is_flushed_without_any_memory() {
    let options = SpaceOptions::default().cache_bytes(1 << 24).guard(false);
    let (space, areas) = filled(options);
    areas.into_iter().for_each(|addr| free(&space, addr));
    let kept = space.stats().cached_areas;
    assert!(kept > 400, "far more than a list has room for: {kept}");
    without_memory(|| space.flush()).expect("a flush needs no memory");
    assert_eq!(space.stats().cached_areas, 0, "of {kept}");
    check_whole(&space);
}
