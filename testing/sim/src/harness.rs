//! Fault injection: every step of an operation fails, one after the other, and nothing is lost by
//! it.
//!
//! ```text
//!   for n = 1, 2, 3 …          a fresh machine and space; `setup` fills it
//!          │
//!          ▼
//!   the n-th step of a kind fails during `operation`, once or from then on ──── it never came to that: the end
//!          │ refused                           │ done all the same
//!          ▼                                   │
//!   nothing was taken; every invariant holds   │
//!   half of the times: repeated, and done      │
//!          └──────────────────┬────────────────┘
//!                             ▼
//!   `release` frees what is left; after a purge the space is exactly what it was: one free range, nothing mapped,
//!   nothing unflushed, and as many frames are taken as before
//! ```
//!
//! Steps are the machine's [`Point`]s and the heap's requests ([`heap`]); for the heap the test
//! program needs a [`FailingAlloc`](heap::FailingAlloc), and an operation must not ask for memory
//! itself but where it can do without. What an operation makes it leaves in its state, for which
//! `setup` has made room.
//!
//! The space may be shared, as an `Arc` that the state has as well: for what keeps hold of its
//! space.
//!
//! ```
//! use vmalloc::{PageRange, Request, Space, SpaceOptions};
//! use vmalloc_sim::harness::{free_all, walk};
//! use vmalloc_sim::{Options, Point};
//!
//! let setup = || {
//!     let sim = Options::new(PageRange::new(0x100, 0x200).unwrap()).build();
//!     (Space::new(sim, SpaceOptions::default()).unwrap(), None)
//! };
//! walk(
//!     "alloc",
//!     &[Point::Map],
//!     setup,
//!     |space, addr| space.raw().alloc(&Request::new(4096)).map(|area| *addr = Some(area)),
//!     |space, _| free_all(space),
//! );
//! ```

use crate::direct::Direct;
use crate::heap::{self, Exempt};
use crate::plan::{Due, Point};
use crate::sim::Sim;
use lock_api::RawMutex;
use std::borrow::Borrow;
use std::fmt;
use vmalloc::{Kind, Platform, Space, Stats};
use vmalloc_subspaces::{Divisible, Subspace};

/// Failures after which a walk is given up: something asks for more and more.
const MOST: u64 = 10_000;

/// A platform with a simulated machine in it.
pub trait Simulated: Platform {
    /// The lock of the space above it.
    type Lock: RawMutex + Send + Sync + 'static;

    /// Returns the machine.
    fn machine(&self) -> &Sim<Self::Lock>;
}

impl<L: RawMutex + Send + Sync + 'static> Simulated for Sim<L> {
    type Lock = L;

    fn machine(&self) -> &Self {
        self
    }
}

impl<L: RawMutex + Send + Sync + 'static> Simulated for Direct<L> {
    type Lock = L;

    fn machine(&self) -> &Sim<L> {
        self.sim()
    }
}

/// A part of a machine is on that machine.
impl<P: Simulated + Divisible, A> Simulated for Subspace<P, A> {
    type Lock = P::Lock;

    fn machine(&self) -> &Sim<P::Lock> {
        self.parent().machine()
    }
}

/// The reaction to a refused operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    GivenUp,
    Repeated,
}

const AFTER: [After; 2] = [After::GivenUp, After::Repeated];

/// A step that is to fail.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    step: Point,
    due: Due,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of the steps of the kind {:?} these fail: {:?}", self.step, self.due)
    }
}

impl Injection {
    /// Runs `act` with the steps of `sim`, or of the heap, failing; how many have. Nothing fails
    /// afterwards.
    pub fn during<L: RawMutex + Send + Sync + 'static, R>(
        self,
        sim: &Sim<L>,
        act: impl FnOnce() -> R,
    ) -> (R, u64) {
        match self.step {
            Point::Heap => self.on_heap(act),
            point => {
                let before = sim.injected(point);
                sim.fail(point, self.due);
                let result = act();
                let failed = sim.injected(point) - before;
                sim.heal();
                (result, failed)
            }
        }
    }

    /// Runs `act` with requests of the heap failing, which need no machine; how many have.
    pub fn on_heap<R>(self, act: impl FnOnce() -> R) -> (R, u64) {
        let (result, demand) = heap::short_of(self.due, act);
        (result, demand.refused)
    }
}

/// Runs `run` with the first, the second, the third … step failing, until it tells that none has;
/// how many times one has.
pub fn each(step: Point, due: fn(u64) -> Due, mut run: impl FnMut(Injection) -> bool) -> u64 {
    let mut injections = (1..=MOST).map(|nth| Injection { step, due: due(nth) });
    let missed = injections.find(|&injection| !run(injection)).expect("an operation of finitely many steps");
    missed.due.first() - 1
}

/// Lets an operation fail at each step of each kind, once and from there on. `setup` makes a space
/// on a fresh machine, and a state with room for what `operation` makes; `release` frees all of it,
/// whether the operation was done or not. Each does the same every time. See the module's
/// documentation.
///
/// # Panics
/// With the injection in the message's neighbourhood, when anything is lost, an operation fails
/// without a reason, or has no step of a kind that it `meets`.
pub fn walk<P: Simulated, S: Borrow<Space<P>>, T, E: fmt::Debug>(
    name: &'static str,
    meets: &[Point],
    setup: impl Fn() -> (S, T),
    operation: impl Fn(&Space<P>, &mut T) -> Result<(), E>,
    release: impl Fn(&Space<P>, T),
) {
    let mut all = 0;
    for (step, due) in Point::ALL.map(|step| Due::KINDS.map(|due| (step, due))).concat() {
        for after in AFTER {
            let failed = each(step, due, |injection| {
                let _context = Context(name, injection, after);
                run(injection, after, &setup, &operation, &release) > 0
            });
            assert!(failed > 0 || !meets.contains(&step), "{name}: it has no step of the kind {step:?}");
            all += failed;
        }
    }
    assert!(all > 0, "{name}: nothing that could fail");
}

/// Does one run, from a fresh machine to the end. Returns how many steps failed in it.
fn run<P: Simulated, S: Borrow<Space<P>>, T, E: fmt::Debug>(
    injection: Injection,
    after: After,
    setup: impl Fn() -> (S, T),
    operation: impl Fn(&Space<P>, &mut T) -> Result<(), E>,
    release: impl Fn(&Space<P>, T),
) -> u64 {
    let (space, mut state) = setup();
    let space = space.borrow();
    let before = Before::of(space);
    let (result, failed) = injection.during(space.platform().machine(), || operation(space, &mut state));
    before.check(space, &result, failed);
    if result.is_err() && after == After::Repeated {
        operation(space, &mut state).expect("an error changes nothing: it can be done now");
        check(space);
    }
    release(space, state);
    check_whole(space);
    failed
}

/// Tells which injection it was when a check has failed.
struct Context(&'static str, Injection, After);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _exempt = Exempt::begin();
            eprintln!("{}: {}; after that: {:?}", self.0, self.1, self.2);
        }
    }
}

/// The facts that an operation that fails must leave as they are.
struct Before {
    taken_frames: usize,
}

impl Before {
    fn of<P: Simulated>(space: &Space<P>) -> Self {
        check(space);
        Self { taken_frames: space.platform().machine().taken_frames().len() }
    }

    fn check<P: Simulated, R, E: fmt::Debug>(&self, space: &Space<P>, result: &Result<R, E>, failed: u64) {
        check(space);
        if let Err(error) = result {
            assert!(failed > 0, "nothing failed below, and yet: {error:?}");
            let taken = || space.platform().machine().taken_frames().len();
            // What could not be noted, or was refused, shows its frames until the next flush.
            let is_refused = taken() > self.taken_frames && space.flush().is_err();
            let taken = taken();
            // Fewer may be: those of areas that were freed before.
            assert!(
                taken <= self.taken_frames || is_refused,
                "an error keeps {taken} frames and not {}",
                self.taken_frames
            );
        }
    }
}

/// Frees all areas that [`vmalloc::Raw::free`] and [`vmalloc::Raw::unreserve`] are for.
pub fn free_all<P: Platform>(space: &Space<P>) {
    for area in space.areas() {
        match area.kind {
            // SAFETY: the caller, which frees everything, answers for it that nothing uses it.
            #[allow(unsafe_code)]
            Kind::Vmalloc => unsafe { space.raw().free(area.addr) }.expect("it is busy"),
            // SAFETY: as above.
            #[allow(unsafe_code)]
            Kind::Reserved => unsafe { space.raw().unreserve(area.addr) }.expect("it is busy"),
            kind => panic!("{kind:?}: an area of another kind at {:#x}", area.addr),
        }
    }
}

/// Checks a space with areas in it: its invariants, its counts against a walk over it, and its
/// machine.
pub fn check<P: Simulated>(space: &Space<P>) {
    assert_eq!(heap::take_calls_under_locks(), 0, "calls of the heap under locks of the space");
    space.verify().expect("every invariant holds");
    let stats = space.stats();
    let sum =
        stats.free_pages + stats.busy_pages + stats.lazy_pages + stats.cached_pages + stats.pooled_pages;
    assert_eq!(sum, stats.span_pages, "{stats:?}");
    check_areas(space, &stats);
    let sim = space.platform().machine();
    assert_eq!((sim.audit(), sim.faults()), (vec![], vec![]));
}

/// Compares the counts with a walk. Tenants' areas are busy as long as they are there; those that
/// wait for a flush or for their release are counted as lazy or pooled.
fn check_areas<P: Simulated>(space: &Space<P>, stats: &Stats) {
    let (mut all, mut others) = ((0, 0), (0, 0));
    for area in space.areas() {
        let pages = area.pages + u64::from(area.guard);
        let own = if area.kind == Kind::Tenant { (0, 0) } else { (1, pages) };
        all = (all.0 + 1, all.1 + pages);
        others = (others.0 + own.0, others.1 + own.1);
    }
    let counted = (stats.busy_areas, stats.busy_pages);
    let is_right = (others.0..=all.0).contains(&counted.0) && (others.1..=all.1).contains(&counted.1);
    assert!(is_right, "areas and pages found by a walk: {all:?}, without tenants {others:?}: {stats:?}");
}

/// Checks that a space with no areas is, after a purge, what it was when it was made.
pub fn check_whole<P: Simulated>(space: &Space<P>) {
    space.purge().expect("nothing is made to fail");
    check(space);
    let stats = space.stats();
    let Stats { span_pages, busy_areas, lazy_areas, cached_areas, pooled_areas, .. } = stats;
    assert_eq!((busy_areas, lazy_areas, cached_areas, pooled_areas), (0, 0, 0, 0), "{stats:?}");
    assert_eq!((stats.free_pages, stats.largest_free_pages), (span_pages, span_pages), "{stats:?}");
    let sim = space.platform().machine();
    assert_eq!((sim.check_end(), sim.taken_frames()), (vec![], vec![]));
}
