//! What `free_atomic` does not do, whatever it frees: wait for a lock, use the heap, change
//! memory, or ask for more than a wake-up.

use lock_api::{GuardSend, RawMutex};
use std::cell::Cell;
use std::fmt;
use vmalloc::{
    DirectMemory, DrainReason, FreeError, Geometry, PageRange, Platform, PlatformError, Protection, Request,
    Space, SpaceOptions,
};
use vmalloc_linux::{FutexLock, Linux, LinuxOptions, page_bytes};

thread_local! {
    static ATOMIC: Cell<bool> = const { Cell::new(false) };
    static FORBIDDEN: Cell<&'static str> = const { Cell::new("") };
}

/// Notes what must not be done now.
pub(crate) fn not_atomic(what: &'static str) {
    if ATOMIC.get() {
        FORBIDDEN.set(what);
    }
}

/// A lock that may be tried at any time.
struct Lock(FutexLock);

// SAFETY: passed on.
unsafe impl RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(FutexLock::INIT);
    type GuardMarker = GuardSend;

    fn lock(&self) {
        not_atomic("lock");
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: passed on.
        unsafe { self.0.unlock() };
    }
}

struct Watched(Linux);

// SAFETY: all is the platform's below, whose lock it is.
unsafe impl Platform for Watched {
    type RawLock = Lock;
    type PurgeLock = Lock;
    type Context = ();

    fn geometry(&self) -> Geometry {
        let below = self.0.geometry();
        Geometry::new(below.span, below.page_shift, below.cpus)
    }

    fn cpu(&self) -> usize {
        self.0.cpu()
    }

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        not_atomic("map");
        // SAFETY: passed on.
        unsafe { self.0.map(range, protection, ()) }
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        not_atomic("unmap");
        // SAFETY: passed on.
        unsafe { self.0.unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        not_atomic("flush");
        // SAFETY: passed on.
        unsafe { self.0.flush(ranges) }
    }

    unsafe fn zero(&self, range: PageRange) {
        not_atomic("zero");
        // SAFETY: passed on.
        unsafe { self.0.zero(range) }
    }

    fn drain_later(&self, _: DrainReason) -> bool {
        not_atomic("drain_later");
        false
    }

    fn entropy(&self) -> u64 {
        self.0.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.0.fatal(damage)
    }
}

// SAFETY: passed on.
unsafe impl DirectMemory for Watched {}

fn free_atomically(space: &Space<Watched>, addr: usize) -> Result<(), FreeError> {
    ATOMIC.set(true);
    // SAFETY: the test owns what it frees.
    let result = unsafe { space.raw().free_atomic(addr) };
    let found = space.try_find(addr);
    ATOMIC.set(false);
    let still_there = matches!(result, Err(FreeError::Contended { .. }));
    assert_eq!(found.map(|area| area.is_some()), Ok(still_there), "nobody holds a lock");
    assert_eq!(FORBIDDEN.get(), "", "in an atomic free of {addr:#x}");
    result
}

/// An area of one of all kinds that the call frees; in the lower half of the span, or far out.
fn area(space: &Space<Watched>, kind: usize, far: bool) -> usize {
    let span = space.platform().geometry().span;
    let half = (span.start() + span.len() / 2) as usize * page_bytes();
    let request = Request::new((1 + kind % 3) * page_bytes());
    let request = match kind {
        1 => Request::new(5000),
        2 => request.tag("noted"),
        3 => request.guard(false),
        4 => request.zeroed(),
        _ => request,
    };
    let request = if far { request.within(half, span.end() as usize * page_bytes()) } else { request };
    space.raw().alloc(&request).unwrap()
}

#[test]
fn an_atomic_free_of_any_area_waits_for_nothing_and_uses_no_heap() {
    for options in
        [SpaceOptions::default(), SpaceOptions::default().unmap_on_free(), SpaceOptions::default().nodes(1)]
    {
        let linux = Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap();
        let space = Space::new(Watched(linux), options).unwrap();
        let mut contended = 0;
        for round in 0..60 {
            let areas: Vec<_> = (0..10).map(|kind| area(&space, kind % 5, kind >= 5)).collect();
            for addr in areas {
                // The list for areas with notes is full now and then.
                while free_atomically(&space, addr) == Err(FreeError::Contended { addr }) {
                    contended += 1;
                    space.purge().unwrap();
                }
                assert!(free_atomically(&space, addr).is_err(), "freed twice in round {round}");
            }
            assert!(free_atomically(&space, 0).is_err());
        }
        assert!(contended > 0, "a full list is a part of this");
        space.purge().unwrap();
        space.verify().unwrap();
        let stats = space.stats();
        assert_eq!((stats.busy_areas, stats.largest_free_pages), (0, stats.span_pages));
    }
}

#[test]
fn where_nobody_drains_an_allocation_purges_what_was_freed_atomically() {
    let linux = Linux::reserve(LinuxOptions::new().max_bytes(1 << 28), &SpaceOptions::default()).unwrap();
    let space = Space::new(Watched(linux), SpaceOptions::default().lazy_max_pages(100)).unwrap();
    for _ in 0..1000 {
        let addr = space.raw().alloc(&Request::new(16 * page_bytes())).unwrap();
        free_atomically(&space, addr).unwrap();
        assert!(space.stats().lazy_pages < 100 + 3 * 17, "{:?}", space.stats());
    }
}
