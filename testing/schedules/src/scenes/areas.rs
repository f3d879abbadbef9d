//! Threads that take and free areas, at once and of each other.

use super::{done, free_at_once, work};
use crate::machine::Machine;
use crate::world::{World, ended};
use shuttle::sync::mpsc;
use vmalloc::sync::point;
use vmalloc::{Frames, PagedArea, Protection, Request, Space, SpaceOptions};
use vmalloc_sim::InjectedBug;

/// Three CPUs take and free small areas of their own, with little room and frequent purges.
pub fn small_areas(bug: Option<InjectedBug>) {
    let world = World::on(World::options(12).injected_bug(bug), World::tight());
    world.run([work; 3]);
    world.finish();
}

/// Frees and allocates with as many frames as are needed at once: memory is back when a purge is.
pub fn recycled_frames() {
    let world = World::on(World::options(24).frames(12), World::tight().lazy_max_pages(2));
    let worker: fn(&World) = |world| {
        for pages in [1, 2, 1] {
            // Others may hold what was freed, on its way back.
            if let Ok(addr) = world.try_take(pages) {
                world.give(addr, pages);
            }
        }
    };
    world.run([worker; 3]);
    world.finish();
}

/// One CPU allocates, another frees, a third purges: the areas are remote where they are freed.
pub fn freed_elsewhere(bug: Option<InjectedBug>) {
    let world = World::on(World::options(16).injected_bug(bug), World::tight());
    let (sender, receiver) = mpsc::channel();
    let threads = [
        world.beside(move |world| {
            for pages in [1, 2, 1, 3] {
                sender.send((world.take(pages), pages)).expect("the other side waits");
            }
        }),
        world.beside(move |world| {
            while let Ok((addr, pages)) = receiver.recv() {
                world.give(addr, pages);
            }
        }),
    ];
    world.purge_all();
    let addr = world.take(2);
    world.give(addr, 2);
    threads.into_iter().for_each(ended);
    world.finish();
}

/// A purge takes the lists of nodes in which many small frees have not told of themselves yet.
pub fn purged_while_freeing() {
    let world = World::new(24, World::tight().lazy_max_pages(64));
    let worker: fn(&World) = |world| {
        let areas = [world.take(1), world.take(1), world.take(1)];
        areas.iter().for_each(|&addr| world.give(addr, 1));
    };
    world.run([worker, worker, |world| {
        world.purge_all();
        world.purge_all();
    }]);
    world.finish();
}

/// Frees as from interrupts go into a stack of their own, which each purge takes.
pub fn deferred_frees() {
    let world = World::new(24, World::tight());
    world.run([free_at_once, free_at_once, |world| {
        world.purge_all();
        let _ = world.drain_once();
    }]);
    world.finish();
}

/// An area freed twice, once as from an interrupt: one of the two succeeds.
pub fn freed_twice_at_once() {
    let world = World::new(16, World::tight().lazy_max_pages(100));
    let addr = world.take(2);
    let threads = [
        world.beside(move |world| world.free(addr)),
        // SAFETY: nothing else uses the memory behind the area.
        world.beside(move |world| unsafe { world.raw().free_atomic(addr) }.is_ok()),
    ];
    assert_eq!(done(threads), 1, "how often an area was freed");
    world.finish();
}

/// Of two threads that free an area one succeeds.
pub fn freed_twice() {
    let world = World::new(16, World::tight().lazy_max_pages(100));
    let near = world.take(1);
    let addr = world.take(2);
    let threads = [(); 2].map(|()| {
        world.beside(move |world| {
            // Of another area whose bit is in the same word.
            let other = world.take(1);
            let is_freed = world.free(addr);
            world.give(other, 1);
            is_freed
        })
    });
    world.give(near, 1);
    assert_eq!(done(threads), 1, "how often an area was freed");
    world.finish();
}

/// Lazy pages never fall below zero, nor below those of a flush under way.
pub fn lazy_pages_are_counted() {
    let world = World::new(24, World::tight());
    let worker: fn(&World) = |world| {
        for pages in [3, 4] {
            let addr = world.take(pages);
            world.give(addr, pages);
        }
    };
    world.run([worker, worker, |world| {
        for _ in 0..4 {
            let flushing = world.platform().flushing();
            let stats = world.stats();
            assert!(stats.lazy_pages <= stats.span_pages, "{} lazy pages", stats.lazy_pages);
            if flushing != 0 && world.platform().flushing() == flushing {
                assert!(stats.lazy_pages >= flushing, "{} of {flushing} lazy pages", stats.lazy_pages);
            }
            point();
        }
    }]);
    world.finish();
}

/// The CPU is a hint: a thread may be elsewhere at every call.
pub fn threads_migrate() {
    fn anywhere() -> usize {
        shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..4)
    }
    let options = World::options(24).current_cpu(anywhere);
    let world = World::on(
        options,
        SpaceOptions::default().cache_bytes(3 * World::PAGE).guard(false).lazy_max_pages(4),
    );
    world.run([work; 3]);
    world.finish();
}

/// Frames are never mapped outside of their own area, though the addresses there are free at one
/// moment, and another owner's at the next.
pub fn frames_stay_inside_their_area() {
    let world = World::new(12, World::tight());
    world.run([
        |world| {
            let space: &Space<Machine> = world;
            let frames = Frames::new(space, 1).expect("there are many");
            let mut area = PagedArea::new(space, &Request::new(World::PAGE)).expect("there is room");
            let start = World::start() as usize * World::PAGE;
            for page in 0..12 {
                let offset = (start + page * World::PAGE).wrapping_sub(area.addr());
                let mapped = area.map(offset, &frames, Protection::ReadWrite);
                assert_eq!(mapped.is_ok(), offset == 0, "page {page}: {mapped:?}");
            }
        },
        |world| {
            for _ in 0..2 {
                let space: &Space<Machine> = world;
                drop(PagedArea::new(space, &Request::new(World::PAGE)).expect("there is room"));
                let addr = world.take(2);
                world.give(addr, 2);
                world.purge_all();
            }
        },
    ]);
    world.finish();
}
