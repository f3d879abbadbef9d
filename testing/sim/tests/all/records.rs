//! Records: a word of its owner's for each area; and frees in which the owner unmaps.

#![allow(unsafe_code)]

use crate::{PAGE, free};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vmalloc::{AllocError, FreeError, Kind, PageRange, Request, RequestError, Resize, Space, SpaceOptions};
use vmalloc_sim::harness::{check, check_whole};
use vmalloc_sim::heap::{self};
use vmalloc_sim::{Direct, Due, Options, Sim};

/// The page of an area far from all others: its leaf is found by the map alone.
const FAR: usize = 0x1000 + (1 << 24);

fn space(options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::from_len(0x1000, 1 << 26).expect("not empty");
    Space::new(Options::new(span).cpus(1).build(), options).expect("an empty space")
}

fn designs() -> [SpaceOptions; 4] {
    let options = SpaceOptions::default();
    [options, options.unmap_on_free(), options.zero_on_free(true), options.trap_on_free(true)]
}

/// A way to make an area.
type Make = fn(&Space<Sim>, Request) -> Result<usize, AllocError>;

/// Areas of all kinds, near and far, with tags and without.
fn all_areas() -> Vec<(Make, Request, Kind)> {
    let request = Request::new(3 * PAGE);
    let requests = [
        request,
        request.guard(false),
        request.tag("named"),
        request.within(FAR * PAGE, (FAR + 256) * PAGE),
        Request::new(300 * PAGE).align(64 * PAGE),
        request.zeroed(),
    ];
    let alloc: Make = |space, request| space.raw().alloc(&request);
    let reserve: Make = |space, request| space.raw().reserve(&request);
    let alike = |make: Make, kind| requests.map(|request| (make, request, kind));
    [alike(alloc, Kind::Vmalloc), alike(reserve, Kind::Reserved)].concat()
}

/// Every area is found with its own record by each address inside, by walks, and when it is
/// removed; and the next one at its place has none.
#[test]
fn each_area_has_its_own_record_and_leaves_none_behind() {
    for options in designs() {
        let space = space(options);
        for (make, request, kind) in all_areas() {
            for record in [1, u64::MAX, 0x1_0000_0000] {
                let plain = make(&space, request).expect("there is room");
                let addr = make(&space, request.record(record)).expect("there is room");
                let info = space.find(addr + 2 * PAGE + 5).expect("it is there");
                assert_eq!((info.addr, info.record, info.kind, info.tag), (addr, record, kind, info.tag));
                assert_eq!(space.try_find(addr), Ok(Some(info)));
                assert_eq!(space.find(plain).map(|area| area.record), Some(0));
                let walked = space.areas().filter(|area| area.record != 0).collect::<Vec<_>>();
                assert_eq!(walked, [info]);
                check(&space);
                // SAFETY: the areas are the test's.
                unsafe {
                    space.raw().set_record(addr, 7).expect("it has a place");
                    let removed = space.raw().remove(addr).expect("it is busy");
                    assert_eq!((removed.record, removed.addr), (7, addr));
                    space.raw().remove(plain).expect("it is busy");
                }
                let again = make(&space, request).expect("there is room");
                assert_eq!(space.find(again).map(|area| area.record), Some(0));
                // SAFETY: as above.
                unsafe { space.raw().remove(again) }.expect("it is busy");
            }
        }
        check_whole(&space);
    }
}

/// A record of 0 stands for none, and a request for one is refused.
#[test]
fn a_record_of_zero_is_refused() {
    let space = space(SpaceOptions::default());
    for (make, request, _) in all_areas() {
        assert_eq!(make(&space, request.record(0)), Err(RequestError::ZeroRecord.into()));
    }
    check_whole(&space);
}

/// An area keeps its record where it grows, shrinks and moves.
#[test]
fn a_record_goes_along() {
    let machine = Direct::new(1 << 12, |options| options.cpus(1).relocates());
    let space = Space::new(machine, SpaceOptions::default()).expect("an empty space");
    let mut addr = space.raw().alloc(&Request::new(PAGE).record(9)).expect("there is room");
    for pages in [2, 700, 701, 3, 1] {
        // SAFETY: the area is the test's, which goes by the address that is returned.
        addr = unsafe { space.raw().realloc(addr, &Resize::new(pages * PAGE)) }.expect("there is room");
        assert_eq!(space.find(addr + PAGE - 1).map(|area| (area.addr, area.record)), Some((addr, 9)));
    }
    free(&space, addr);
    space.verify().expect("no violation");
}

/// Where memory for a record is short, nothing is changed and nothing is lost.
#[test]
fn records_without_memory_change_nothing() {
    for options in designs() {
        for (make, request, _) in all_areas() {
            let space = space(options);
            // The pages that the leaf, the tree and the lists need.
            let first = make(&space, request).expect("there is room");
            // SAFETY: the area is the test's.
            unsafe { space.raw().remove(first) }.expect("it is busy");
            let (made, _) = heap::short_of(Due::From(1), || make(&space, request.record(5)));
            check(&space);
            match made {
                Ok(addr) => {
                    assert_eq!(space.find(addr).map(|area| area.record), Some(5));
                    // SAFETY: as above.
                    unsafe { space.raw().remove(addr) }.expect("it is busy");
                }
                Err(error) => assert_eq!(error, AllocError::Metadata),
            }
            let addr = make(&space, request).expect("there is room");
            // SAFETY: as above.
            let (set, _) = heap::short_of(Due::From(1), || unsafe { space.raw().set_record(addr, 6) });
            assert_eq!(space.find(addr).map(|area| area.record), Some(if set.is_ok() { 6 } else { 0 }));
            // SAFETY: as above.
            unsafe { space.raw().remove(addr) }.expect("it is busy");
            check_whole(&space);
        }
    }
}

/// The answer of an owner in `free_with`.
#[derive(Debug, PartialEq)]
enum Answer {
    Free(FreeError),
    Mine,
}

impl From<FreeError> for Answer {
    fn from(error: FreeError) -> Self {
        Self::Free(error)
    }
}

/// The owner unmaps with the record at hand. If that fails, or panics, the area stays as it was.
#[test]
fn an_owner_unmaps_what_it_frees() {
    for options in designs() {
        let space = space(options);
        for (make, request, _) in all_areas() {
            let addr = make(&space, request.record(11)).expect("there is room");
            let info = space.find(addr).expect("it is there");
            let free_with = |answer: fn() -> Result<u64, Answer>| {
                let unmap = |area: &vmalloc::AreaInfo| {
                    assert_eq!(*area, info);
                    assert_eq!(space.find(addr), None, "it is on its way");
                    answer()
                };
                // SAFETY: nothing uses the area any more.
                unsafe { space.raw().free_with(addr, unmap) }
            };
            assert_eq!(free_with(|| Err(Answer::Mine)), Err(Answer::Mine));
            assert_eq!(space.find(addr), Some(info));
            catch_unwind(AssertUnwindSafe(|| free_with(|| panic!("in the middle")))).expect_err("it panics");
            assert_eq!(space.find(addr), Some(info));
            check(&space);
            assert_eq!(free_with(|| Ok(5)), Ok(5));
            let again = free_with(|| Ok(6)).expect_err("it is freed");
            assert!(matches!(
                again,
                Answer::Free(FreeError::AlreadyFreed { .. } | FreeError::NotAnArea { .. })
            ));
            space.purge().expect("nothing fails");
        }
        check_whole(&space);
    }
}
