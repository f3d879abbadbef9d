//! Changing the size of memory: in place, by moving its pages, by copying them.

use super::scene::{Areas, PAGE, Scene, configs};
use super::table;
use std::alloc::Layout;
use std::ptr::with_exposed_provenance_mut;
use vmalloc::{AreaError, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{Case, Simulated, Step, free_all};
use vmalloc_sim::heap::{self, Shortage};
use vmalloc_sim::{Direct, Point};

/// Too large for pools: what is behind it is free.
const PAGES: usize = 270;

/// Returns an area, and perhaps one behind it.
fn setup(config: SpaceOptions, has_neighbour: bool) -> (Space<Direct>, Areas) {
    let (space, mut areas) = Scene::empty(config).build_direct();
    let tagged = Request::new(PAGES * PAGE).tag("grows");
    areas.push(space.raw().alloc(&tagged).expect("room"));
    write(areas[0]);
    if has_neighbour {
        space.raw().alloc(&Request::new(PAGE)).expect("room");
    }
    (space, areas)
}

/// A byte in each page.
fn write(addr: usize) {
    for nth in 0..PAGES {
        // SAFETY: the area is the test's, and that large.
        unsafe { with_exposed_provenance_mut::<u8>(addr + nth * PAGE).write(nth as u8 | 1) };
    }
}

fn holds(addr: usize, pages: usize) {
    for nth in 0..pages.min(PAGES) {
        // SAFETY: as above.
        let byte = unsafe { with_exposed_provenance_mut::<u8>(addr + nth * PAGE).read() };
        assert_eq!(byte, nth as u8 | 1, "page {nth}");
    }
}

fn to(pages: usize) -> impl Fn(&Space<Direct>, &mut Areas) -> Result<(), AreaError> {
    move |space, areas| {
        // SAFETY: the area is the test's, and where it was is forgotten.
        let result = unsafe { space.raw().realloc(areas[0], &vmalloc::Request::new(pages * PAGE)) };
        match result {
            Ok(addr) => areas[0] = addr,
            Err(_) => assert_eq!(space.find(areas[0]).map(|area| area.bytes), Some(PAGES * PAGE)),
        }
        holds(areas[0], pages);
        result.map(|_| ())
    }
}

fn case(name: &'static str, config: SpaceOptions, has_neighbour: bool, pages: usize) -> Case {
    Case::new(name, move || setup(config, has_neighbour), to(pages), |space, _| free_all(space))
}

#[test]
fn realloc_grows() {
    let [map, frame, relocate] = [Point::Map, Point::Frame, Point::Relocate].map(Step::Machine);
    for (config, settings) in configs() {
        table(
            config,
            [
                case("realloc grows in place", settings, false, PAGES + 3).meets([map, frame]),
                case("realloc moves", settings, true, PAGES + 3).meets([map, frame, relocate]),
            ],
        );
    }
}

/// The content has moved, and there is no room to remember the area that it was in: the answer is
/// the new address, and nothing of the content is lost.
#[test]
fn realloc_that_cannot_free_the_old_area_answers_with_the_new_one() {
    let (space, mut areas) = setup(SpaceOptions::default().unmap_on_free(), true);
    let mut others: Vec<_> =
        (0..200).map(|_| space.raw().alloc(&Request::new(PAGE)).expect("room")).collect();
    space.platform().machine().fail_from(Point::Unmap, 1);
    // Neither the list of this CPU nor that of the purge has room.
    for _ in 0..4 {
        let (_, _) = heap::short_of(Shortage::From(1), || {
            // SAFETY: the areas are the test's, and nothing uses them any more.
            while others.last().is_some_and(|&addr| unsafe { space.raw().free(addr) }.is_ok()) {
                others.pop();
            }
        });
    }
    assert!(!others.is_empty(), "there is room for all");
    let (old, busy) = (areas[0], space.stats().busy_areas);
    let (result, _) = heap::short_of(Shortage::From(1), || to(PAGES + 3)(&space, &mut areas));
    assert_eq!(result, Ok(()));
    assert_eq!(space.stats().busy_areas, busy + 1);
    space.platform().machine().heal();
    space.verify().unwrap();
    others.extend([old, areas[0]]);
    // SAFETY: as above; the old area is still there.
    others.iter().for_each(|&addr| unsafe { space.raw().free(addr) }.expect("it is busy"));
    free_all(&space);
}

#[test]
fn realloc_shrinks() {
    let [unmap, flush] = [Point::Unmap, Point::Flush].map(Step::Machine);
    for (config, settings) in configs() {
        let shrinks = case("realloc shrinks", settings, true, 3);
        table(config, [shrinks.meets([unmap, flush])]);
    }
}

#[test]
fn alloc_or_heap() {
    for (config, settings) in configs() {
        let large = Layout::from_size_align(20 * PAGE, 64).expect("a power of two");
        let make = move |space: &Space<Direct>, _: &mut Areas| space.raw().alloc_or_heap(large).map(|_| ());
        let empty = move || Scene::empty(settings).build_direct();
        let case = Case::new("alloc_or_heap", empty, make, |space, _| free_all(space));
        table(config, [case.meets([Point::Map, Point::Frame].map(Step::Machine))]);
    }
}
