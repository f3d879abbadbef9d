//! Scenarios: what two to four threads do to one space, and what holds whatever the schedule.
//!
//! Each ends with everything freed and purged: [`World::finish`].

use crate::machine::Flushes;
use crate::world::{World, here};
use shuttle::sync::mpsc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use vmalloc::space::Notifier;
use vmalloc::sync::point;
use vmalloc::{AllocError, AreaInfo, Config, DrainStatus, Kind, Request};
use vmalloc_sim::{Point, TlbVisibility};

/// Takes and gives areas of one and two pages.
fn work(world: &World) {
    let first = world.take(1);
    let second = world.take(2);
    world.give(first, 1);
    let third = world.take(1);
    world.give(second, 2);
    world.give(third, 1);
}

/// Takes areas and frees them as an interrupt would.
fn free_at_once(world: &World) {
    let areas = [world.take(1), world.take(2)];
    world.give_atomic(areas[0], 1);
    let third = world.take(1);
    world.give_atomic(areas[1], 2);
    world.give(third, 1);
}

/// Takes an area of `pages` pages and gives it back, a few times.
fn come_and_go<const PAGES: u64>(world: &World) {
    for _ in 0..3 {
        let addr = world.take(PAGES);
        world.give(addr, PAGES);
    }
}

/// Three CPUs take and free small areas of their own, with little room and frequent purges.
pub fn small_areas(flushes: Flushes) {
    let world = World::on(World::options(24), World::tight(), flushes);
    world.run([work; 3]);
    world.finish();
}

/// Frees and allocates with as many frames as are needed at once: memory is back when a purge is.
pub fn recycled_frames(flushes: Flushes) {
    let world = World::on(World::options(24).frames(12), World::tight().lazy_max_pages(2), flushes);
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
pub fn freed_elsewhere(flushes: Flushes) {
    let world = World::on(World::options(16), World::tight(), flushes);
    let (sender, receiver) = mpsc::channel();
    let giver = world.clone();
    let taker = world.clone();
    let threads = [
        shuttle::thread::spawn(move || {
            for pages in [1, 2, 1, 3] {
                sender.send((taker.take(pages), pages)).expect("the other side waits");
            }
        }),
        shuttle::thread::spawn(move || {
            while let Ok((addr, pages)) = receiver.recv() {
                giver.give(addr, pages);
            }
        }),
    ];
    world.purge().expect("no fault was asked for");
    let addr = world.take(2);
    world.give(addr, 2);
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
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
        world.purge().expect("no fault was asked for");
        world.purge().expect("no fault was asked for");
    }]);
    world.finish();
}

/// Frees as from interrupts go into a stack of their own, which each purge takes.
pub fn deferred_frees() {
    let world = World::new(24, World::tight());
    world.run([free_at_once, free_at_once, |world| {
        world.purge().expect("no fault was asked for");
        let _ = world.drain().expect("no fault was asked for");
    }]);
    world.finish();
}

/// An area freed twice, once as from an interrupt: one of the two succeeds.
pub fn freed_twice_at_once() {
    let world = World::new(16, World::tight().lazy_max_pages(100));
    let addr = world.take(2);
    let freed = Arc::new(AtomicUsize::new(0));
    let (first, second) = (world.clone(), world.clone());
    let (count, also) = (freed.clone(), freed.clone());
    let threads = [
        shuttle::thread::spawn(move || {
            count.fetch_add(usize::from(first.free(addr)), Relaxed);
        }),
        shuttle::thread::spawn(move || {
            // SAFETY: nothing else uses the memory behind the area.
            also.fetch_add(usize::from(unsafe { second.raw().free_atomic(addr) }.is_ok()), Relaxed);
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    assert_eq!(freed.load(Relaxed), 1, "how often an area was freed");
    world.finish();
}

/// All ways of giving back run against each other and against threads that allocate.
pub fn purges_of_all_kinds() {
    let world = World::new(24, Config::default().cache_bytes(4 * World::PAGE).guard(false).lazy_max_pages(4));
    world.run([work, work, |world| {
        let _ = world.drain().expect("no fault was asked for");
        world.shrink(1).expect("no fault was asked for");
        world.flush().expect("no fault was asked for");
    }]);
    world.purge().expect("no fault was asked for");
    world.finish();
}

/// Three CPUs share a budget of cached pages, look for areas with memory at each other, and a drain
/// lets them decay.
pub fn cached_areas_decay() {
    let world = World::new(24, Config::default().cache_bytes(5 * World::PAGE).guard(false).lazy_max_pages(4));
    world.run([come_and_go::<1>, come_and_go::<2>, |world| {
        let addr = world.take(1);
        let _ = world.drain().expect("no fault was asked for");
        world.give(addr, 1);
    }]);
    let rounds = (0..40).take_while(|_| world.drain().expect("no fault was asked for") == DrainStatus::More);
    assert!(rounds.count() < 40, "repeated, a drain reaches zero");
    assert_eq!(world.shrinkable(), 0);
    world.finish();
}

/// Shrinking gives back no more than it is asked for, whatever other threads do.
pub fn shrink_by_one() {
    let world = World::new(16, Config::default().cache_bytes(8 * World::PAGE).guard(false));
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
pub fn no_alias_is_left(flushes: Flushes) {
    let world = World::on(World::options(24), World::tight().lazy_max_pages(3), flushes);
    let freed = Arc::new(AtomicUsize::new(0));
    let told = freed.clone();
    let (first, second) = (world.clone(), world.clone());
    let threads = [
        shuttle::thread::spawn(move || {
            // No other thread asks for five pages: the addresses are not handed out again at once.
            let addr = first.take(5);
            first.platform().sim().prefetch(2, pages(addr, 5));
            first.give(addr, 5);
            told.store(addr, Relaxed);
            come_and_go::<1>(&first);
        }),
        shuttle::thread::spawn(move || come_and_go::<1>(&second)),
    ];
    let addr = freed.load(Relaxed);
    world.flush().expect("no fault was asked for");
    if addr != 0 {
        for (page, cpu) in (0..5).flat_map(|page| (0..4).map(move |cpu| (page, cpu))) {
            let sight = world.platform().sim().look(cpu, (addr / World::PAGE) as u64 + page);
            assert!(!matches!(sight, TlbVisibility::Stale(_)), "cpu {cpu} still translates page {page}");
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    world.finish();
}

fn pages(addr: usize, pages: u64) -> vmalloc::PageRange {
    vmalloc::PageRange::from_len((addr / World::PAGE) as u64, pages).expect("an area")
}

/// Two threads need all that was freed: the one that finds nothing lazy waits for the other's
/// purge.
///
/// Too large for runs, so that each takes what it needs and no more.
pub fn freed_space_on_its_way() {
    let world = World::new(14, World::tight().lazy_max_pages(100));
    let freed = [world.take(7), world.take(7)];
    freed.iter().for_each(|&addr| world.give(addr, 7));
    world.run(
        [|world: &World| {
            let addr = world.take(7);
            point();
            world.give(addr, 7);
        }; 2],
    );
    world.finish();
}

/// An area that one CPU pooled for later is there for another CPU in need; although a third has
/// just given everything back, so that the second CPU's own purge brings nothing.
pub fn pooled_by_others() {
    let world = World::new(8, World::tight().lazy_max_pages(100));
    let freed = world.take(8);
    world.give(freed, 8);
    world.run([
        |world| {
            let addr = world.take(1);
            point();
            world.give(addr, 1);
        },
        |world| {
            let addr = world.take(6);
            world.give(addr, 6);
        },
        |world| world.purge().expect("no fault was asked for"),
    ]);
    world.finish();
}

/// A notifier that holds an area for each that is asked for.
struct Cache {
    world: World,
    areas: Mutex<Vec<usize>>,
}

impl Notifier for Cache {
    fn make_room(&self, _: u64) -> u64 {
        let area = self.areas.lock().expect("nobody fails with it").pop();
        area.map_or(0, |addr| {
            self.world.give(addr, 7);
            7
        })
    }
}

/// Two run out of addresses and a cache holds them all: at least one gets what the cache gives up,
/// and no thread hangs.
pub fn notifier_makes_room() {
    let world = World::new(14, World::tight());
    let areas = Mutex::new(vec![world.take(7), world.take(7)]);
    let cache = Arc::new(Cache { world: world.clone(), areas });
    let known: Arc<dyn Notifier> = cache.clone();
    world.register_notifier(&known).expect("there is memory");
    let met = Arc::new(AtomicUsize::new(0));
    let threads = [met.clone(), met.clone()].map(|met| {
        let world = world.clone();
        shuttle::thread::spawn(move || match world.try_take(7) {
            Ok(addr) => {
                met.fetch_add(1, Relaxed);
                world.give(addr, 7);
            }
            // While another asks, no other thread does.
            Err(AllocError::NoSpace(_)) => {}
            Err(error) => panic!("{error}"),
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    assert!(met.load(Relaxed) > 0, "the cache was asked for nothing");
    let left = std::mem::take(&mut *cache.areas.lock().expect("nobody fails with it"));
    left.into_iter().for_each(|addr| world.give(addr, 7));
    world.finish();
}

/// A reader without locks sees areas as they are or were, never a mixture.
pub fn seqlock_read_is_consistent() {
    let world = World::new(12, World::tight());
    // The area below stays, so that what comes and goes starts behind it.
    let below = world.take(3);
    world.run([
        |world| {
            for pages in [7, 8, 7] {
                let addr = world.take(pages);
                world.give(addr, pages);
                world.purge().expect("no fault was asked for");
            }
        },
        |world| {
            let start = World::start() + 3;
            for page in [start, start + 2, start + 7, start + 1] {
                let Ok(Some(info)) = world.try_find(page as usize * World::PAGE) else { continue };
                let first = (info.addr / World::PAGE) as u64;
                assert!(first == start && (info.pages == 7 || info.pages == 8), "{info:?} at {page:#x}");
            }
        },
        |world| {
            let info = world.find((World::start() + 1) as usize * World::PAGE).expect("it stays");
            assert_eq!((info.addr / World::PAGE, info.pages), (World::start() as usize, 3));
            let page = World::start() + 5;
            if let Some(info) = world.find(page as usize * World::PAGE) {
                assert!(info.pages == 7 || info.pages == 8, "{info:?}");
            }
        },
    ]);
    world.give(below, 3);
    world.finish();
}

/// Checks that all of `info` is of one of the areas that [`kinds_of_areas`] makes.
fn assert_of_one_area(info: AreaInfo) {
    let seen = (info.bytes, info.pages, info.guard, info.tag);
    let known = [
        (World::PAGE, 1, false, None),
        (World::PAGE - 96, 1, true, None),
        (World::PAGE - 8, 1, true, Some("odd".into())),
        (2 * World::PAGE, 2, true, None),
    ];
    assert!(known.contains(&seen), "a mixture: {info:?}");
}

/// Allocates areas with different annotations and guards, one after the other, and frees each.
fn kinds_of_areas(world: &World) {
    let page = World::PAGE;
    let requests = [
        Request::new(page).without_guard(),
        Request::new(page - 96),
        Request::new(2 * page),
        Request::new(page - 8).tag("odd"),
    ];
    for request in requests {
        let addr = world.raw().alloc(&request).expect("there is room");
        assert!(world.free(addr));
        world.purge().expect("no fault was asked for");
    }
}

/// Looks for areas in every way there is.
fn look_around(world: &World) {
    for page in World::start()..World::start() + 2 {
        world.find(page as usize * World::PAGE).into_iter().for_each(assert_of_one_area);
        let found = world.try_find(page as usize * World::PAGE);
        found.ok().flatten().into_iter().for_each(assert_of_one_area);
    }
    world.areas().for_each(assert_of_one_area);
}

/// Areas with different annotations and guards follow each other at the same addresses: each is
/// found with its own range and its own annotation.
pub fn found_with_its_own_annotation() {
    let world = World::new(8, Config::default().unmap_on_free().nodes(1));
    world.run([kinds_of_areas, look_around, look_around]);
    world.finish();
}

/// The annotations change while the range stays: the areas are reused with their memory.
pub fn found_with_its_own_annotation_when_reused() {
    let world = World::new(8, Config::default().cache_bytes(8 * World::PAGE).nodes(1));
    let reuse: fn(&World) = |world| {
        let page = World::PAGE;
        for request in [Request::new(page - 8).tag("odd"), Request::new(page - 96), Request::new(2 * page)] {
            let addr = world.raw().alloc(&request).expect("there is room");
            assert!(world.free(addr));
        }
    };
    world.run([reuse, look_around, look_around]);
    world.finish();
}

/// An area grows and shrinks in place: it is found with the bytes that it has.
pub fn found_while_it_is_resized() {
    let world = World::new(8, Config::default().unmap_on_free().nodes(1));
    world.run([
        |world| {
            let mut addr = world.raw().alloc(&Request::new(World::PAGE - 96)).expect("there is room");
            for bytes in [2 * World::PAGE, World::PAGE - 96] {
                // SAFETY: the area is this thread's.
                addr = unsafe { world.raw().realloc(addr, &vmalloc::Request::new(bytes)) }
                    .expect("there is room");
            }
            assert!(world.free(addr));
        },
        look_around,
        look_around,
    ]);
    world.finish();
}

/// A fork holds everything for a while; no thread waits for ever, and a look that may not wait does
/// not.
pub fn fork_meets_everything() {
    let world = World::new(16, Config::default().cache_bytes(2 * World::PAGE).guard(false).lazy_max_pages(3));
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
            world.purge().expect("no fault was asked for");
            // SAFETY: nothing uses the addresses any more.
            unsafe { world.raw().unreserve(addr) }.expect("it was reserved");
        },
    ]);
    world.finish();
}

/// A child of a fork goes on with what others left: it loses no more than what they own.
pub fn forked_meanwhile() {
    let world = World::new(24, Config::default().cache_bytes(2 * World::PAGE).guard(false).lazy_max_pages(3));
    let addr = world.take(2);
    for body in
        [work, free_at_once, |world: &World| world.purge().map(|_| ()).expect("no fault was asked for")]
    {
        let world = world.clone();
        shuttle::thread::spawn(move || body(&world));
    }
    point();
    world.fork(|world| {
        work(world);
        world.give(addr, 2);
        world.purge().expect("no fault was asked for");
        // Each of the two has up to three pages.
        let stats = world.stats();
        assert!(stats.busy_pages <= 6, "more than others have is gone: {stats:?}");
        assert_eq!(stats.free_pages + stats.busy_pages, stats.span_pages, "{stats:?}");
    });
}

/// Forks while another thread is in need, and perhaps inside a notifier: the child still calls
/// notifiers, and its nodes still take addresses for later.
pub fn forked_while_in_need() {
    let world = World::new(16, World::tight().nodes(1));
    let areas = Mutex::new(vec![world.take(7), world.take(7)]);
    let cache = Arc::new(Cache { world: world.clone(), areas });
    let known: Arc<dyn Notifier> = cache.clone();
    world.register_notifier(&known).expect("there is memory");
    let other = world.clone();
    shuttle::thread::spawn(move || {
        let _ = other.try_take(7);
    });
    point();
    // A mutex of the test's, which the other thread may hold for ever in the child.
    let left = cache.areas.lock().expect("nobody fails with it").clone();
    world.fork(|world| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter: Arc<dyn Notifier> = Arc::new(Counter(asked.clone()));
        world.register_notifier(&counter).expect("there is memory");
        drop(known);
        drop(cache);
        let _ = world.try_take(16);
        assert!(asked.load(Relaxed) > 0, "the child calls its notifiers");
        for addr in left {
            world.free(addr);
        }
        world.purge().expect("no fault was asked for");
        world.take(1);
        assert!(world.stats().pooled_areas > 0, "the child's nodes take addresses for later");
    });
}

/// Counts how often it is asked.
struct Counter(Arc<AtomicUsize>);

impl Notifier for Counter {
    fn make_room(&self, _: u64) -> u64 {
        self.0.fetch_add(1, Relaxed);
        0
    }
}

/// Forks inside a notifier: the child goes on inside it, and counts itself off once.
pub fn forked_inside_a_notifier() {
    let world = World::new(16, World::tight().nodes(1));
    let area = world.take(14);
    let forker: Arc<dyn Notifier> = Arc::new(Forker(world.clone()));
    world.register_notifier(&forker).expect("there is memory");
    let other = world.clone();
    shuttle::thread::spawn(move || look_at(&other, area));
    world.try_take(7).expect_err("there is no room");
    drop(forker);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter: Arc<dyn Notifier> = Arc::new(Counter(asked.clone()));
    world.register_notifier(&counter).expect("there is memory");
    world.try_take(7).expect_err("there is no room");
    assert!(asked.load(Relaxed) > 0, "the child calls its notifiers");
    world.give(area, 14);
    world.purge().expect("no fault was asked for");
    let addr = world.take(1);
    assert!(world.stats().pooled_areas > 0, "the child's nodes take addresses for later");
    world.give(addr, 1);
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

impl Notifier for Forker {
    fn make_room(&self, _: u64) -> u64 {
        self.0.become_child();
        0
    }
}

/// Of two threads that free an area one succeeds.
pub fn freed_twice() {
    let world = World::new(16, World::tight().lazy_max_pages(100));
    let near = world.take(1);
    let addr = world.take(2);
    let freed = Arc::new(AtomicUsize::new(0));
    let threads = [freed.clone(), freed.clone()].map(|freed| {
        let world = world.clone();
        shuttle::thread::spawn(move || {
            // Of another area whose bit is in the same word.
            let other = world.take(1);
            freed.fetch_add(usize::from(world.free(addr)), Relaxed);
            world.give(other, 1);
        })
    });
    world.give(near, 1);
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    assert_eq!(freed.load(Relaxed), 1, "how often an area was freed");
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

/// Frees ask a thread to drain, which may come late: they help themselves when it does.
pub fn drained_in_the_background() {
    let world = World::drained(World::options(20), World::tight().lazy_max_pages(2), Flushes::Done, true);
    world.run([come_and_go::<2>, come_and_go::<3>, |world| {
        for _ in 0..6 {
            if world.platform().take_due() {
                let _ = world.drain().expect("no fault was asked for");
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
        Config::default().cache_bytes(3 * World::PAGE).guard(false).lazy_max_pages(4),
        Flushes::Done,
    );
    world.run([work; 3]);
    world.finish();
}

/// Frames run out: allocations fail with an error or not at all, and nothing is lost.
pub fn memory_runs_out() {
    let options = World::options(16).frames(3);
    let world =
        World::on(options, Config::default().cache_bytes(2 * World::PAGE).lazy_max_pages(4), Flushes::Done);
    let worker: fn(&World) = |world| {
        for pages in [1, 2] {
            match world.try_take(pages) {
                Ok(addr) => world.give(addr, pages),
                Err(AllocError::Unbacked(_) | AllocError::NoSpace(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    world.run([worker; 3]);
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

/// Areas with annotations come and go beside plain ones: each is found with its own annotation, and
/// freed as what it is.
pub fn annotations_follow_their_areas() {
    let world = World::new(16, World::tight());
    let tagged: fn(&World) = |world| {
        let tag = ["", "one", "two", "three"][here() % 4];
        for _ in 0..2 {
            let addr = world.raw().reserve(&Request::new(World::PAGE).tag(tag)).expect("there is room");
            let info = world.find(addr).expect("it is reserved");
            assert_eq!((info.addr, info.kind, info.tag), (addr, Kind::Reserved, Some(tag.into())));
            assert!(!world.free(addr), "it is no memory");
            // SAFETY: nothing uses the addresses any more.
            unsafe { world.raw().unreserve(addr) }.expect("it was reserved");
        }
    };
    world.run([tagged, tagged, come_and_go::<1>]);
    world.finish();
}
