//! Forks while other threads are in the middle of something.

use super::shortage::Cache;
use super::{free_at_once, hold, work};
use crate::machine::Machine;
use crate::world::World;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::sync::point;
use vmalloc::{FreeError, MemoryCost, Notifier, Request, Space, SpaceOptions};

/// A fork holds everything for a while; no thread waits for ever, and a look that may not wait does
/// not.
pub fn fork_meets_everything() {
    let world =
        World::new(16, SpaceOptions::default().cache_bytes(2 * World::PAGE).guard(false).lazy_max_pages(3));
    world.run([
        work,
        |world| {
            world.quiesce();
            let _ = world.try_find(World::start() as usize * World::PAGE);
            point();
            // SAFETY: this thread has just called `quiesce`.
            unsafe { world.resume() };
        },
        |world| {
            let addr = world.raw().reserve(&Request::new(World::PAGE).tag("io")).expect("there is room");
            world.purge_all();
            // SAFETY: nothing uses the addresses any more.
            unsafe { world.raw().unreserve(addr) }.expect("it was reserved");
        },
    ]);
    world.finish();
}

/// Looks at the whole space take its locks in the order of a fork: none of the two waits for ever.
pub fn a_fork_meets_looks() {
    let world = World::new(16, SpaceOptions::default().cache_bytes(2 * World::PAGE).guard(false));
    let addr = world.raw().reserve(&Request::new(World::PAGE).tag("io")).expect("there is room");
    world.run([
        hold,
        |world| {
            assert_eq!(world.stats().span_pages, 16);
            assert!(world.areas().count() >= 1 && world.cached().count() <= 16);
        },
        work,
    ]);
    // SAFETY: nothing uses the addresses any more.
    unsafe { world.raw().unreserve(addr) }.expect("it was reserved");
    world.finish();
}

/// A child of a fork goes on with what others left: it loses no more than what they own.
pub fn forked_meanwhile() {
    let world =
        World::new(24, SpaceOptions::default().cache_bytes(2 * World::PAGE).guard(false).lazy_max_pages(3));
    let addr = world.take(2);
    let _others = [world.beside(work), world.beside(free_at_once), world.beside(World::purge_all)];
    point();
    world.fork(|world| {
        work(world);
        world.give(addr, 2);
        world.purge_all();
        // Each of the two has up to three pages.
        let stats = world.stats();
        assert!(stats.busy_pages <= 6, "more than others have is gone: {stats:?}");
        assert_eq!(stats.free_pages + stats.busy_pages, stats.span_pages, "{stats:?}");
    });
}

/// A child of a fork finds no record of an area that another thread was handing out or freeing.
pub fn forked_while_areas_are_noted() {
    let world =
        World::new(12, SpaceOptions::default().unmap_on_free().guard(false).nodes(1).lazy_max_pages(3));
    let noting: fn(&World) = |world| {
        let (raw, request) = (world.raw(), Request::new(World::PAGE));
        let addr = raw.alloc(&request.record(3)).expect("there is room");
        assert!(world.free(addr));
        let addr = raw.reserve(&request.record(4)).expect("there is room");
        // SAFETY: nothing uses the addresses any more.
        let freed = unsafe { raw.free_with(addr, |area| Ok::<_, FreeError>(area.record)) };
        assert_eq!(freed, Ok(4));
    };
    let _others = [world.beside(noting), world.beside(noting)];
    point();
    world.fork(|world| {
        world.purge_all();
        let areas: Vec<_> = (0..10).map(|_| world.take(1)).collect();
        for &addr in &areas {
            assert_eq!(world.find(addr).map(|area| area.record), Some(0), "another's record");
        }
        world.verify().expect("every invariant holds");
        areas.into_iter().for_each(|addr| world.give(addr, 1));
    });
}

/// A child of a fork goes on where others were joining areas, making them lazy, and purging.
pub fn forked_while_areas_are_joined() {
    let options = SpaceOptions::default().guard(false).nodes(2).memory_cost(MemoryCost::Dear);
    let world = World::new(64, options.cache_bytes(32 * World::PAGE).cached_beside(|in_use| in_use / 3));
    let large = world.take(48);
    let small: Vec<usize> = (0..4).map(|_| world.take(1)).collect();
    small.iter().for_each(|&addr| world.give(addr, 1));
    let join = |world: &World| {
        let areas = [world.take(2), world.take(3)];
        world.give(areas[1], 3);
        world.give(areas[0], 2);
    };
    let flush = |world: &World| {
        super::come_and_go::<1>(world);
        world.flush_all();
    };
    let _others = [world.beside(join), world.beside(flush)];
    point();
    world.fork(|world| {
        world.verify().expect("every invariant holds");
        join(world);
        world.give(large, 48);
        world.purge_all();
        world.verify().expect("every invariant holds");
        let stats = world.stats();
        assert!(stats.busy_pages <= 10, "more than others have is gone: {stats:?}");
        assert_eq!(stats.free_pages + stats.busy_pages, stats.span_pages, "{stats:?}");
    });
}

/// Forks while another thread is in need, and perhaps inside a notifier: the child still calls
/// notifiers, and its nodes still take addresses for later.
pub fn forked_while_in_need() {
    let world = World::new(16, World::tight().nodes(1));
    let areas = Mutex::new(vec![world.take(7), world.take(7)]);
    let cache = Arc::new(Cache { world: world.clone(), areas });
    let known: Arc<dyn Notifier<Machine>> = cache.clone();
    world.register_notifier(&known).expect("there is memory");
    let _other = world.beside(|world| world.try_take(7).is_ok());
    point();
    // A mutex of the test's, which the other thread may hold for ever in the child.
    let left = cache.areas.lock().expect("nobody fails with it").clone();
    world.fork(|world| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter: Arc<dyn Notifier<Machine>> = Arc::new(Counter(asked.clone()));
        world.register_notifier(&counter).expect("there is memory");
        drop(known);
        drop(cache);
        let _ = world.try_take(16);
        assert!(asked.load(Relaxed) > 0, "the child calls its notifiers");
        for addr in left {
            world.free(addr);
        }
        world.purge_all();
        (0..2).for_each(|_| _ = world.take(1));
        assert!(world.stats().pooled_areas > 0, "the child's nodes take addresses for later");
    });
}

/// Counts how often it is asked.
struct Counter(Arc<AtomicUsize>);

impl Notifier<Machine> for Counter {
    fn make_room(self: Arc<Self>, _: &Space<Machine>, _: u64) -> u64 {
        self.0.fetch_add(1, Relaxed);
        0
    }
}

/// Forks inside a notifier: the child goes on inside it, and counts itself off once.
pub fn forked_inside_a_notifier() {
    let world = World::new(16, World::tight().nodes(1));
    let area = world.take(14);
    let forker: Arc<dyn Notifier<Machine>> = Arc::new(Forker(world.clone()));
    world.register_notifier(&forker).expect("there is memory");
    let _other = world.beside(move |world| look_at(world, area));
    world.try_take(7).expect_err("there is no room");
    drop(forker);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter: Arc<dyn Notifier<Machine>> = Arc::new(Counter(asked.clone()));
    world.register_notifier(&counter).expect("there is memory");
    world.try_take(7).expect_err("there is no room");
    assert!(asked.load(Relaxed) > 0, "the child calls its notifiers");
    world.give(area, 14);
    world.purge_all();
    let addrs = [(); 2].map(|()| world.take(1));
    assert!(world.stats().pooled_areas > 0, "the child's nodes take addresses for later");
    addrs.iter().for_each(|&addr| world.give(addr, 1));
    world.end_child();
}

fn look_at(world: &World, addr: usize) {
    for _ in 0..3 {
        let found = world.find(addr).map(|info| info.addr);
        assert!(found.is_none_or(|start| start == addr), "{found:x?}");
    }
}

/// Forks when it is asked for room.
struct Forker(World);

impl Notifier<Machine> for Forker {
    fn make_room(self: Arc<Self>, _: &Space<Machine>, _: u64) -> u64 {
        self.0.become_child();
        0
    }
}
