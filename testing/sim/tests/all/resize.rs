//! Areas that get another size: what they keep, and where they go.

#![allow(unsafe_code)]

use crate::between_locks::OneThread;
use crate::{PAGE, alloc, free};
use std::collections::BTreeSet;
use vmalloc::{AllocError, AreaError, Fit, Policy, Raw, Request, Resize, Space, SpaceOptions};
use vmalloc_sim::harness::{Simulated, check};
use vmalloc_sim::{Direct, Options, Sim};

const SHIFT: u32 = Sim::PAGE_SHIFT;
const POLICIES: [Policy; 3] = [Policy::Lowest, Policy::Highest, Policy::Random { seed: 7 }];

fn space(options: SpaceOptions) -> Space<Direct> {
    let machine = Direct::new(1 << 13, |options| options.cpus(1).huge_order(4).relocates());
    Space::new(machine, options).expect("an empty space")
}

fn realloc(space: &Space<Direct>, addr: usize, resize: &Resize) -> Result<usize, AreaError> {
    // SAFETY: the area is the test's, which goes by the address that is returned.
    unsafe { space.raw().realloc(addr, resize) }
}

/// Returns the page of an address, counted from the start of the span.
fn page(space: &Space<Direct>, addr: usize) -> u64 {
    (addr >> SHIFT) as u64 - space.geometry().span.start()
}

/// Takes the addresses right behind an area, if they are there and free, so that it moves when it
/// grows.
fn block(space: &Space<Direct>, addr: usize) {
    let area = space.find(addr).expect("it is there");
    let end = addr + area.bytes + usize::from(area.guard) * PAGE;
    let request = Request::new(1).guard(false).within(end, end + PAGE);
    let _ = space.raw().reserve(&request);
}

/// Makes holes of several sizes.
fn with_holes(options: SpaceOptions) -> Space<Direct> {
    let machine = Direct::new(1 << 13, |options| options.cpus(1).relocates());
    let space = Space::new(machine, options.cache_bytes(0)).expect("an empty space");
    let request = |pages: usize| Request::new(pages * PAGE).policy(Policy::Lowest);
    let areas = (0..40).map(|nth| space.raw().alloc(&request(20 + nth * 7 % 90)).expect("room"));
    areas.collect::<Vec<_>>().into_iter().step_by(2).for_each(|addr| free(&space, addr));
    space.purge().expect("nothing fails");
    space
}

/// Where an area goes is one law, be it that it is allocated or that it moves: that of its policy.
/// A move looks for as much room again, so that it can grow in place the next time.
#[test]
fn areas_move_by_the_policy_that_places_them() {
    for of_space in [true, false] {
        for policy in POLICIES {
            let options = SpaceOptions::default();
            let space = with_holes(if of_space { options.policy(policy) } else { options });
            let request = Request::new(9 * PAGE);
            let request = if of_space { request } else { request.policy(policy) };
            let place = |pages: u64| space.place_for(&Fit::new(pages).policy(policy)).expect("room").start();
            let is_random = matches!(policy, Policy::Random { .. });
            let wanted = place(10);
            let addr = space.raw().alloc(&request).expect("room");
            assert!(is_random || (addr >> SHIFT) as u64 == wanted, "{policy:?}: {wanted:x} {addr:x}");
            let mut places = BTreeSet::from([page(&space, addr)]);
            let (mut addr, mut pages) = (addr, 9);
            for _ in 0..4 {
                block(&space, addr);
                pages += 6;
                let wanted = place(2 * (pages + 1));
                let moved = realloc(&space, addr, &Resize::new(pages as usize * PAGE)).expect("room");
                assert_ne!(moved, addr, "the addresses behind it are taken");
                assert!(is_random || (moved >> SHIFT) as u64 == wanted, "{policy:?}: {wanted:x} {moved:x}");
                places.insert(page(&space, moved));
                addr = moved;
            }
            let gaps: BTreeSet<u64> = places.iter().zip(places.iter().skip(1)).map(|(a, b)| b - a).collect();
            assert!(!is_random || gaps.len() > 3, "{places:?} are no random places");
            check(&space);
        }
    }
}

/// An area near an address lies at the nearest place of the map, and moves to the nearest.
#[test]
fn areas_near_an_address_move_near_it() {
    let space = with_holes(SpaceOptions::default());
    let caller = ((space.geometry().span.start() as usize + 700) << SHIFT) + 5;
    let nearest = |pages: u64| {
        let fit = Fit::new(pages).near((caller >> SHIFT) as u64);
        (space.place_for(&fit).expect("room").start() as usize) << SHIFT
    };
    let wanted = nearest(10);
    let addr = space.raw().alloc(&Request::new(9 * PAGE).near(caller)).expect("room");
    assert_eq!(addr, wanted);
    assert!(caller.abs_diff(addr) < 200 * PAGE, "{addr:#x} is no neighbour of {caller:#x}");
    block(&space, addr);
    let wanted = nearest(32);
    assert_eq!(realloc(&space, addr, &Resize::new(15 * PAGE)).expect("room"), wanted);
    check(&space);
}

/// An area stays inside its limits, its guard page too, in place and when it moves. What an
/// allocation there is refused, a resize is refused as well.
#[test]
fn areas_stay_inside_their_limits() {
    for policy in POLICIES {
        let space = space(SpaceOptions::default().cache_bytes(0).policy(policy));
        let base = (space.geometry().span.start() as usize) << SHIFT;
        let (start, end) = (base + 1000 * PAGE, base + 1064 * PAGE);
        let request = |pages: usize| Request::new(pages * PAGE).within(start, end);
        let addr = space.raw().alloc(&request(8)).expect("room");
        let inside = |addr: usize, pages: usize| start <= addr && addr + (pages + 1) * PAGE <= end;
        assert!(inside(addr, 8));
        for pages in [100, 64] {
            let alloc = space.raw().alloc(&request(pages)).map(|_| ());
            let Err(AllocError::NoSpace(wanted)) = alloc else { panic!("{alloc:?}") };
            let refused = realloc(&space, addr, &Resize::new(pages * PAGE));
            let Err(AreaError::Alloc(AllocError::NoSpace(told))) = refused else { panic!("{refused:?}") };
            assert_eq!((told.size, told.within), (wanted.size, wanted.within));
            // SAFETY: the area is the test's.
            assert!(unsafe { space.raw().grow_in_place(addr, (end - addr) + PAGE) }.is_err());
            assert_eq!(space.find(addr).map(|area| area.pages), Some(8));
        }
        // In place as far as there is room, or moved.
        let grown = realloc(&space, addr, &Resize::new(20 * PAGE)).expect("the limits have room");
        assert!(inside(grown, 20), "{policy:?}: {grown:#x}");
        let smaller = realloc(&space, grown, &Resize::new(3 * PAGE).align(16 * PAGE)).expect("room");
        assert!(inside(smaller, 3) && smaller.is_multiple_of(16 * PAGE));
        free(&space, smaller);
        check(&space);
    }
}

/// Guard, tag and record are the area's, whether it stays, grows, shrinks, moves or is copied.
#[test]
fn what_an_area_has_stays() {
    for guards in [true, false] {
        for guard in [true, false] {
            let space = space(SpaceOptions::default().guard(guards).cache_bytes(1 << 20));
            let request = Request::new(8 * PAGE).guard(guard).tag("a tag").record(9);
            let mut addr = space.raw().alloc(&request).expect("room");
            let has_guard = guards && guard;
            for pages in [8, 9, 30, 3, 1, 1, 200, 5] {
                if pages == 30 {
                    block(&space, addr);
                }
                addr = realloc(&space, addr, &Resize::new(pages * PAGE)).expect("room");
                let area = space.find(addr).expect("it is there");
                let kept = (area.guard, area.tag.map(|it| it.to_string()), area.record);
                assert_eq!(kept, (has_guard, Some("a tag".to_owned()), 9));
                assert!(area.bytes >= pages * PAGE);
                let first = (addr >> SHIFT) as u64;
                let traps = |page| space.platform().machine().read(0, first + page).is_err();
                assert!((0..area.pages).all(|page| !traps(page)), "a page of {area:?} traps");
                assert!(!has_guard || traps(area.pages), "its guard page is mapped");
            }
            free(&space, addr);
            check(&space);
        }
    }
}

/// An area on huge pages stays on them: it begins at one when it moves, and grows by them. A large
/// area begins at one, whichever call makes it.
#[test]
fn areas_begin_at_huge_pages_when_they_move() {
    const HUGE: usize = 16 * PAGE;
    for is_huge in [true, false] {
        let space = space(SpaceOptions::default().cache_bytes(0));
        let _first = alloc(&space, 1);
        let request = Request::new(2 * HUGE);
        let mut addr = space.raw().alloc(&if is_huge { request.huge() } else { request }).expect("room");
        for times in [3, 5, 9] {
            block(&space, addr);
            let before = space.platform().sim().counts().huge_pages;
            addr = realloc(&space, addr, &Resize::new(times * HUGE)).expect("room");
            assert_eq!(addr % HUGE, 0, "{addr:#x} is inside a huge page");
            assert_eq!(space.platform().sim().counts().huge_pages > before, is_huge);
        }
        let _rest = alloc(&space, 1);
        check(&space);
    }
}

/// Huge pages that are asked for count for each kind of area.
#[test]
fn every_call_heeds_huge_pages() {
    let span = vmalloc::PageRange::new(0x101, 0x1000).expect("not empty");
    let machine = Options::new(span).cpus(1).frames(1 << 12).huge_order(4).build();
    let space = Space::new(machine, SpaceOptions::default()).expect("an empty space");
    for call in [Raw::alloc, Raw::alloc_shared, Raw::alloc_exec, Raw::reserve] {
        let _odd = [(); 3].map(|()| alloc(&space, 1));
        let addr = call(&space.raw(), &Request::new(20 * PAGE).huge()).expect("room");
        assert_eq!(addr % (16 * PAGE), 0, "{addr:#x} is inside a huge page");
    }
}

/// An area near an address is near for each kind of area, also for those that else lie high.
#[test]
fn every_call_heeds_the_address_to_be_near() {
    let span = vmalloc::PageRange::new(0x101, 0x1000).expect("not empty");
    let machine = Options::new(span).cpus(1).frames(1 << 12).build();
    let space = Space::new(machine, SpaceOptions::default()).expect("an empty space");
    let caller = 0x400 * PAGE;
    for call in [Raw::alloc, Raw::alloc_shared, Raw::alloc_exec, Raw::reserve] {
        let addr = call(&space.raw(), &Request::new(PAGE).near(caller)).expect("room");
        assert!(addr.abs_diff(caller) < 8 * PAGE, "{addr:#x} is far from {caller:#x}");
    }
}

/// An area that is too small for a huge page is plain, and so served by what waits.
#[test]
fn small_areas_on_huge_pages_are_plain() {
    let space = space(SpaceOptions::default().cache_bytes(1 << 20));
    let addr = alloc(&space, 3);
    free(&space, addr);
    let maps = space.platform().sim().counts().maps;
    assert_eq!(space.raw().alloc(&Request::new(3 * PAGE).huge()), Ok(addr));
    assert_eq!(space.platform().sim().counts().maps, maps);
}

/// Where memory of the new size waits, an area that grows much is copied to it: nothing is mapped.
/// An area that grows little stays or moves.
#[test]
fn areas_that_grow_much_use_memory_that_waits() {
    for pages in [2, 40, 300] {
        let space = space(SpaceOptions::default().cache_bytes(16 << 20).cached_beside(|_| 4096));
        let (small, large) = (alloc(&space, pages), alloc(&space, 2 * pages));
        let memory = core::ptr::with_exposed_provenance_mut::<u8>(small);
        // SAFETY: the area is the test's, and mapped.
        unsafe { memory.write_bytes(7, pages * PAGE) };
        free(&space, large);
        let taken = space.platform().sim().taken_frames().len();
        let resize = Resize::new(2 * pages * PAGE).zeroed();
        assert_eq!(realloc(&space, small, &resize), Ok(large));
        assert_eq!(space.platform().sim().taken_frames().len(), taken, "nothing is new");
        // SAFETY: as above.
        let bytes = unsafe { core::slice::from_raw_parts(memory.with_addr(large), 2 * pages * PAGE) };
        assert!(bytes[..pages * PAGE].iter().all(|&byte| byte == 7), "the content goes along");
        assert!(bytes[pages * PAGE..].iter().all(|&byte| byte == 0), "what is new is zero");
        check(&space);
    }
    let space = space(SpaceOptions::default().cache_bytes(16 << 20).cached_beside(|_| 4096));
    let (area, large) = (alloc(&space, 300), alloc(&space, 310));
    block(&space, area);
    free(&space, large);
    assert_ne!(realloc(&space, area, &Resize::new(310 * PAGE)), Ok(large));
    check(&space);
}

/// A resize that may not wait does not wait for a purge under way: it grows, or moves, or keeps the
/// pages that it would give back.
#[test]
fn a_resize_that_may_not_wait_goes_on_beside_a_purge() {
    let machine = Direct::<OneThread>::new_with(1 << 12, |options| options.cpus(1).relocates());
    let space = Space::new(machine, SpaceOptions::default()).expect("an empty space");
    let request = Request::new(50 * PAGE);
    let addrs = [(); 3].map(|()| space.raw().alloc(&request).expect("room"));
    // Nothing waits that a purge could give back.
    space.purge().expect("nothing fails");
    let mut looks = 0;
    let found = space.until_room(1, || {
        looks += 1;
        // The last look is one with the purger held.
        let sizes = [20, 60, 300];
        let done = addrs.iter().zip(sizes).map(|(&addr, pages)| {
            let resize = Resize::new(pages * PAGE).may_block(false);
            // SAFETY: the area is the test's, which goes by the address that is returned.
            unsafe { space.raw().realloc(addr, &resize) }
        });
        if looks == 1 { None } else { Some(done.collect::<Vec<_>>()) }
    });
    let done = found.expect("there is a second look");
    let pages = |addr: &Result<usize, AreaError>| {
        space.find(*addr.as_ref().expect("it need not wait")).map(|area| area.pages)
    };
    assert_eq!(done.iter().map(pages).collect::<Vec<_>>(), [Some(50), Some(60), Some(300)]);
    // Then it is done.
    // SAFETY: as above.
    let shrunk = unsafe { space.raw().realloc(addrs[0], &Resize::new(20 * PAGE).may_block(false)) };
    assert_eq!((shrunk.as_ref().ok(), pages(&shrunk)), (Some(&addrs[0]), Some(20)));
    space.verify().expect("every invariant holds");
}
