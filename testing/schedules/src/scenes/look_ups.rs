//! Threads that look for areas that come, go and change.

use super::come_and_go;
use crate::world::World;
use crate::world::here;
use vmalloc::{AreaInfo, Fit, Kind, MemoryCost, Request, SpaceOptions};

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
                world.purge_all();
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

/// Threads that read the map change nothing: a look-up without locks has its answer at once.
pub fn try_find_answers_beside_readers_of_the_map() {
    let world = World::new(12, World::tight());
    let addr = world.take(3);
    // What this CPU took for later.
    world.purge_all();
    world.run([
        |world| {
            let fit = Fit::new(4);
            assert_eq!(world.stats().busy_areas, 1);
            assert_eq!(world.segments().count(), 2);
            assert_eq!(world.areas().count(), 1);
            assert!(world.place_for(&fit).is_ok() && world.place_for(&Fit::new(12)).is_err());
            assert!(world.vmallocinfo().to_string().contains("pages=3"));
            assert_eq!(world.cached().count(), 0);
            world.verify().expect("no violation");
        },
        |world| {
            let addr = World::start() as usize * World::PAGE;
            for page in [0, 2, 0] {
                let found = world.try_find(addr + page * World::PAGE);
                assert!(found.is_ok_and(|area| area.is_some_and(|area| area.pages == 3)));
            }
        },
    ]);
    world.give(addr, 3);
    world.finish();
}

/// Checks that all of `info` is of one of the areas that the scenes below make. None of one page
/// has neither a tag nor a guard of its own.
fn assert_of_one_area(info: AreaInfo) {
    let seen = (info.bytes, info.pages, info.guard, info.tag, info.record);
    let known = [
        (World::PAGE, 1, false, None, 5),
        (World::PAGE, 1, true, None, 6),
        (World::PAGE, 1, true, Some("even".into()), 0),
        (World::PAGE, 1, true, Some("odd".into()), 7),
        (2 * World::PAGE, 2, true, None, 0),
        (World::PAGE, 1, true, Some("grows".into()), 0),
        (2 * World::PAGE, 2, true, Some("grows".into()), 0),
    ];
    assert!(known.contains(&seen), "a mixture: {info:?}");
}

/// Allocates areas with different annotations and guards, one after the other, and frees each.
fn kinds_of_areas(world: &World) {
    let page = World::PAGE;
    let requests = [
        Request::new(page).guard(false).record(5),
        Request::new(page).tag("even"),
        Request::new(page).record(6),
        Request::new(2 * page),
        Request::new(page).tag("odd").record(7),
    ];
    for request in requests {
        let addr = world.raw().alloc(&request).expect("there is room");
        assert!(world.free(addr));
        world.purge_all();
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
    let world = World::new(8, SpaceOptions::default().unmap_on_free().nodes(1));
    world.run([kinds_of_areas, look_around, look_around]);
    world.finish();
}

/// The annotations change while the range stays: the areas are reused with their memory.
pub fn found_with_its_own_annotation_when_reused() {
    let world = World::new(8, SpaceOptions::default().cache_bytes(8 * World::PAGE));
    let reuse: fn(&World) = |world| {
        let page = World::PAGE;
        let odd = Request::new(page).tag("odd").record(7);
        let reused =
            [odd, Request::new(page).record(6), Request::new(page).tag("even"), Request::new(2 * page)];
        for request in reused {
            let addr = world.raw().alloc(&request).expect("there is room");
            assert!(world.free(addr));
        }
    };
    world.run([reuse, look_around, look_around]);
    world.finish();
}

/// An area grows and shrinks in place: it is found with the bytes that it has.
pub fn found_while_it_is_resized() {
    let world = World::new(8, SpaceOptions::default().unmap_on_free().nodes(1));
    world.run([
        |world| {
            let mut addr = world.raw().alloc(&Request::new(World::PAGE).tag("grows")).expect("there is room");
            for bytes in [2 * World::PAGE, World::PAGE] {
                // SAFETY: the area is this thread's.
                addr = unsafe { world.raw().realloc(addr, &vmalloc::Resize::new(bytes)) }
                    .expect("there is room");
            }
            assert!(world.free(addr));
        },
        look_around,
        look_around,
    ]);
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

/// The owners of areas set records: an area is found with one that it had, and no other.
pub fn found_with_a_record_of_its_owner() {
    let world = World::new(8, World::tight());
    let own: fn(&World) = |world| {
        let (raw, page) = (world.raw(), World::PAGE);
        let addr = raw.alloc(&Request::new(page)).expect("there is room");
        for number in [1, 2] {
            // SAFETY: the area is this thread's.
            unsafe { raw.set_record(addr, number) }.expect("there is memory");
            assert_eq!(world.find(addr).map(|area| area.record), Some(number));
        }
        assert!(world.free(addr));
        for request in [Request::new(page).tag("odd").record(3), Request::new(2 * page)] {
            let addr = raw.alloc(&request).expect("there is room");
            assert!(world.free(addr));
        }
    };
    let look: fn(&World) = |world| {
        for page in World::start()..World::start() + 2 {
            let addr = page as usize * World::PAGE;
            for area in [world.find(addr), world.try_find(addr).ok().flatten()].into_iter().flatten() {
                let seen = (area.pages, area.tag, area.record);
                let records = [0, 1, 2].map(|record| (1, None, record));
                let known = records.into_iter().chain([(1, Some("odd".into()), 3), (2, None, 0)]);
                assert!(known.into_iter().any(|known| known == seen), "a mixture: {area:?}");
            }
        }
    };
    world.run([own, look, look]);
    world.finish();
}

/// Two threads make a group at the same pages: one at a time has it, and has all of it.
pub fn groups_are_made_and_freed_whole() {
    let world = World::new(16, World::tight());
    fn areas() -> [vmalloc::PageRange; 2] {
        [8, 11].map(|page| vmalloc::PageRange::from_len(World::start() + page, 2).expect("not empty"))
    }
    let group: fn(&World) = |world| {
        for _ in 0..2 {
            match world.raw().reserve_all(areas().into_iter(), "group") {
                Ok(()) => {}
                Err(vmalloc::FitError::Occupied { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            for area in areas() {
                let info = world.find(area.start() as usize * World::PAGE).expect("it was made");
                assert_eq!((info.kind, info.pages, info.tag), (Kind::Reserved, 2, Some("group".into())));
            }
            // SAFETY: the areas are this thread's.
            unsafe { world.raw().unreserve_all(areas().into_iter(), "group") }.expect("it was made");
        }
    };
    world.run([group, group, |world| {
        for area in areas() {
            let found = world.find(area.start() as usize * World::PAGE);
            assert!(found.is_none_or(|info| info.tag == Some("group".into())), "{found:?}");
            world.purge_all();
        }
    }]);
    world.finish();
}

/// Small areas are joined to a larger one while others look for areas, and while areas come, go and
/// are purged: what is found is of one size or the other. Returns whether some were joined.
pub fn found_while_they_are_joined() -> bool {
    let options = SpaceOptions::default().guard(false).nodes(1).memory_cost(MemoryCost::Dear);
    let world = World::new(64, options.cache_bytes(32 * World::PAGE).cached_beside(|in_use| in_use / 3));
    // A third as much may be cached, and no step is large against it.
    let large = world.take(48);
    let small: Vec<usize> = (0..4).map(|_| world.take(1)).collect();
    small.iter().for_each(|&addr| world.give(addr, 1));
    let [is_joined, _, _] = world.run([
        |world| {
            // They were needed just now for this one, and are joined for the next.
            let areas = [world.take(2), world.take(3)];
            // Before a first flush small areas are no one else's: it is among them if it is joined.
            let small = World::start() as usize + 48..World::start() as usize + 52;
            let is_joined = small.contains(&(areas[1] / World::PAGE));
            let is_joined = is_joined && world.platform().sim().counts().flushes == 0;
            world.give(areas[1], 3);
            world.give(areas[0], 2);
            is_joined
        },
        |world| {
            let start = World::start() + 48;
            for page in [start + 2, start, start + 3, start + 1] {
                let addr = page as usize * World::PAGE;
                for info in [world.find(addr), world.try_find(addr).ok().flatten()].into_iter().flatten() {
                    let page = (addr - info.addr) / World::PAGE;
                    assert!((1..=3).contains(&info.pages) && page < info.pages as usize, "{info:?}");
                }
            }
            false
        },
        |world| {
            come_and_go::<1>(world);
            world.purge_all();
            false
        },
    ]);
    world.give(large, 48);
    world.finish();
    is_joined
}
