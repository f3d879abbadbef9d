//! Asking for memory and addresses.

use super::scene::{Areas, PAGE, Scene, configs, free};
use super::table;
use std::sync::{Arc, Mutex};
use vmalloc::{AllocError, FitError, Notifier, PageRange, Policy, Request, Space, SpaceOptions};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Point, Sim};

const FRAME: Step = Step::Machine(Point::Frame);
const MAP: Step = Step::Machine(Point::Map);
const UNMAP: Step = Step::Machine(Point::Unmap);
const FLUSH: Step = Step::Machine(Point::Flush);

/// Requests of every kind.
fn requests() -> [(&'static str, Request); 10] {
    let two = Request::new(2 * PAGE);
    let first = 0x1_0000 * PAGE;
    [
        ("alloc", two),
        ("alloc aligned", two.align(64 * PAGE)),
        ("alloc tagged", two.tag("a tag")),
        ("alloc odd", Request::new(2 * PAGE + 1)),
        ("alloc zeroed", two.zeroed()),
        ("alloc without guard", two.guard(false)),
        ("alloc within limits", two.within(first + 600 * PAGE, first + 900 * PAGE)),
        ("alloc 270 pages", Request::new(270 * PAGE).tag("large")),
        ("alloc best fit", Request::new(PAGE).policy(Policy::Best)),
        ("alloc anywhere", Request::new(PAGE).policy(Policy::Random { seed: 3 })),
    ]
}

fn alloc(space: &Space<Sim>, areas: &mut Areas, request: &Request) -> Result<(), AllocError> {
    space.raw().alloc(request).map(|addr| areas.push(addr))
}

fn alloc_in(scene: Scene, name: &'static str, request: Request) -> Case {
    let operation = move |space: &Space<Sim>, areas: &mut Areas| alloc(space, areas, &request);
    Case::new(name, move || scene.build(), operation, |space, _| free_all(space))
}

#[test]
fn alloc_in_an_empty_space() {
    for (config, settings) in configs() {
        let cases = requests().map(|(name, request)| alloc_in(Scene::empty(settings), name, request));
        table(config, cases.map(|case| case.meets([FRAME, MAP])));
    }
}

#[test]
fn alloc_in_a_used_space() {
    for (config, settings) in configs() {
        let request = |&(name, _): &(&str, Request)| settings.cache_bytes == Some(0) || is_never_kept(name);
        let requests = requests().into_iter().filter(request);
        table(config, requests.map(|(name, request)| alloc_in(Scene::used(settings), name, request)));
    }
}

/// Returns whether a request never gets a cached area, so that there is something to fail.
fn is_never_kept(name: &str) -> bool {
    !matches!(name, "alloc" | "alloc odd" | "alloc zeroed" | "alloc best fit" | "alloc anywhere")
}

/// Addresses come back by a purge only.
#[test]
fn alloc_in_a_full_space() {
    for (config, settings) in configs() {
        let scene = Scene::full(settings.lazy_max_pages(1 << 20));
        let needs = |case: Case| case.meets([FRAME, MAP, UNMAP, FLUSH]);
        let request = Request::new(3 * PAGE).guard(false);
        table(
            config,
            [
                needs(alloc_in(scene, "alloc in need", request)),
                needs(alloc_in(scene, "alloc in need, tagged", request.tag("needy"))),
                needs(alloc_in(scene.pages(4096).frames(200), "alloc in need of frames", request)),
            ],
        );
    }
}

#[test]
fn reserve() {
    for (config, settings) in configs() {
        let reserve_in = |scene: Scene, name, request: Request| {
            let operation = move |space: &Space<Sim>, areas: &mut Areas| {
                space.raw().reserve(&request).map(|addr| areas.push(addr))
            };
            Case::new(name, move || scene.build(), operation, |space, _| free_all(space))
        };
        let (request, full) = (Request::new(3 * PAGE), Scene::full(settings.lazy_max_pages(1 << 20)));
        let reserve_all = |space: &Space<Sim>, areas: &mut Areas| {
            let first = space.geometry().span.end() - 40;
            let group = [first, first + 20].map(|page| PageRange::from_len(page, 3).expect("not empty"));
            space.raw().reserve_all(group.into_iter(), "group")?;
            areas.extend(group.map(|area| area.start() as usize * PAGE));
            Ok::<(), FitError>(())
        };
        let group = Case::new(
            "reserve_all",
            move || Scene::empty(settings).build(),
            reserve_all,
            |space, _| free_all(space),
        );
        let start = move || {
            let (space, mut areas) = Scene::empty(settings).build();
            areas.push(space.raw().alloc(&request).expect("nothing fails"));
            (space, areas)
        };
        let set = |space: &Space<Sim>, areas: &mut Areas| {
            // SAFETY: the area is this case's.
            unsafe { space.raw().set_cookie(areas[0], 7) }
        };
        let cookie = Case::new("set_cookie", start, set, |space, _| free_all(space));
        table(
            config,
            [
                group.meets([Step::Heap]),
                cookie.meets([Step::Heap]),
                reserve_in(Scene::empty(settings), "reserve", request).meets([Step::Heap]),
                reserve_in(Scene::empty(settings), "reserve 300 pages", Request::new(300 * PAGE))
                    .meets([Step::Heap]),
                reserve_in(full, "reserve in need", request.guard(false)).meets([UNMAP, FLUSH]),
            ],
        );
    }
}

/// Holds areas that it can do without.
struct Cache(Mutex<Vec<usize>>);

impl Notifier<Sim> for Cache {
    fn make_room(self: Arc<Self>, space: &Space<Sim>, _: u64) -> u64 {
        let Some(addr) = self.0.lock().expect("no panic").pop() else { return 0 };
        let pages = space.find(addr).map_or(0, |area| area.pages);
        free(space, addr);
        pages
    }
}

/// A cache, and the areas that it does not hold.
type Cached = (Arc<dyn Notifier<Sim>>, Areas);

/// Returns a space full of areas of three pages, most of which a cache holds.
fn cached(config: SpaceOptions) -> (Space<Sim>, Cached) {
    let (space, mut areas) = Scene::empty(config).pages(48).build();
    let request = Request::new(3 * PAGE);
    while let Ok(addr) = space.raw().alloc(&request) {
        areas.push(addr);
    }
    let held = areas.split_off(4);
    (space, (Arc::new(Cache(Mutex::new(held))), areas))
}

fn alloc_from_cache(space: &Space<Sim>, (_, areas): &mut Cached) -> Result<(), AllocError> {
    alloc(space, areas, &Request::new(7 * PAGE))
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
        table(config, [register.meets([Step::Heap]), alloc.meets([FRAME, MAP, UNMAP, FLUSH])]);
    }
}
