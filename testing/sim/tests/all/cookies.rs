//! Cookies: the owner of an address, without a map beside the space's.

use crate::PAGE;
use vmalloc::{
    AllocError, Area, AreaError, FreeError, Kind, PageRange, Protection, Request, Space, SpaceOptions,
};
use vmalloc_sim::{Direct, Options, Sim};
use vmalloc_sim::{Due, heap};

fn space(space_options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::new(0x100, 0x900).expect("not empty");
    Space::new(Options::new(span).build(), space_options).expect("an empty space")
}

fn cookie<P: vmalloc::Platform>(space: &Space<P>, addr: usize) -> Option<u64> {
    let found = space.find(addr).map(|area| area.cookie);
    assert_eq!(space.try_find(addr).map(|area| area.map(|area| area.cookie)), Ok(found));
    found
}

#[test]
fn every_address_of_an_area_tells_the_cookie_of_its_owner() {
    for space_options in [
        SpaceOptions::default(),
        SpaceOptions::default().unmap_on_free(),
        SpaceOptions::default().guard(false),
    ] {
        let space = space(space_options);
        let request = |number: u64| Request::new((1 + number as usize % 5) * PAGE).cookie(number);
        let areas: Vec<_> = (1..200)
            .map(|number| {
                let request = if number % 3 == 0 { request(number).tag("tagged") } else { request(number) };
                match number % 2 {
                    0 => (number, space.raw().alloc(&request).expect("room")),
                    _ => (number, space.raw().reserve(&request).expect("room")),
                }
            })
            .collect();
        for &(number, addr) in &areas {
            let area = space.find(addr).expect("busy");
            assert_eq!(area.tag.is_some(), number % 3 == 0);
            for at in [addr, addr + 1, addr + area.bytes / 2, addr + area.bytes - 1] {
                assert_eq!(cookie(&space, at), Some(number));
            }
        }
        space.verify().expect("every invariant holds");
        for (number, addr) in areas {
            // SAFETY: nothing uses the area.
            let info = unsafe { space.raw().remove(addr) }.expect("busy");
            assert_eq!(info.cookie, number);
        }
        // The next owner of the addresses has its own.
        let next = space.raw().alloc(&Request::new(PAGE)).expect("room");
        assert_eq!(cookie(&space, next), Some(0));
        space.verify().expect("every invariant holds");
    }
}

#[test]
fn a_cookie_changes_and_stays_with_its_area_through_resizes() {
    let space = Space::new(Direct::new(64, |options| options), SpaceOptions::default().guard(false))
        .expect("an empty space");
    let raw = space.raw();
    // SAFETY: the area is this test's.
    let set = |addr, cookie| unsafe { raw.set_cookie(addr, cookie) }.expect("memory");
    let addr = raw.alloc(&Request::new(2 * PAGE)).expect("room");
    for number in [1, u64::MAX, 0, 7] {
        set(addr, number);
        assert_eq!(cookie(&space, addr + PAGE), Some(number));
        space.verify().expect("every invariant holds");
    }
    // SAFETY: the area is this test's, and nothing uses it.
    let resized =
        |addr, pages: usize| unsafe { raw.realloc(addr, &Request::new(pages * PAGE)) }.expect("room");
    let grown = resized(addr, 4);
    let behind = raw.alloc(&Request::new(PAGE)).expect("room");
    let moved = resized(grown, 9);
    let shrunk = resized(moved, 3);
    assert_eq!((cookie(&space, shrunk + 2 * PAGE), cookie(&space, behind)), (Some(7), Some(0)));
    assert_ne!(grown, moved);
    space.verify().expect("every invariant holds");
    [shrunk, behind].into_iter().for_each(|addr| {
        // SAFETY: nothing uses the area.
        unsafe { raw.free(addr) }.expect("busy");
    });
}

#[test]
fn areas_of_every_kind_take_a_cookie_and_other_addresses_do_not() {
    let space = space(SpaceOptions::default());
    let mut frames = [vmalloc::Frame(0); 2];
    vmalloc::FrameSupply::take_frames(space.platform(), &mut frames).expect("frames");
    let raw = space.raw();
    let code = raw.alloc_exec(&Request::new(PAGE).cookie(1)).expect("room");
    let shared = raw.alloc_shared(&Request::new(PAGE).cookie(2)).expect("room");
    let mapping = raw.map(&frames, Protection::ReadWrite, Some("frames")).expect("room");
    // SAFETY: the area, where one is, is this test's.
    let set = |addr, cookie| unsafe { raw.set_cookie(addr, cookie) };
    set(mapping, 3).expect("memory");
    let found = [code, shared, mapping].map(|addr| space.find(addr).map(|area| (area.kind, area.cookie)));
    assert_eq!(found, [Some((Kind::Exec, 1)), Some((Kind::Shared, 2)), Some((Kind::Vmap, 3))]);
    let interior = FreeError::Interior { addr: mapping + PAGE, start: mapping };
    assert_eq!(set(mapping + PAGE, 4), Err(interior.into()));
    assert_eq!(set(mapping + 1, 4), Err(FreeError::Unaligned { addr: mapping + 1 }.into()));
    assert_eq!(set(0x800 * PAGE, 4), Err(FreeError::NotAnArea { addr: 0x800 * PAGE }.into()));

    let mut area = Area::new(&space, &Request::new(PAGE)).expect("room");
    let (short, _) = heap::short_of(Due::From(1), || area.set_cookie(5));
    assert_eq!(short, Err(AreaError::from(AllocError::Metadata)));
    assert_eq!(cookie(&space, area.addr()), Some(0));
    area.set_cookie(6).expect("memory");
    assert_eq!(cookie(&space, area.addr()), Some(6));
    space.verify().expect("every invariant holds");
}
