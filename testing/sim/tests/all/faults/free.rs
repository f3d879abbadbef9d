//! Giving memory and addresses back: nothing that is freed can be refused, whatever fails.

use super::scene::{self, Areas, PAGE, direct, empty};
use std::cell::Cell;
use std::ptr::with_exposed_provenance_mut;
use std::sync::mpsc;
use std::time::Duration;
use vmalloc::{FreeError, PageRange, PurgeError, Request, Resize, Space, SpaceOptions};
use vmalloc_sim::harness::{Simulated, free_all};
use vmalloc_sim::{Due, heap};
use vmalloc_sim::{Options, Point, Sim};

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

/// Neither the heap nor the machine helps: what is freed has nowhere to go. The free says so, and
/// the area is still there, as it was, to be freed when either helps again.
#[test]
fn free_where_everything_fails() {
    everything_fails(SpaceOptions::default().unmap_on_free());
    everything_fails(SpaceOptions::default().trap_on_free(true));
}

fn everything_fails(options: SpaceOptions) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let space = empty(options);
        let mut areas: Areas = (0..200)
            .map(|nth| {
                let (raw, request) = (space.raw(), Request::new(PAGE));
                let addr = match nth % 4 {
                    0 => raw.alloc(&request),
                    1 => raw.alloc(&request.tag("a tag")),
                    2 => raw.alloc(&request.guard(false)),
                    _ => raw.alloc_shared(&request.tag("shared")),
                };
                addr.expect("there is room")
            })
            .collect();
        let known: Vec<_> = areas.iter().map(|&addr| space.find(addr)).collect();
        space.platform().fail_from(Point::Unmap, 1);
        space.platform().fail_from(Point::UnmapNow, 1);
        let (result, _) = heap::short_of(Due::From(1), || free_them(&space, &mut areas));
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
            let (_, _) = heap::short_of(Due::From(1), || {
                // SAFETY: the areas are the test's, and nothing uses them any more.
                while others.last().is_some_and(|&addr| unsafe { raw.free(addr) }.is_ok()) {
                    others.pop();
                }
            });
        }
        assert!(!others.is_empty(), "there is room for all");
        STAYS.set(stays);
        // SAFETY: as above.
        let (result, _) = heap::short_of(Due::From(1), || unsafe { raw.free(addr) });
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

/// A free that is to trap at once leaves nothing to others, on a machine too that can't unmap at
/// once. An area that the machine refuses is lazy, counted, and unmapped by the next purge.
#[test]
fn frees_trap_at_once_or_are_counted() {
    let space = empty(SpaceOptions::default().trap_on_free(true));
    let raw = space.raw();
    let requests = [Request::new(PAGE), Request::new(17 * PAGE).tag("a tag"), Request::new(10).guard(false)];
    for (nth, request) in (0..).zip(requests.into_iter().cycle().take(6)) {
        if nth == 3 {
            space.platform().fail_from(Point::UnmapNow, 1);
        }
        let addr = raw.alloc(&request).expect("there is room");
        let page = (addr / PAGE) as u64;
        space.platform().write(0, page, 7).expect("it is mapped");
        assert_eq!(space.platform().read(2, page), Ok(7));
        // SAFETY: the area is the test's, and nothing uses it any more.
        unsafe { raw.free(addr) }.unwrap();
        assert!((0..3).all(|cpu| space.platform().read(cpu, page).is_err()), "{request:?}");
    }
    assert_eq!((space.stats().lazy_areas, space.stats().late_frees), (0, 0));
    space.platform().fail_from(Point::Unmap, 1);
    let addr = raw.alloc(&Request::new(PAGE)).expect("there is room");
    // SAFETY: as above.
    unsafe { raw.free(addr) }.unwrap();
    assert_eq!((space.stats().lazy_areas, space.stats().late_frees), (1, 1));
    space.platform().heal();
    space.purge().unwrap();
    assert_eq!((space.stats().lazy_areas, space.stats().busy_areas), (0, 0));
    space.verify().unwrap();
    assert_eq!(space.platform().check_end(), []);
}

/// The areas of a set that was refused are tried again by themselves, at once and by the next
/// purge.
#[test]
fn a_purge_is_an_error_as_long_as_anything_is_refused() {
    for point in [Point::Unmap, Point::Flush] {
        let space = empty(SpaceOptions::default().unmap_on_free());
        let [first, second] = [(); 2]
            .map(|()| [1, 5, 17].map(|pages| space.raw().alloc(&Request::new(pages * PAGE)).expect("room")));
        first.into_iter().for_each(|addr| scene::free(&space, addr));
        space.platform().fail_nth(point, 1);
        assert_eq!(space.purge(), Ok(()));
        assert_eq!((space.platform().counts().failed, space.stats().refused_areas), (1, 0));
        second.into_iter().for_each(|addr| scene::free(&space, addr));
        space.platform().fail_from(point, 1);
        let call = if point == Point::Unmap { "unmap" } else { "flush" };
        for _ in 0..3 {
            let refused = space.purge().unwrap_err();
            assert!(matches!(refused, PurgeError::Platform(error) if error.call == call), "{refused}");
            assert_eq!((space.stats().lazy_areas, space.stats().refused_areas), (3, 3));
            space.verify().unwrap();
        }
        space.platform().heal();
        assert_eq!(space.purge(), Ok(()));
        assert_eq!(
            (space.stats().refused_areas, space.stats().largest_free_pages),
            (0, space.stats().span_pages)
        );
    }
}

/// The content has moved, and there is no room to remember the area that it was in: the answer is
/// the new address, and nothing of the content is lost.
#[test]
fn realloc_that_cannot_free_the_old_area_answers_with_the_new_one() {
    // Too large for pools, and something behind it.
    const PAGES: usize = 270;
    let space = direct(SpaceOptions::default().unmap_on_free());
    let old = space.raw().alloc(&Request::new(PAGES * PAGE)).expect("room");
    // SAFETY: the area is the test's, and that large: here and below.
    let byte =
        |addr: usize, nth: usize| unsafe { &mut *with_exposed_provenance_mut::<u8>(addr + nth * PAGE) };
    (0..PAGES).for_each(|nth| *byte(old, nth) = nth as u8);
    let mut others: Vec<_> =
        (0..200).map(|_| space.raw().alloc(&Request::new(PAGE)).expect("room")).collect();
    space.platform().machine().fail_from(Point::Unmap, 1);
    // Neither the list of this CPU nor that of the purge has room.
    for _ in 0..4 {
        let (_, _) = heap::short_of(Due::From(1), || {
            // SAFETY: the areas are the test's, and nothing uses them any more.
            while others.last().is_some_and(|&addr| unsafe { space.raw().free(addr) }.is_ok()) {
                others.pop();
            }
        });
    }
    assert!(!others.is_empty(), "there is room for all");
    let (busy, resize) = (space.stats().busy_areas, Resize::new((PAGES + 3) * PAGE));
    // SAFETY: the area is the test's, and where it was is not used.
    let (moved, _) = heap::short_of(Due::From(1), || unsafe { space.raw().realloc(old, &resize) });
    let new = moved.expect("it has moved");
    assert!(new != old && space.stats().busy_areas == busy + 1);
    assert!((0..PAGES).all(|nth| *byte(new, nth) == nth as u8));
    space.platform().machine().heal();
    space.verify().unwrap();
    others.extend([old, new]);
    // SAFETY: as above; the old area is still there.
    others.iter().for_each(|&addr| unsafe { space.raw().free(addr) }.expect("it is busy"));
    free_all(&space);
}
