//! Caches that make room, in a space that has none, with every step failing.

use super::scene::{Areas, PAGE, configs, free, sim_of};
use super::table;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use vmalloc::{AllocError, Notifier, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Point, Sim};

/// Holds areas that it can do without.
struct Cache {
    areas: Mutex<Vec<usize>>,
    space: AtomicPtr<Space<Sim>>,
}

impl Notifier for Cache {
    fn make_room(&self, _: u64) -> u64 {
        // SAFETY: the space is set for as long as an operation runs on it.
        let space = unsafe { self.space.load(Ordering::Relaxed).as_ref() };
        let (Some(space), Some(addr)) = (space, self.areas.lock().expect("no panic").pop()) else { return 0 };
        let pages = space.find(addr).map_or(0, |area| area.pages);
        free(space, addr);
        pages
    }
}

/// A cache, as the space knows it and as itself, and the areas that it does not hold.
type Cached = (Arc<dyn Notifier>, Arc<Cache>, Areas);

/// Returns a space full of areas of three pages, most of which a cache holds.
fn cached(config: SpaceOptions) -> (Space<Sim>, Cached) {
    let (space, mut areas) = (Space::new(sim_of(48), config).expect("a space"), Areas::new());
    let request = Request::new(3 * PAGE);
    while let Ok(addr) = space.raw().alloc(&request) {
        areas.push(addr);
    }
    let held = areas.split_off(4);
    let cache = Arc::new(Cache { areas: Mutex::new(held), space: AtomicPtr::default() });
    (space, (cache.clone(), cache, areas))
}

fn alloc_from_cache(space: &Space<Sim>, (_, cache, areas): &mut Cached) -> Result<(), AllocError> {
    cache.space.store(std::ptr::from_ref(space).cast_mut(), Ordering::Relaxed);
    let result = space.raw().alloc(&Request::new(7 * PAGE)).map(|addr| areas.push(addr));
    cache.space.store(std::ptr::null_mut(), Ordering::Relaxed);
    result
}

#[test]
fn notifiers() {
    for (config, settings) in configs() {
        let register = Case::new(
            "register_notifier",
            move || cached(settings),
            |space, (notifier, ..)| space.register_notifier(notifier),
            |space, _| free_all(space),
        );
        let registered = move || {
            let (space, state) = cached(settings);
            space.register_notifier(&state.0).unwrap();
            (space, state)
        };
        let alloc =
            Case::new("alloc with a notifier", registered, alloc_from_cache, |space, _| free_all(space));
        let points = [Point::Frame, Point::Map, Point::Unmap, Point::Flush];
        table(config, [register.meets([Step::Heap]), alloc.meets(points.map(Step::Machine))]);
    }
}
