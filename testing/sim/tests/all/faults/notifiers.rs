//! Caches that make room, in a space that has none, with every step failing.

use super::scene::{Areas, PAGE, all_options, sim_of};
use crate::notifiers::Cache;
use std::sync::Arc;
use vmalloc::{AllocError, Notifier, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{free_all, walk};
use vmalloc_sim::{Point, Sim};

/// A cache, and the areas that it does not hold.
type Cached = (Arc<dyn Notifier<Sim>>, Areas);

/// Returns a space full of areas of three pages, most of which a cache holds.
fn cached(options: SpaceOptions) -> (Space<Sim>, Cached) {
    let (space, mut areas) = (Space::new(sim_of(48), options).expect("a space"), Areas::new());
    let request = Request::new(3 * PAGE);
    while let Ok(addr) = space.raw().alloc(&request) {
        areas.push(addr);
    }
    let held = areas.split_off(4);
    (space, (Cache::of(held, false), areas))
}

fn alloc_from_cache(space: &Space<Sim>, (_, areas): &mut Cached) -> Result<(), AllocError> {
    space.raw().alloc(&Request::new(7 * PAGE)).map(|addr| areas.push(addr))
}

#[test]
fn notifiers() {
    for (_, settings) in all_options() {
        let setup = || cached(settings);
        let register = |space: &Space<Sim>, (notifier, _): &mut Cached| space.register_notifier(notifier);
        walk("register_notifier", &[Point::Heap], setup, register, |space, _| free_all(space));
        let registered = || {
            let (space, state) = cached(settings);
            space.register_notifier(&state.0).unwrap();
            (space, state)
        };
        let points = [Point::Frame, Point::Map, Point::Unmap, Point::Flush];
        let release = |space: &Space<Sim>, _| free_all(space);
        walk("alloc with a notifier", &points, registered, alloc_from_cache, release);
    }
}
