//! Giving memory and addresses back: nothing that is freed can be refused, whatever fails.

use super::scene::{self, Areas, PAGE, Scene, configs_of_frees};
use super::table;
use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;
use vmalloc::{FreeError, PageRange, Request, Space, SpaceError, SpaceOptions};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::heap::{self, Shortage};
use vmalloc_sim::{Broken, Mistake, Options, Point, Sim};

const UNMAP: Step = Step::Machine(Point::Unmap);
const FLUSH: Step = Step::Machine(Point::Flush);
const UNMAP_NOW: Step = Step::Machine(Point::UnmapNow);

/// Frees all areas, on a CPU that asked for some of them only.
fn free_them(space: &Space<Sim>, areas: &mut Areas) -> Result<(), FreeError> {
    Sim::run_on(1);
    while let Some(&addr) = areas.last() {
        // SAFETY: the area is the test's, and nothing uses it any more.
        unsafe { space.raw().free(addr)? };
        areas.pop();
    }
    Sim::run_on(0);
    Ok(())
}

#[test]
fn free() {
    let many = |config: SpaceOptions, request: Request| {
        move || {
            let (space, mut areas) = Scene::empty(config).build();
            (0..80).for_each(|_| areas.push(space.raw().alloc(&request).expect("there is room")));
            (space, areas)
        }
    };
    for (config, settings) in configs_of_frees() {
        let one = Request::new(PAGE);
        let used = Scene::used(settings);
        let case =
            |name, request| Case::new(name, many(settings, request), free_them, |space, _| free_all(space));
        let cases = [
            case("free", one),
            case("free tagged", one.tag("a tag")),
            case("free without guard", one.guard(false)),
            case("free odd", Request::new(10)),
            Case::new("free of all sizes", move || used.build(), free_them, |space, _| free_all(space)),
        ];
        // A page that is kept takes no step: its place in a list is there.
        let may_fail = |case: &(usize, Case)| {
            settings.cache_bytes == Some(0) || settings.trap_on_free || !matches!(case.0, 0 | 4)
        };
        let cases = cases.into_iter().enumerate().filter(may_fail).map(|(_, case)| case);
        let purges = settings.lazy_max_pages == 1;
        table(
            config,
            cases.map(|case| match settings.trap_on_free {
                true => case.meets([UNMAP_NOW]),
                false if purges => case.meets([UNMAP, FLUSH]),
                false => case,
            }),
        );
    }
}

#[test]
fn unreserve() {
    for (config, settings) in configs_of_frees() {
        let reserved = move || {
            let (space, mut areas) = Scene::empty(settings).build();
            let request = Request::new(2 * PAGE);
            (0..80).for_each(|_| areas.push(space.raw().reserve(&request).expect("there is room")));
            (space, areas)
        };
        let unreserve = |space: &Space<Sim>, areas: &mut Areas| -> Result<(), FreeError> {
            while let Some(&addr) = areas.last() {
                // SAFETY: nothing uses the addresses any more.
                unsafe { space.raw().unreserve(addr) }?;
                areas.pop();
            }
            Ok(())
        };
        table(
            config,
            [Case::new("unreserve", reserved, unreserve, |space, _| free_all(space)).meets([Step::Heap])],
        );
    }
}

#[test]
fn free_altered() {
    for (config, settings) in configs_of_frees() {
        let many = move || {
            let (space, mut areas) = Scene::empty(settings).build();
            let request = Request::new(2 * PAGE).tag("altered");
            (0..80).for_each(|_| areas.push(space.raw().alloc(&request).expect("there is room")));
            (space, areas)
        };
        let free = |space: &Space<Sim>, areas: &mut Areas| -> Result<(), FreeError> {
            while let Some(&addr) = areas.last() {
                // SAFETY: nothing uses the area any more.
                unsafe { space.raw().free_altered(addr) }?;
                areas.pop();
            }
            Ok(())
        };
        let case = Case::new("free_altered", many, free, |space, _| free_all(space));
        let purges = settings.lazy_max_pages == 1;
        let case = if purges { case.meets([UNMAP, FLUSH]) } else { case };
        table(config, [case.meets([Step::Heap])]);
    }
}

/// Neither the heap nor the machine helps: what is freed has nowhere to go. The free says so, and
/// the area is still there, as it was, to be freed when either helps again.
#[test]
fn free_where_everything_fails() {
    everything_fails(SpaceOptions::default().unmap_on_free());
    everything_fails(SpaceOptions::default().trap_on_free(true));
}

fn everything_fails(config: SpaceOptions) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let (space, mut areas) = Scene::empty(config).build();
        areas.extend((0..200).map(|nth| {
            let (raw, request) = (space.raw(), Request::new(PAGE));
            let addr = match nth % 4 {
                0 => raw.alloc(&request),
                1 => raw.alloc(&request.tag("a tag")),
                2 => raw.alloc(&request.guard(false)),
                _ => raw.alloc_shared(&request.tag("shared")),
            };
            addr.expect("there is room")
        }));
        let known: Vec<_> = areas.iter().map(|&addr| space.find(addr)).collect();
        space.platform().fail_from(Point::Unmap, 1);
        space.platform().fail_from(Point::UnmapNow, 1);
        let (result, _) = heap::short_of(Shortage::From(1), || free_them(&space, &mut areas));
        let _ = done.send(result);
        assert!(!areas.is_empty() && space.stats().busy_areas == areas.len() as u64);
        assert!(areas.iter().zip(known).all(|(&addr, known)| space.find(addr) == known));
        space.verify().unwrap();
        space.platform().heal();
        let _ = done.send(free_them(&space, &mut areas));
        space.purge().unwrap();
        assert!(space.platform().taken_frames().is_empty());
        assert_eq!(space.platform().check_end(), []);
    });
    let wait = || is_done.recv_timeout(Duration::from_secs(10));
    assert!(matches!(wait(), Ok(Err(FreeError::NoMemory { .. }))));
    assert_eq!(wait(), Ok(Ok(())));
    thread.join().unwrap();
}

thread_local! {
    /// How many questions for its CPU this thread is answered from CPU 1, before it moves to CPU 2.
    static STAYS: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn moving() -> usize {
    let left = STAYS.get();
    STAYS.set(left.saturating_sub(1));
    if left == 0 { 2 } else { 1 }
}

/// A thread moves to another CPU in the middle of a free, where there is no room to remember the
/// area: it is as it was.
#[test]
fn free_that_is_refused_behind_a_move_changes_nothing() {
    let mut refused = 0;
    for (stays, shared) in (1..20).flat_map(|stays| [(stays, false), (stays, true)]) {
        STAYS.set(u64::MAX);
        let span = PageRange::from_len(0x1_0000, 1 << 12).expect("not empty");
        let sim = Options::new(span).cpus(3).current_cpu(moving).build();
        let space = Space::new(sim, SpaceOptions::default().trap_on_free(true)).expect("a space");
        let (raw, request) = (space.raw(), Request::new(PAGE).tag("a tag"));
        let first = raw.alloc(&request).expect("there is room");
        let addr = if shared { raw.alloc_shared(&request) } else { raw.alloc(&request) };
        let addr = addr.expect("there is room");
        let known = space.find(addr);
        let mut others: Vec<_> = (0..200).map(|_| raw.alloc(&request).expect("there is room")).collect();
        space.platform().fail_from(Point::Unmap, 1);
        space.platform().fail_from(Point::UnmapNow, 1);
        // CPU 1 has room for an area, and CPU 2 for none: neither its list nor the purge's.
        scene::free(&space, first);
        STAYS.set(0);
        for _ in 0..4 {
            let (_, _) = heap::short_of(Shortage::From(1), || {
                // SAFETY: the areas are the test's, and nothing uses them any more.
                while others.last().is_some_and(|&addr| unsafe { raw.free(addr) }.is_ok()) {
                    others.pop();
                }
            });
        }
        assert!(!others.is_empty(), "there is room for all");
        STAYS.set(stays);
        // SAFETY: as above.
        let (result, _) = heap::short_of(Shortage::From(1), || unsafe { raw.free(addr) });
        space.verify().unwrap();
        if result.is_err() {
            refused += 1;
            assert_eq!(space.find(addr), known);
        }
        space.platform().heal();
        others.extend(result.is_err().then_some(addr));
        others.into_iter().for_each(|addr| scene::free(&space, addr));
        space.purge().unwrap();
        assert_eq!(space.platform().taken_frames(), []);
        assert_eq!(space.platform().check_end(), []);
    }
    assert!(refused > 1, "{refused}");
}

/// A free that is to trap at once leaves nothing to a purge, and an area that the machine refuses
/// is lazy, counted, and unmapped by the next purge.
#[test]
fn frees_trap_at_once_or_are_counted() {
    let (space, _) = Scene::empty(SpaceOptions::default().trap_on_free(true)).build();
    let raw = space.raw();
    let requests = [Request::new(PAGE), Request::new(17 * PAGE).tag("a tag"), Request::new(10).guard(false)];
    for request in requests {
        let addr = raw.alloc(&request).expect("there is room");
        let page = (addr / PAGE) as u64;
        space.platform().write(0, page, 7).expect("it is mapped");
        assert_eq!(space.platform().read(2, page), Ok(7));
        // SAFETY: the area is the test's, and nothing uses it any more.
        unsafe { raw.free(addr) }.unwrap();
        assert!((0..3).all(|cpu| space.platform().read(cpu, page).is_err()), "{request:?}");
    }
    assert_eq!((space.stats().lazy_areas, space.stats().late_frees), (0, 0));
    space.platform().fail_nth(Point::UnmapNow, 1);
    let addr = raw.alloc(&Request::new(PAGE)).expect("there is room");
    // SAFETY: as above.
    unsafe { raw.free(addr) }.unwrap();
    assert_eq!((space.stats().lazy_areas, space.stats().late_frees), (1, 1));
    space.purge().unwrap();
    assert_eq!((space.stats().lazy_areas, space.stats().busy_areas), (0, 0));
    space.verify().unwrap();
    assert_eq!(space.platform().check_end(), []);
}

#[test]
fn a_platform_that_cannot_unmap_at_once_is_refused() {
    let sim = Broken::new(Scene::empty(SpaceOptions::default()).sim(), Mistake::NeverDiscard);
    let refused = Space::new(sim, SpaceOptions::default().trap_on_free(true));
    assert_eq!(refused.err(), Some(SpaceError::NoTraps));
}
