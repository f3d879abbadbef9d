//! Purges side by side: two nodes here, each a group that purges by itself.
//!
//! What must hold:
//! - **GROUP-1** What was freed before a flush is flushed when that returns, also what a group's
//!   purge has taken.
//! - **GROUP-2** An allocation in need finds all addresses, those on their way too.
//! - **GROUP-3** A failing platform loses nothing, and no area is given back before all of it is
//!   unmapped.
//! - **GROUP-4** The child of a fork finds everything whole.
//! - **GROUP-5** A drain that is asked for is not forgotten.
//! - **HOLD** No lock is held over more than a batch of areas.

use super::purges::{drain_if_due, told};
use super::{come_and_go, hold, once};
use crate::world::{World, ended, page_of};
use vmalloc::sync::point;
use vmalloc::{PageRange, Request, SpaceOptions};
use vmalloc_sim::{Options, Point, TlbVisibility};

/// The most areas under one hold here.
const HOLD: u64 = 2;

/// Returns a space of two groups, each of which may have `pages` lazy pages. CPUs 1 and 3 share
/// one.
fn world(options: Options, pages: u64) -> World {
    World::on(options, tight(pages))
}

fn tight(pages: u64) -> SpaceOptions {
    World::tight().nodes(2).lazy_max_pages(2 * pages)
}

fn finish(world: &World) {
    world.finish();
    let longest = world.stats().longest_hold_areas;
    assert!(longest <= HOLD, "{longest} areas under one hold");
}

/// GROUP-1: after a flush no CPU translates what was freed before it, though a drain has taken it,
/// and other threads flush.
pub fn flushed_beside_a_group() {
    let world = world(World::options(40).promises_drains(), 2);
    // Nothing is handed out again.
    let areas = [5, 7].map(|pages| (world.take(pages), pages));
    let flush = |world: &World, (addr, pages)| {
        world.flush_all();
        for page in page_of(addr)..page_of(addr) + pages {
            let sight = world.platform().sim().look(2, page);
            assert_eq!(sight, TlbVisibility::Nothing, "a CPU still translates page {page}");
        }
    };
    for (addr, pages) in areas {
        let area = PageRange::from_len(page_of(addr), pages).expect("an area");
        world.platform().sim().prefetch(2, area);
    }
    world.give(areas[0].0, areas[0].1);
    let threads = [
        world.beside(|world| _ = world.drain_once()),
        world.beside(move |world| flush(world, areas[0])),
        world.beside(move |world| {
            world.give(areas[1].0, areas[1].1);
            flush(world, areas[1]);
        }),
    ];
    threads.into_iter().for_each(ended);
    finish(&world);
}

/// GROUP-1: frames go back when nothing shows them any more, though a group's purge has taken their
/// area, and another purge comes in between.
pub fn frames_beside_a_group() {
    let world = world(World::options(40).promises_drains(), 2);
    let shared = world.raw().alloc_shared(&Request::new(World::PAGE)).expect("there is room");
    // The group of this CPU, and of the second thread, has much to purge.
    let addr = world.take(3);
    world.give(addr, 3);
    let threads = [
        world.beside(|world| _ = world.drain_once()),
        // SAFETY: nothing is behind the addresses of a simulated machine.
        world.beside(move |world| unsafe { world.raw().free(shared) }.expect("it is an area")),
        world.beside(|world| _ = world.flush_if_idle()),
    ];
    threads.into_iter().for_each(ended);
    finish(&world);
}

/// GROUP-2: all that is free is on its way, in the hands of a group's purge.
pub fn freed_space_in_a_group() {
    let world = world(World::options(14).promises_drains(), 1);
    let addrs = [world.take(7), world.take(7)];
    world.give(addrs[0], 7);
    world.run([
        |world| once(world, 7),
        |world| _ = world.drain_once(),
        |world| {
            point();
            world.flush_all();
        },
    ]);
    world.give(addrs[1], 7);
    finish(&world);
}

/// GROUP-2: two CPUs in need of what others free, take for later, and purge by groups.
pub fn in_need_beside_groups() {
    let world = world(World::options(12), 1);
    world.run([|world| once(world, 7), come_and_go::<1>, come_and_go::<1>]);
    finish(&world);
}

/// GROUP-3: the platform refuses a page of one area for a while: the area stays back alone.
pub fn refused_in_a_group() {
    let world = world(World::options(32), 1);
    let stuck = world.take(3);
    let page = PageRange::from_len(page_of(stuck) + 1, 1).expect("a page");
    world.platform().sim().refuse(Point::Flush, page);
    let threads = [
        world.beside(move |world| {
            world.give(stuck, 3);
            come_and_go::<1>(world);
        }),
        world.beside(come_and_go::<2>),
        world.beside(|world| {
            come_and_go::<1>(world);
            let _ = world.flush();
        }),
    ];
    threads.into_iter().for_each(ended);
    world.purge().expect_err("a page is refused");
    let stats = world.stats();
    assert_eq!((stats.lazy_areas, stats.refused_areas), (1, 1), "{stats:?}");
    assert_eq!((stats.lazy_pages, stats.free_pages), (3, stats.span_pages - 3), "{stats:?}");
    world.platform().sim().relent();
    finish(&world);
}

/// GROUP-3: an unmap and a flush fail, of a group's purge or of one of the space.
pub fn failing_beside_groups() {
    let world = world(World::options(32), 1);
    world.run([come_and_go::<1>, come_and_go::<2>, |world| {
        world.platform().sim().fail_nth(Point::Flush, 1);
        come_and_go::<1>(world);
        world.platform().sim().fail_nth(Point::Unmap, 1);
        let _ = world.flush();
    }]);
    world.platform().sim().heal();
    finish(&world);
}

/// GROUP-3: a part of an area in use has still to be unmapped when the area is freed: its pages
/// are handed out only after that.
pub fn pending_beside_groups() {
    let world = world(World::options(32), 1);
    let addr = world.raw().reserve(&Request::new(4 * World::PAGE)).expect("there is room");
    let part = addr + World::PAGE..addr + 2 * World::PAGE;
    world.platform().sim().fail_nth(Point::Flush, 1);
    // SAFETY: nothing is behind the addresses of a simulated machine.
    unsafe {
        world.raw().commit(core::slice::from_ref(&part)).expect("there is memory");
        world.raw().decommit(&[part]).expect_err("a flush fails");
    }
    world.platform().sim().heal();
    assert_eq!(world.stats().pending_ranges, 1);
    let use_again = move |world: &World| {
        // SAFETY: as above.
        unsafe { world.raw().unreserve(addr) }.expect("it was reserved");
        (0..2).for_each(|_| once(world, 4));
    };
    let threads = [world.beside(use_again), world.beside(come_and_go::<4>)];
    world.purge_all();
    threads.into_iter().for_each(ended);
    finish(&world);
}

/// GROUP-4: forks while groups purge; no thread waits for ever, and all go on.
pub fn fork_meets_groups() {
    let world = world(World::options(32), 1);
    world.run([come_and_go::<1>, come_and_go::<2>, hold]);
    finish(&world);
}

/// GROUP-4: a child of a fork goes on with what purges of groups left.
pub fn forked_while_groups_purge() {
    let world = world(World::options(32), 1);
    let _others =
        [world.beside(come_and_go::<1>), world.beside(come_and_go::<2>), world.beside(come_and_go::<1>)];
    (0..3).for_each(|_| point());
    world.fork(|world| {
        come_and_go::<2>(world);
        world.purge_all();
        // Each of the others has up to two pages.
        let stats = world.stats();
        assert!(stats.busy_pages <= 4, "more than others have is gone: {stats:?}");
        assert_eq!(stats.free_pages + stats.busy_pages, stats.span_pages, "{stats:?}");
    });
}

/// GROUP-5: when all that the platform was told of is drained, nothing is left in any group.
pub fn drained_by_groups() {
    told(tight(1));
}

/// GROUP-5: a drain begins to look while a group purges what was freed a moment ago.
pub fn drained_beside_a_group() {
    let world = world(World::options(64).promises_drains(), 8);
    let [first, second] = [7, 20].map(|pages| world.take(pages));
    world.give(first, 7);
    let threads = [
        world.beside(move |world| {
            world.give(second, 20);
            0
        }),
        world.beside(|world| {
            (0..12).for_each(|_| _ = drain_if_due(world));
            0
        }),
        // It frees nothing, but finds that its group has fallen behind.
        world.beside(|world| world.take(7)),
    ];
    let last = threads.map(ended)[2];
    let rounds = (0..40).take_while(|_| drain_if_due(&world)).count();
    assert!(rounds < 40, "repeated, a drain reaches zero");
    let stats = world.stats();
    assert_eq!(stats.lazy_areas + stats.pooled_areas, 0, "nobody is told of what waits: {stats:?}");
    world.give(last, 7);
    finish(&world);
}
