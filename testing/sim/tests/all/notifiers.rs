//! Notifiers: caches of programs that make room, and let what they keep decay.

use crate::nodes::space;
use crate::{PAGE, alloc, free};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vmalloc::{AllocError, DrainStatus, Notifier, Request, Space, SpaceOptions};
use vmalloc_sim::Sim;

/// A cache of areas in a space, which it frees on demand.
pub(crate) struct Cache {
    areas: Mutex<Vec<usize>>,
    calls: AtomicUsize,
    /// The number of pages that it claims to have freed.
    claim: AtomicU64,
    /// True if it allocates when it is asked to free.
    greedy: bool,
}

impl Cache {
    pub(crate) fn of(areas: Vec<usize>, greedy: bool) -> Arc<Self> {
        let (calls, claim) = Default::default();
        Arc::new(Self { areas: Mutex::new(areas), calls, claim, greedy })
    }

    fn on(space: &Space<Sim>, greedy: bool) -> Arc<Self> {
        let cache = Self::of(Vec::new(), greedy);
        let notifier: Arc<dyn Notifier<Sim>> = cache.clone();
        space.register_notifier(&notifier).unwrap();
        cache
    }
}

impl Notifier<Sim> for Cache {
    fn make_room(self: Arc<Self>, space: &Space<Sim>, pages: u64) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.greedy {
            // Cannot be met, and must not call notifiers again.
            let refused = space.raw().alloc(&Request::new(pages as usize * PAGE));
            assert!(matches!(refused, Err(AllocError::NoSpace(_))), "{refused:?}");
        }
        let area = self.areas.lock().unwrap().pop();
        area.map_or(0, |addr| {
            let pages = space.find(addr).unwrap().pages;
            free(space, addr);
            pages
        }) + self.claim.load(Ordering::Relaxed)
    }
}

fn crowded() -> Space<Sim> {
    space(64, SpaceOptions::default())
}

/// Registers another notifier when it is called, and counts the calls.
struct Registrar {
    others: Mutex<Vec<Arc<dyn Notifier<Sim>>>>,
    calls: AtomicUsize,
}

impl Notifier<Sim> for Registrar {
    fn make_room(self: Arc<Self>, space: &Space<Sim>, _: u64) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let other: Arc<dyn Notifier<Sim>> = Cache::on(space, false);
        self.others.lock().unwrap().push(other);
        0
    }
}

#[test]
fn a_notifier_registered_during_a_round_hides_none_of_the_others() {
    let space = crowded();
    // Registering forgets notifiers that are gone: this one, which comes first.
    drop(Cache::on(&space, false));
    let (others, calls) = (Mutex::default(), AtomicUsize::new(0));
    let registrar = Arc::new(Registrar { others, calls });
    let notifier: Arc<dyn Notifier<Sim>> = registrar.clone();
    space.register_notifier(&notifier).unwrap();
    let last = Cache::on(&space, false);
    space.raw().alloc(&Request::new(100 * PAGE)).unwrap_err();
    let calls = |calls: &AtomicUsize| calls.load(Ordering::Relaxed);
    assert_eq!((calls(&registrar.calls), calls(&last.calls)), (1, 1), "each is called once");
}

#[test]
fn notifiers_make_room_for_allocations_in_need() {
    let space = crowded();
    let cache = Cache::on(&space, false);
    cache.areas.lock().unwrap().extend([alloc(&space, 16), alloc(&space, 16), alloc(&space, 32)]);
    let addr = alloc(&space, 32);
    assert_eq!(cache.calls.load(Ordering::Relaxed), 1, "the last one freed was large enough");
    free(&space, addr);
    let addr = alloc(&space, 48);
    assert_eq!(cache.calls.load(Ordering::Relaxed), 2);
    free(&space, addr);
    drop(cache);
    assert!(space.raw().alloc(&Request::new(65 * PAGE)).is_err(), "a cache that is gone is not called");
}

#[test]
fn notifier_that_frees_nothing_does_not_block_allocation() {
    let space = crowded();
    let cache = Cache::on(&space, false);
    cache.claim.store(1_000_000, Ordering::Relaxed);
    let _held = alloc(&space, 64);
    assert!(matches!(space.raw().alloc(&Request::new(PAGE)), Err(AllocError::NoSpace(_))));
    assert!(cache.calls.load(Ordering::Relaxed) >= 1);
    space.verify().unwrap();
}

#[test]
fn a_notifier_may_allocate() {
    let space = crowded();
    let cache = Cache::on(&space, true);
    cache.areas.lock().unwrap().push(alloc(&space, 64));
    let addr = alloc(&space, 64);
    assert_eq!(cache.calls.load(Ordering::Relaxed), 1);
    free(&space, addr);
    space.verify().unwrap();
}

/// Keeps an area, and frees it at the second call.
struct Aging {
    area: Mutex<Option<usize>>,
    calls: AtomicUsize,
}

impl Notifier<Sim> for Aging {
    fn make_room(self: Arc<Self>, _: &Space<Sim>, _: u64) -> u64 {
        0
    }

    fn decay(self: Arc<Self>, space: &Space<Sim>) -> bool {
        let mut area = self.area.lock().unwrap();
        if self.calls.fetch_add(1, Ordering::Relaxed) == 1 {
            area.take().into_iter().for_each(|addr| free(space, addr));
        }
        area.is_some()
    }
}

#[test]
fn what_a_notifier_keeps_decays_with_the_drains_of_the_space() {
    for drains in [true, false] {
        let space = crowded();
        let (area, calls) = (Mutex::new(Some(alloc(&space, 16))), AtomicUsize::new(0));
        let notifier: Arc<dyn Notifier<Sim>> = Arc::new(Aging { area, calls });
        space.register_notifier(&notifier).unwrap();
        let round = || match drains {
            true => Some(space.drain().unwrap()),
            false => space.decay().map(|()| None).unwrap(),
        };
        let first = round();
        assert_eq!((space.stats().busy_pages, first.unwrap_or(DrainStatus::More)), (16, DrainStatus::More));
        round();
        assert_eq!(space.stats().busy_pages, 0, "it was freed");
        let rounds = (0..20).map(|_| round()).filter(|status| *status == Some(DrainStatus::Done)).count();
        assert!(!drains || rounds > 0, "nothing is left in the end");
        drop(notifier);
        round();
    }
}
