//! A flush, a purge and a drain, with allocations of other CPUs between any two of their locks.
//!
//! They lock one node after the other, and an allocation brings areas from one node to another. One
//! thread plays both: before it takes the n-th lock, it does what the other CPU would do there.

mod forks;
mod frees;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use vmalloc::{Cached, DrainStatus, MemoryCost, PageRange, Request, Space, SpaceOptions, Translate};
use vmalloc_short::ShortMaps;
use vmalloc_sim::{Options, Sim};
use vmalloc_subspaces::Root;

type Other = Box<dyn FnOnce()>;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
    /// Locks to be taken before the other CPU acts.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static OTHER: RefCell<Option<Other>> = const { RefCell::new(None) };
    /// Locks that are held.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Has the other CPU act before lock number `nth` that `act` takes. Returns the result of `act`:
/// `None` if the other CPU wants a lock that is held, and would wait. The second is false if fewer
/// locks were taken.
fn with_other<T>(nth: usize, other: impl FnOnce() + 'static, act: impl FnOnce() -> T) -> (Option<T>, bool) {
    CPU.set(0);
    HELD.set(0);
    OTHER.set(Some(Box::new(other)));
    LEFT.set(nth);
    let done = catch_unwind(AssertUnwindSafe(act)).ok();
    LEFT.set(usize::MAX);
    (done, OTHER.take().is_none())
}

/// Returns how many locks `act` takes.
fn locks_of(act: impl FnOnce()) -> usize {
    LEFT.set(usize::MAX - 1);
    act();
    usize::MAX - 1 - LEFT.replace(usize::MAX)
}

/// A lock for one thread, which panics where it would wait for itself.
pub(crate) struct OneThread(Cell<bool>);

// SAFETY: each test has spaces of its own, which one thread uses.
unsafe impl Sync for OneThread {}

// SAFETY: `try_lock` succeeds once until the unlock, and `lock` does not return without it.
unsafe impl lock_api::RawMutex for OneThread {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = Self(Cell::new(false));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        match LEFT.get() {
            0 => {
                LEFT.set(usize::MAX);
                let cpu = CPU.get();
                OTHER.take().expect("set with the count")();
                CPU.set(cpu);
            }
            left => LEFT.set(left.saturating_sub(usize::from(left != usize::MAX))),
        }
        assert!(self.try_lock(), "it would wait for ever");
    }

    fn try_lock(&self) -> bool {
        let was_held = self.0.replace(true);
        HELD.set(HELD.get() + usize::from(!was_held));
        !was_held
    }

    unsafe fn unlock(&self) {
        self.0.set(false);
        HELD.set(HELD.get().saturating_sub(1));
    }
}

type Test = &'static Space<Sim<OneThread>>;

/// Returns a space on a machine of two CPUs with so many pages.
fn make(pages: u64, options: SpaceOptions) -> Test {
    let span = PageRange::from_len(1 << 20, pages).unwrap();
    let machine = Options::new(span).cpus(2).frames(1 << 14).remaps_atomically().promises_drains();
    let machine = machine.current_cpu(|| CPU.get()).build_with();
    Box::leak(Box::new(Space::new(machine, options.lazy_max_pages(1 << 20)).unwrap()))
}

/// Returns a space where CPU 1 has freed 16 areas, with memory or without, which CPU 0 may bring.
fn space(kind: Cached) -> Test {
    let cache = if kind == Cached::Memory { 64 << 20 } else { 0 };
    let space = make(1 << 20, SpaceOptions::default().cache_bytes(cache));
    CPU.set(1);
    // The leaves that each node has to itself are in use.
    space.raw().reserve(&Request::new(4096 << 12)).unwrap();
    let areas: Vec<_> = (0..16).map(|_| take(space, 100)).collect();
    areas.into_iter().for_each(|addr| give(space, addr));
    if kind == Cached::Addresses {
        let _ = space.drain().unwrap();
    }
    space
}

fn take(space: Test, pages: usize) -> usize {
    space.raw().alloc(&Request::new(pages << 12)).unwrap()
}

fn give(space: Test, addr: usize) {
    // SAFETY: allocated by `take`, and not used.
    unsafe { space.raw().free(addr) }.unwrap();
}

fn is_mapped(space: Test, page: u64) -> bool {
    space.platform().physical_page(page).is_some()
}

/// Returns how many areas the space keeps, with memory that is mapped and without.
fn kept(space: Test) -> (usize, usize) {
    let kept: Vec<_> = space.cached().collect();
    let is_mapped =
        |(area, kind): &&(PageRange, Cached)| *kind == Cached::Memory && is_mapped(space, area.start());
    let addresses = kept.iter().filter(|(_, kind)| *kind == Cached::Addresses);
    (kept.iter().filter(is_mapped).count(), addresses.count())
}

/// Plays `act` with an allocation on CPU 0 before each of its locks. Returns what is kept in the
/// end, for each.
fn with_an_allocation(kind: Cached, act: impl Fn(Test)) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for nth in 0.. {
        let space = space(kind);
        let (done, has_acted) = with_other(nth, move || _ = take(space, 100), || act(space));
        if !has_acted {
            break;
        }
        if done.is_some() {
            found.push(kept(space));
            space.verify().unwrap();
        }
    }
    assert!(found.len() > 4, "{found:?}");
    found
}

#[test]
fn a_flush_leaves_no_area_mapped_that_was_freed_before_it() {
    let kept = with_an_allocation(Cached::Memory, |space| space.flush().unwrap());
    assert!(kept.iter().all(|kept| kept.0 == 0), "areas with memory, without: {kept:?}");
}

#[test]
fn a_purge_leaves_no_area_that_was_freed_before_it() {
    for kind in [Cached::Memory, Cached::Addresses] {
        let kept = with_an_allocation(kind, |space| space.purge().unwrap());
        assert!(kept.iter().all(|kept| *kept == (0, 0)), "areas with memory, without: {kept:?}");
    }
}

#[test]
fn a_drain_is_not_done_while_areas_keep_memory() {
    let mut ends = 0;
    for allocs in 0..20 {
        for nth in 0.. {
            let space = space(Cached::Memory);
            let other = move || {
                take(space, 100);
                CPU.set(1);
                (0..allocs).for_each(|_| _ = take(space, 100));
            };
            let (done, has_acted) = with_other(nth, other, || space.drain().unwrap());
            if !has_acted {
                break;
            }
            if done == Some(DrainStatus::Done) {
                assert_eq!(kept(space).0, 0, "lock {nth}, {allocs} allocations");
                ends += 1;
            }
        }
    }
    assert!(ends > 0, "no drain was done");
}

/// Returns an empty space of so many pages that caches up to `cached`, and little in any case.
fn dear(pages: u64, cached: usize) -> Test {
    dear_with(pages, cached, |in_use| (in_use / 3).max(4))
}

/// Returns an empty space as `dear`, that caches so many pages beside those in use.
fn dear_with(pages: u64, cached: usize, beside: fn(u64) -> u64) -> Test {
    let options =
        SpaceOptions::default().guard(false).memory_cost(MemoryCost::Dear).cache_bytes(cached << 12);
    CPU.set(0);
    make(pages, options.cached_beside(beside))
}

/// A space in which a flush begins, and what another CPU does meanwhile: the area that it may have
/// freed.
type Scene = (Test, Box<dyn FnOnce() -> PageRange>);

/// Has another CPU make cached areas lazy before each lock of a flush. Afterwards nothing is mapped
/// but areas in use, and what the other CPU may have freed.
fn flush_meets(scene: fn() -> Scene) {
    let (mut ends, mut wrong) = (0, Vec::new());
    for nth in 0.. {
        let (space, other) = scene();
        let its = Rc::new(Cell::new(None));
        let noted = its.clone();
        let act = || space.flush().unwrap();
        let (done, has_acted) = with_other(nth, move || noted.set(Some(other())), act);
        if !has_acted {
            break;
        }
        if done.is_none() {
            continue;
        }
        ends += 1;
        let its = its.get().expect("it has acted");
        let is_its = |page: &u64| space.find((*page as usize) << 12).is_none() && is_mapped(space, *page);
        let its = (its.start()..its.end()).filter(is_its).count() as u64;
        let left = space.platform().mapped_pages() - space.stats().busy_pages - its;
        if left != 0 {
            wrong.push((nth, left));
        }
    }
    assert!(ends > 4, "{ends}");
    assert_eq!(wrong, [], "locks, and pages that were freed before the flush and are mapped");
}

fn pages(addr: usize, pages: u64) -> PageRange {
    PageRange::from_len((addr >> 12) as u64, pages).unwrap()
}

fn a_join() -> Scene {
    // An eighth of what may be cached may be lazy. Beyond four times that the allocation would wait
    // for the flush.
    let space = dear_with(1 << 20, 1 << 12, |in_use| in_use);
    let _large = take(space, 600);
    let small: Vec<_> = (0..20).map(|_| take(space, 10)).collect();
    small.into_iter().for_each(|addr| give(space, addr));
    // They were needed just now for this one, and are joined for the next.
    take(space, 26);
    (space, Box::new(|| pages(take(space, 25), 25)))
}

fn growth() -> Scene {
    let space = dear_with(1 << 20, 1 << 12, |in_use| in_use);
    let _large = take(space, 600);
    // No two lie side by side.
    let all: Vec<_> = (0..40).map(|_| take(space, 20)).collect();
    all.into_iter().step_by(2).for_each(|addr| give(space, addr));
    take(space, 500);
    (space, Box::new(|| pages(take(space, 600), 600)))
}

/// Areas of `count` pages are cached, up to `cached`, and make way for one of `other` pages.
fn making_way(cached: usize, areas: usize, count: usize, other: usize) -> Scene {
    let space = dear(1 << 20, cached);
    let areas: Vec<_> = (0..areas).map(|_| take(space, count)).collect();
    let addr = take(space, other);
    areas.into_iter().for_each(|addr| give(space, addr));
    let other = move || {
        give(space, addr);
        pages(addr, other as u64)
    };
    (space, Box::new(other))
}

#[test]
fn a_flush_unmaps_what_others_make_go() {
    flush_meets(a_join);
    flush_meets(growth);
    flush_meets(|| making_way(200, 20, 10, 30));
    flush_meets(|| making_way(500, 1, 600, 700));
}

/// An allocation in need goes on while a large area is cached. Growth of another CPU makes that
/// area lazy, before any of the locks that are left. The allocation gets its addresses all the
/// same.
#[test]
fn an_allocation_in_need_sees_what_growth_makes_go() {
    let scene = || {
        let space = dear(1024, 512);
        let large = take(space, 300);
        take(space, 1024 - 300 - 8);
        (space, large)
    };
    let request = Request::new(290 << 12);
    let (mut found, mut refused) = (0, Vec::new());
    for first in 0.. {
        let (space, large) = scene();
        let other = move || {
            CPU.set(1);
            give(space, large);
        };
        let (alone, has_acted) = with_other(first, other, || space.raw().alloc(&request).is_ok());
        if !has_acted {
            break;
        }
        if alone != Some(true) {
            continue;
        }
        for second in 0.. {
            let (space, large) = scene();
            let grow = move || {
                CPU.set(1);
                take(space, 8);
            };
            let other = move || {
                CPU.set(1);
                give(space, large);
                OTHER.set(Some(Box::new(grow)));
                LEFT.set(second);
            };
            let (done, has_acted) = with_other(first, other, || space.raw().alloc(&request).is_ok());
            if !has_acted {
                break;
            }
            match done {
                Some(true) => found += 1,
                Some(false) => refused.push((first, second)),
                None => {}
            }
        }
    }
    assert!(found > 4, "{found}");
    assert_eq!(refused, [], "the locks before which the other CPU acted");
}

/// A sweep closes windows. Another CPU that looks for a window meanwhile may not open a block that
/// waits for its flush, and leaves it where the purge finds it.
#[test]
fn a_purge_finds_all_blocks_that_others_look_at() {
    let mut ends = 0;
    for nth in 0.. {
        let space = space(Cached::Addresses);
        CPU.set(1);
        let short: &_ = Box::leak(Box::new(ShortMaps::of(space).unwrap()));
        let first = short.reserve(1).unwrap();
        // SAFETY: nothing uses the addresses any more.
        let end = |addr: usize, pages: u64| unsafe { short.unreserve(addr, pages) }.unwrap();
        end(first, 1);
        let other = move || {
            CPU.set(1);
            let taken = [1, 2, 4].map(|pages| (short.reserve(pages).unwrap(), pages));
            taken.into_iter().for_each(|(addr, pages)| end(addr, pages));
        };
        let (done, has_acted) = with_other(nth, other, || space.purge().unwrap());
        if !has_acted {
            break;
        }
        if done.is_some() {
            ends += 1;
            space.purge().unwrap();
            space.verify().unwrap();
            assert_eq!(space.stats().tenant_areas, 0, "lock {nth}");
        }
    }
    assert!(ends > 4, "{ends}");
}

/// A sub-space that comes or goes looks at none of the others.
#[test]
fn a_sub_space_among_many_takes_as_many_locks_as_among_few() {
    let span = PageRange::from_len(1 << 20, 1 << 20).unwrap();
    let machine = Options::new(span).cpus(1).current_cpu(|| 0).build_with::<OneThread>();
    let (root, mut parts) = (Root::new(machine).unwrap(), Vec::new());
    let mut open = || {
        let name: &'static str = Box::leak(format!("part {}", parts.len()).into_boxed_str());
        parts.push(root.subspace(name, &Request::new(16 << 12), None, SpaceOptions::default()).unwrap());
        parts.len()
    };
    open();
    let among_few = locks_of(|| _ = open());
    while open() < 500 {}
    assert_eq!(locks_of(|| _ = open()), among_few);
    let close = |parts: &mut Vec<_>, nth| locks_of(|| drop(parts.swap_remove(nth)));
    assert_eq!(close(&mut parts, 250), close(&mut parts, 499));
}
