//! Groups of congruent areas: all or none, from the top, and flushed before reuse.

use std::sync::{Arc, Mutex, PoisonError};
use vmalloc::{FitError, FreeError, Kind, Notifier, PageRange, Request, Space, SpaceOptions};
use vmalloc_percpu::{CongruentAreas, CongruentError, CongruentFreeError, TAG, alloc};
use vmalloc_sim::{Due, heap};
use vmalloc_sim::{Options, Sim};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;
const SPAN: (u64, u64) = (0x100, 0x500);

fn space(options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::new(SPAN.0, SPAN.1).expect("not empty");
    Space::new(Options::new(span).build(), options).expect("an empty space")
}

/// Frees a group of which nothing is used any more.
fn free(
    space: &Space<Sim>,
    base: usize,
    offsets: &[usize],
    sizes: &[usize],
) -> Result<(), CongruentFreeError> {
    // SAFETY: nothing uses the addresses any more.
    unsafe { vmalloc_percpu::free(space, base, offsets, sizes) }
}

/// Everything is free again, and nothing is left behind.
fn finish(space: &Space<Sim>) {
    space.purge().expect("no fault");
    space.verify().expect("every invariant holds");
    let stats = space.stats();
    assert_eq!((stats.free_pages, stats.largest_free_pages), (stats.span_pages, stats.span_pages));
    space.platform().check_end();
}

#[test]
fn group_comes_from_the_top_without_guards_and_traps_where_frees_do() {
    make_and_free(SpaceOptions::default(), 2);
    make_and_free(SpaceOptions::default().trap_on_free(true), 0);
}

/// Of a group that was freed so many areas are lazy.
fn make_and_free(options: SpaceOptions, lazy_areas: u64) {
    let space = space(options);
    let below = space.raw().alloc(&Request::new(PAGE)).expect("room");
    let (offsets, sizes) = ([0x40 * PAGE, 0], [3 * PAGE - 100, 2 * PAGE]);
    let base = alloc(&space, &offsets, &sizes, 16 * PAGE).expect("room");
    assert_eq!(base, 0x4b0 * PAGE);
    for (offset, pages) in offsets.into_iter().zip([3, 2]) {
        let info = space.find(base + offset + PAGE).expect("an area");
        assert_eq!((info.addr, info.bytes, info.pages), (base + offset, pages as usize * PAGE, pages));
        assert_eq!((info.kind, info.guard, info.tag.as_deref()), (Kind::Reserved, false, Some(TAG)));
    }
    assert_eq!(space.vmallocinfo().to_string().matches("percpu").count(), 2);
    assert_eq!((space.stats().busy_areas, space.stats().busy_pages), (3, 7));
    space.verify().expect("every invariant holds");
    free(&space, base, &offsets, &sizes).expect("it was made");
    assert_eq!((space.stats().busy_areas, space.stats().lazy_areas), (1, lazy_areas));
    // SAFETY: nothing uses the area.
    unsafe { space.raw().free(below) }.expect("busy");
    finish(&space);
}

#[test]
fn wrong_group_is_refused_whole() {
    let space = space(SpaceOptions::default());
    let (offsets, sizes) = ([0, 8 * PAGE, 16 * PAGE], [4 * PAGE, 4 * PAGE, 2 * PAGE]);
    let base = alloc(&space, &offsets, &sizes, PAGE).expect("room");
    let other = space.raw().reserve(&Request::new(PAGE)).expect("room");
    let before = space.vmallocinfo().to_string();
    let refused = |base: usize, offsets: &[usize], sizes: &[usize]| {
        let error = free(&space, base, offsets, sizes).expect_err("no such group");
        assert_eq!(space.vmallocinfo().to_string(), before, "{error}");
        space.verify().expect("every invariant holds");
        error
    };
    let addrs =
        |start, len| PageRange::from_len((base + start * PAGE) as u64, len * PAGE as u64).expect("not empty");
    let size = CongruentFreeError::Size { index: 2, asked: addrs(16, 3), area: addrs(16, 2) };
    assert_eq!(refused(base, &offsets, &[4 * PAGE, 4 * PAGE, 3 * PAGE]), size);
    let area = |index, cause| CongruentFreeError::Area { index, cause };
    assert_eq!(
        refused(base, &[0, 8 * PAGE, 17 * PAGE], &sizes),
        area(2, FreeError::Interior { addr: base + 17 * PAGE, start: base + 16 * PAGE })
    );
    assert_eq!(
        refused(base, &[0, 8 * PAGE, 20 * PAGE], &sizes),
        area(2, FreeError::NotAnArea { addr: base + 20 * PAGE })
    );
    let overlap = CongruentError::Overlap { first: 0, second: 1 };
    assert_eq!(refused(base, &[0, 0], &[4 * PAGE; 2]), overlap.into());
    assert_eq!(refused(base + 1, &[0], &[PAGE]), area(0, FreeError::Unaligned { addr: base + 1 }));
    let foreign = FreeError::WrongKind { addr: other };
    assert_eq!(refused(other, &[0], &[PAGE]), area(0, foreign));
    assert_eq!(
        refused(base, &[0], &[]),
        CongruentFreeError::Request(CongruentError::LengthsDiffer { offsets: 1, sizes: 0 })
    );
    // SAFETY: nothing is there.
    assert_eq!(unsafe { space.raw().free(base) }, Err(FreeError::WrongKind { addr: base }));

    free(&space, base, &offsets, &sizes).expect("it is whole");
    assert_eq!(free(&space, base, &offsets, &sizes), Err(area(0, FreeError::AlreadyFreed { addr: base })));
    // SAFETY: nothing uses the addresses any more.
    unsafe { space.raw().unreserve(other) }.expect("busy");
    finish(&space);
}

/// A group that may not wait takes what is free, and leaves what waits for a purge.
#[test]
fn a_group_that_may_not_wait_does_not_purge() {
    let space = space(SpaceOptions::default().unmap_on_free());
    // SAFETY: nothing uses the area.
    unsafe { space.raw().free(space.raw().alloc(&Request::new(0x3ff * PAGE)).expect("room")) }.expect("busy");
    let (offsets, sizes) = ([0, 8 * PAGE], [PAGE; 2]);
    let refused =
        CongruentAreas::try_new(&space, &offsets, &sizes, PAGE).map(|_| ()).expect_err("all is lazy");
    assert!(matches!(refused, CongruentError::NoSpace(_)), "{refused}");
    assert_eq!(space.stats().purges, 0);
    drop(CongruentAreas::new(&space, &offsets, &sizes, PAGE).expect("a purge makes room"));
    drop(CongruentAreas::try_new(&space, &offsets, &sizes, PAGE).expect("there is room"));
    finish(&space);
}

#[test]
fn wrong_requests_are_typed_errors() {
    let space = space(SpaceOptions::default());
    let refused = |offsets: &[usize], sizes: &[usize], align, want: CongruentError| {
        assert_eq!(alloc(&space, offsets, sizes, align), Err(want));
        assert_eq!(space.stats().busy_areas, 0);
    };
    refused(&[0, 100], &[1, 1], PAGE, CongruentError::OffsetNotPages { index: 1, offset: 100 });
    refused(&[0, 0], &[1, 1], PAGE, CongruentError::Overlap { first: 0, second: 1 });
    refused(&[0, PAGE], &[PAGE + 1, 1], PAGE, CongruentError::Overlap { first: 0, second: 1 });
    for size in [usize::MAX, isize::MAX as usize + 1] {
        refused(&[PAGE], &[size], PAGE, CongruentError::Overflow { index: 0 });
    }
    refused(&[usize::MAX & !(PAGE - 1)], &[PAGE], PAGE, CongruentError::Overflow { index: 0 });
    for align in [0, 3, PAGE + 1] {
        refused(&[0], &[1], align, CongruentError::AlignNotPowerOfTwo { align: align as u64 });
    }
    refused(&[0], &[1], PAGE / 2, CongruentError::AlignNotPages { align: PAGE as u64 / 2 });
    let error = alloc(&space, &[0, 0x300 * PAGE], &[PAGE, 0x101 * PAGE], PAGE).unwrap_err();
    let CongruentError::NoSpace(facts) = error else { panic!("{error}") };
    let pages = |pages: u64| pages * PAGE as u64;
    let told = (facts.areas, facts.size, facts.extent, facts.largest);
    assert_eq!(told, (2, pages(0x102), pages(0x401), pages(0x400)));
}

/// Frees an area that it holds, once.
struct Hoard(Mutex<Option<usize>>);

impl Notifier<Sim> for Hoard {
    fn make_room(self: Arc<Self>, space: &Space<Sim>, _: u64) -> u64 {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(addr) = held else { return 0 };
        // SAFETY: the hoard was the only user.
        unsafe { space.raw().free(addr) }.expect("busy");
        0x100
    }
}

#[test]
fn a_group_in_need_purges_and_asks_the_notifiers() {
    let space = space(SpaceOptions::default());
    let size = 0x3ff * PAGE;
    let addr = space.raw().alloc(&Request::new(size)).expect("all of the space");
    // SAFETY: nothing uses the area.
    unsafe { space.raw().free(addr) }.expect("busy");
    let base = alloc(&space, &[0], &[0x400 * PAGE], PAGE).expect("a purge makes room");
    free(&space, base, &[0], &[0x400 * PAGE]).expect("it was made");

    let addr = space.raw().alloc(&Request::new(size)).expect("all of the space");
    let notifier: Arc<dyn Notifier<Sim>> = Arc::new(Hoard(Mutex::new(Some(addr))));
    space.register_notifier(&notifier).unwrap();
    let base = alloc(&space, &[0], &[0x400 * PAGE], PAGE).expect("the notifier makes room");
    assert!(alloc(&space, &[0], &[PAGE], PAGE).is_err());
    free(&space, base, &[0], &[0x400 * PAGE]).expect("it was made");
    finish(&space);
}

#[test]
fn a_heap_that_fails_at_any_request_loses_nothing() {
    let offsets: Vec<usize> = (0..12).map(|index| index * 0x50 * PAGE).collect();
    let sizes = [2 * PAGE - 8; 12];
    let mut refused = 0;
    for nth in 1.. {
        let space = space(SpaceOptions::default());
        let ask = || alloc(&space, &offsets, &sizes, PAGE);
        let (result, demand) = heap::short_of(Due::Nth(nth), ask);
        space.verify().expect("every invariant holds");
        match result {
            Ok(base) => {
                heap::short_of(Due::From(1), || free(&space, base, &offsets, &sizes))
                    .0
                    .expect("a free needs no memory");
            }
            Err(error) => {
                assert_eq!(error, CongruentError::Metadata);
                assert_eq!(space.stats().busy_areas, 0, "request {nth}");
                refused += 1;
            }
        }
        finish(&space);
        if demand.refused == 0 {
            break;
        }
    }
    assert!(refused >= 3, "only {refused} requests mattered");
}

#[test]
fn group_at_taken_pages_is_refused_whole() {
    let space = space(SpaceOptions::default());
    let [first, second] = [0x200, 0x300].map(|page| PageRange::from_len(page, 4).expect("not empty"));
    space.raw().reserve_all([second].into_iter(), "other").expect("free");
    let refused = space.raw().reserve_all([first, second].into_iter(), TAG);
    assert_eq!(refused, Err(FitError::Occupied { asked: second, by: second }));
    let outside = PageRange::from_len(SPAN.1 - 1, 2).expect("not empty");
    assert!(space.raw().reserve_all([first, outside].into_iter(), TAG).is_err());
    assert_eq!((space.stats().busy_areas, space.find(0x200 * PAGE)), (1, None));
    // SAFETY: nothing uses the addresses any more.
    let free = |areas: &[PageRange], tag| unsafe { space.raw().unreserve_all(areas.iter().copied(), tag) };
    assert_eq!(free(&[second], TAG), Err((0, FreeError::WrongKind { addr: 0x300 * PAGE })));
    assert_eq!(free(&[second, first], "other"), Err((1, FreeError::NotAnArea { addr: 0x200 * PAGE })));
    assert_eq!((free(&[], TAG), free(&[second], "other")), (Ok(()), Ok(())));
    finish(&space);
}

#[test]
fn concurrent_free_of_a_group_succeeds_once() {
    let (offsets, sizes) = ([0, 8 * PAGE, 16 * PAGE], [4 * PAGE; 3]);
    let space = space(SpaceOptions::default());
    for _ in 0..200 {
        let base = alloc(&space, &offsets, &sizes, PAGE).expect("room");
        let freed = std::thread::scope(|scope| {
            let free = |_| scope.spawn(|| free(&space, base, &offsets, &sizes).is_ok());
            let threads: Vec<_> = (0..3).map(free).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|&freed| freed).count()
        });
        assert_eq!(freed, 1);
    }
    finish(&space);
}
