//! Threads that free and purge: nothing is used before its flush, and nothing is lost.

use super::{come_and_go, work};
use crate::world::{World, ended, page_of};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::SpaceOptions;
use vmalloc::sync::point;
use vmalloc::{DrainReason, DrainStatus, PageRange, Platform};
use vmalloc_sim::Point;
use vmalloc_sim::TlbVisibility;

/// All ways of giving back run against each other and against threads that allocate.
pub fn purges_of_all_kinds() {
    let world =
        World::new(24, SpaceOptions::default().cache_bytes(4 * World::PAGE).guard(false).lazy_max_pages(4));
    world.run([work, work, |world| {
        let _ = world.drain_once();
        world.shrink(1).expect("no fault was asked for");
        world.flush_all();
    }]);
    world.purge_all();
    world.finish();
}

/// Three CPUs share a budget of cached pages, look for areas with memory at each other, and a drain
/// lets them decay.
pub fn cached_areas_decay() {
    let world =
        World::new(24, SpaceOptions::default().cache_bytes(5 * World::PAGE).guard(false).lazy_max_pages(4));
    world.run([come_and_go::<1>, come_and_go::<2>, |world| {
        let addr = world.take(1);
        let _ = world.drain_once();
        world.give(addr, 1);
    }]);
    let rounds = (0..40).take_while(|_| world.drain_once() == DrainStatus::More);
    assert!(rounds.count() < 40, "repeated, a drain reaches zero");
    assert_eq!(world.shrinkable(), 0);
    world.finish();
}

/// However late the thread that purges gets on, the others do not free on and on: there is a number
/// of lazy pages at which they wait for it.
pub fn lazy_pages_are_bounded() {
    // The first and the third share a node.
    let world = World::new(160, World::tight().nodes(2).lazy_max_pages(2));
    let replace: fn(&World) = |world| {
        for _ in 0..4 {
            (0..4).for_each(|_| come_and_go::<1>(world));
            let lazy = world.stats().lazy_pages;
            assert!(lazy <= 20, "{lazy} lazy pages are too many");
        }
    };
    world.run([replace, replace, replace]);
    world.finish();
}

/// Shrinking gives back no more than it is asked for, whatever other threads do.
pub fn shrink_by_one() {
    let world = World::new(16, SpaceOptions::default().cache_bytes(8 * World::PAGE).guard(false));
    let shrinker: fn(&World) = |world| {
        for _ in 0..2 {
            assert!(world.shrink(1).expect("no fault was asked for") <= 1);
        }
    };
    world.run([come_and_go::<1>, shrinker, shrinker]);
    world.finish();
}

/// After `Space::flush` no CPU translates what was freed before the call, whichever thread is
/// purging it.
pub fn no_alias_is_left() {
    let world = World::on(World::options(24), World::tight().lazy_max_pages(3));
    let freed = Arc::new(AtomicUsize::new(0));
    let told = freed.clone();
    let first = move |world: &World| {
        // No other thread asks for five pages: the addresses are not handed out again at once.
        let addr = world.take(5);
        world.platform().sim().prefetch(2, PageRange::from_len(page_of(addr), 5).expect("an area"));
        world.give(addr, 5);
        told.store(addr, Relaxed);
        come_and_go::<1>(world);
    };
    let threads = [world.beside(first), world.beside(come_and_go::<1>)];
    let addr = freed.load(Relaxed);
    world.flush_all();
    if addr != 0 {
        for (page, cpu) in (0..5).flat_map(|page| (0..4).map(move |cpu| (page, cpu))) {
            let sight = world.platform().sim().look(cpu, page_of(addr) + page);
            assert!(!matches!(sight, TlbVisibility::Stale(_)), "cpu {cpu} still translates page {page}");
        }
    }
    threads.into_iter().for_each(ended);
    world.finish();
}

/// Frees ask a thread to drain, which may come late: they help themselves when it does.
pub fn drained_in_the_background() {
    let world = World::on(World::options(20).promises_drains(), World::tight().lazy_max_pages(2));
    world.run([come_and_go::<2>, come_and_go::<3>, |world| {
        for _ in 0..6 {
            if world.platform().take_due() {
                let _ = world.drain_once();
            }
            point();
        }
    }]);
    world.finish();
}

/// Drains whenever that was asked for, again as long as something is left. Returns whether it was
/// asked for.
pub(super) fn drain_if_due(world: &World) -> bool {
    let is_due = world.platform().take_due();
    if is_due && world.drain_once() == DrainStatus::More {
        let _ = world.platform().drain_later(DrainReason::Age);
    }
    is_due
}

/// Frees tell the platform of what waits. When all that it was told of is drained, nothing is left.
pub fn drained_when_told() {
    told(SpaceOptions::default().cache_bytes(4 * World::PAGE).guard(false).lazy_max_pages(4));
}

pub(super) fn told(space_options: SpaceOptions) {
    let world = World::on(World::options(20).promises_drains(), space_options);
    world.run([come_and_go::<2>, come_and_go::<3>, |world| {
        for _ in 0..12 {
            let _ = drain_if_due(world);
            point();
        }
    }]);
    let rounds = (0..40).take_while(|_| drain_if_due(&world)).count();
    assert!(rounds < 40, "repeated, a drain reaches zero");
    let stats = world.stats();
    let waiting = stats.lazy_areas + stats.cached_areas + stats.pooled_areas;
    assert_eq!(waiting, 0, "nobody is told of what waits: {stats:?}");
    world.finish();
}

/// A purge fails half way, another comes at once: what was not flushed is handed out by neither.
pub fn purges_fail() {
    let world = World::new(20, World::tight().lazy_max_pages(2));
    world.run([come_and_go::<2>, come_and_go::<1>, |world| {
        world.platform().sim().fail_nth(Point::Flush, 1);
        let _ = world.purge();
        world.platform().sim().fail_nth(Point::Unmap, 1);
        let _ = world.flush();
        world.platform().sim().heal();
        let _ = world.drain().expect("it was healed");
    }]);
    world.finish();
}
