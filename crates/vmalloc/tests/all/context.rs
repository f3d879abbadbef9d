//! What a caller tells the platform about one allocation.

use crate::two_threads::plain::{PAGE, Plain, YieldLock};
use Call::{Huge, Map};
use std::fmt;
use std::mem::take;
use std::slice::from_ref;
use std::sync::Mutex;
use vmalloc::{
    AllocError, AreaError, DirectMemory, Geometry, MemoryCost, PageRange, Platform, PlatformError,
    PlatformFault, Protection, Raw, Relocate, Request, Resize, Space, SpaceOptions,
};
use vmalloc_subspaces::Root;

/// The words of a kernel for one allocation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Words {
    node: u8,
    must_not_wait: bool,
}

const NEAR: Words = Words { node: 3, must_not_wait: false };
const NOW: Words = Words { node: 0, must_not_wait: true };
const DEFAULT: Words = Words { node: 0, must_not_wait: false };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Map,
    Huge,
}

/// A kernel that is short of memory: only calls that may wait get some. It notes what it is told.
struct Kernel {
    memory: Plain,
    told: Mutex<Vec<(Call, Words)>>,
}

impl Kernel {
    fn note(&self, call: Call, words: Words) -> Result<(), PlatformError> {
        let short = PlatformError { call: "map", fault: PlatformFault::OutOfMemory, code: 12 };
        self.told.lock().unwrap().push((call, words));
        if words.must_not_wait { Err(short) } else { Ok(()) }
    }
}

// SAFETY: the memory's, which gets every call that is not refused.
unsafe impl Platform for Kernel {
    type RawLock = YieldLock;
    type PurgeLock = YieldLock;
    type Context = Words;

    fn geometry(&self) -> Geometry {
        self.memory.geometry().huge_order(Some(3))
    }

    fn cpu(&self) -> usize {
        0
    }

    unsafe fn map(&self, range: PageRange, access: Protection, words: Words) -> Result<(), PlatformError> {
        self.note(Map, words)?;
        // SAFETY: the caller's promise.
        unsafe { self.memory.map(range, access, ()) }
    }

    unsafe fn map_huge(
        &self,
        range: PageRange,
        access: Protection,
        words: Words,
    ) -> Result<(), PlatformError> {
        self.note(Huge, words)?;
        // SAFETY: the caller's promise.
        unsafe { self.memory.map_huge(range, access, ()) }
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise.
        unsafe { self.memory.unmap(ranges) }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise.
        unsafe { self.memory.flush(ranges) }
    }

    unsafe fn zero(&self, range: PageRange) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.zero(range) }
    }

    fn entropy(&self) -> u64 {
        1
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.memory.fatal(damage)
    }
}

// SAFETY: the memory's.
unsafe impl DirectMemory for Kernel {}

// SAFETY: it moves nothing.
unsafe impl Relocate for Kernel {}

fn kernel() -> Kernel {
    Kernel { memory: Plain::new(false), told: Mutex::default() }
}

fn space(options: SpaceOptions) -> Space<Kernel> {
    Space::new(kernel(), options).unwrap()
}

fn unmapping() -> Space<Kernel> {
    space(SpaceOptions::default().unmap_on_free())
}

/// Returns what the platform was told since the last call.
fn told(space: &Space<Kernel>) -> Vec<(Call, Words)> {
    take(&mut space.platform().told.lock().unwrap())
}

fn pages(count: usize) -> Request {
    Request::new(count * PAGE)
}

#[test]
fn every_call_that_maps_memory_hands_its_context_to_the_platform() {
    for words in [NEAR, DEFAULT] {
        let space = unmapping();
        let raw = if words == DEFAULT { space.raw() } else { space.raw().with(words) };
        let once = |call, what: &str| assert_eq!(told(&space), [(call, words)], "{what}");
        let first = raw.alloc(&pages(3)).unwrap();
        once(Map, "alloc");
        let recorded = raw.alloc(&pages(3).record(7)).unwrap();
        once(Map, "alloc with a record");
        raw.alloc(&pages(20).huge()).unwrap();
        once(Huge, "alloc of huge pages");
        // SAFETY: the areas are this test's, and nothing uses those that are freed.
        unsafe {
            raw.free(first).unwrap();
            raw.free(recorded).unwrap();
            space.purge().unwrap();
            assert_eq!(told(&space), []);
            let first = raw.alloc(&pages(3)).unwrap();
            once(Map, "alloc in addresses that waited");
            raw.alloc(&pages(3).record(7)).unwrap();
            once(Map, "alloc with a record in addresses that waited");
            let last = raw.alloc(&pages(90)).unwrap();
            once(Map, "alloc of a large area");
            raw.grow_in_place(last, 100 * PAGE).unwrap();
            once(Map, "grow_in_place");
            raw.realloc(first, &Resize::new(40 * PAGE)).unwrap();
            // The pages that are new, and the copies of those that were there.
            assert_eq!(told(&space), [(Map, words); 2], "realloc");
            let reserved = raw.reserve(&pages(9)).unwrap();
            assert_eq!(told(&space), []);
            raw.commit(from_ref(&(reserved..reserved + PAGE))).unwrap();
            once(Map, "commit");
            raw.try_commit(reserved + PAGE..reserved + 2 * PAGE).unwrap();
            once(Map, "try_commit");
        }
        space.verify().unwrap();
    }
}

/// The guard page between two areas that the space joins is mapped for no caller.
#[test]
fn what_the_space_maps_for_itself_has_the_default_context() {
    let space = space(SpaceOptions::default().cache_bytes(1 << 20).memory_cost(MemoryCost::Dear));
    let near = space.raw().with(NEAR);
    // With a guard page each they fill huge pages, and so lie side by side.
    let areas = [0; 2].map(|_| near.alloc(&pages(263)).unwrap());
    near.alloc(&pages(1)).unwrap();
    assert_eq!(told(&space), [(Map, NEAR); 3]);
    // SAFETY: nothing uses the areas any more.
    areas.iter().for_each(|&addr| unsafe { near.free(addr) }.unwrap());
    let joined = near.alloc(&pages(527)).unwrap();
    assert_eq!((told(&space), joined), (vec![(Map, DEFAULT)], areas[0]));
    space.verify().unwrap();
}

/// Cached memory is reused as it is: no call of the platform could see the context.
#[test]
fn a_context_does_not_reach_memory_that_is_cached() {
    let space = space(SpaceOptions::default());
    let addr = space.raw().alloc(&pages(3)).unwrap();
    // SAFETY: nothing uses the area any more.
    unsafe { space.raw().free(addr) }.unwrap();
    assert_eq!(space.raw().with(NOW).alloc(&pages(3)), Ok(addr));
    assert_eq!(told(&space), [(Map, DEFAULT)]);
}

#[test]
fn a_context_that_forbids_waiting_gets_an_error_where_memory_is_short_and_changes_nothing() {
    let space = unmapping();
    let (now, is_short) = (space.raw().with(NOW), |error: &PlatformError| error.code == 12);
    for request in [pages(3), pages(3).record(7), pages(20).huge(), pages(300)] {
        for request in [request, request.may_block(false)] {
            let refused = now.alloc(&request);
            assert!(matches!(refused, Err(AllocError::Unbacked(it)) if is_short(&it.cause)), "{refused:?}");
            space.verify().unwrap();
            space.purge().unwrap();
            let stats = space.stats();
            assert_eq!((stats.busy_areas, stats.largest_free_pages), (0, stats.span_pages));
        }
    }
    // A call that may wait gets what is refused here.
    let reserved = space.raw().reserve(&pages(3)).unwrap();
    let area = space.raw().alloc(&pages(90)).unwrap();
    let before = space.stats();
    // SAFETY: the areas are this test's.
    unsafe {
        for grown in
            [now.grow_in_place(area, 99 * PAGE), now.realloc(area, &Resize::new(99 * PAGE)).map(drop)]
        {
            assert!(matches!(grown, Err(AreaError::Alloc(AllocError::Unbacked(_)))), "{grown:?}");
        }
        let page = reserved..reserved + PAGE;
        let committed = now.commit(from_ref(&page));
        assert!(matches!(committed, Err(AreaError::Platform(it)) if is_short(&it)), "{committed:?}");
        space.raw().commit(from_ref(&page)).expect("nothing is mapped there");
    }
    assert_eq!((space.stats().busy_pages, space.find(area).unwrap().pages), (before.busy_pages, 90));
    space.verify().unwrap();
}

#[test]
fn a_subspace_hands_its_context_to_the_platform_below() {
    let root = Root::new(kernel()).unwrap();
    let part = root.divide("part", &pages(512), None).unwrap();
    let space = Space::new(part, SpaceOptions::default()).unwrap();
    for request in [pages(3), pages(20).huge()] {
        space.raw().with(NEAR).alloc(&request).unwrap();
    }
    assert_eq!(*root.platform().told.lock().unwrap(), [(Map, NEAR), (Huge, NEAR)]);
}

#[test]
fn without_a_context_the_unsafe_layer_is_one_pointer() {
    assert_eq!(size_of::<Raw<'_, Plain>>(), size_of::<usize>());
}
