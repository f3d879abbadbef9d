//! Repairs in the child of a fork, and several short mappings of one space.

use crate::{ShortMaps, UnmapError};
use std::vec::Vec;
use vmalloc::{FreeError, PageRange, Space, SpaceOptions};
use vmalloc_sim::Point;

/// Slots of a block: Miri has blocks of up to 16, and mappings of up to 4 pages.
const SLOTS: u64 = if cfg!(miri) { 8 } else { 64 };
/// Pages of a mapping, and the order of their slots.
const PAGES: u64 = if cfg!(miri) { 1 } else { 3 };
const ORDER: usize = PAGES.next_power_of_two().trailing_zeros() as usize;

/// A fork leaves two threads behind: one has taken slots out of a window and not marked them, the
/// other has marked slots as returned and not counted them off. The child repairs both.
#[test]
fn slots_are_repaired_in_the_child_of_a_fork() {
    let span = PageRange::new(0x100, 0x200).unwrap();
    let machine = vmalloc_sim::Options::new(span).remaps_atomically().build();
    let space = Space::new(machine, SpaceOptions::default()).unwrap();
    let short = ShortMaps::new(&space).unwrap();
    let [kept, returned] = [(); 2].map(|()| short.reserve(PAGES).unwrap());
    space.quiesce();
    let page = (returned >> space.geometry().page_shift) as u64;
    let blocks = short.blocks();
    assert!(blocks.get(page).unwrap().give_run(page, PAGES), "returned, and never counted off");
    blocks.queues[0].0.windows[ORDER].take(ORDER).expect("taken, and never marked");
    // SAFETY: this is the only thread, and it has just called `quiesce`.
    unsafe { space.resume_in_child() };
    space.verify().unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { short.unreserve(kept, PAGES) }.unwrap();
    space.purge().unwrap();
    let stats = space.stats();
    assert_eq!((stats.tenant_areas, stats.largest_free_pages), (0, stats.span_pages));
}

/// A fork leaves a thread behind that has an area for a block and has not made it one. The child
/// gives it back.
#[test]
fn an_area_without_its_block_is_given_back_in_the_child_of_a_fork() {
    let span = PageRange::new(0x100, 0x400).unwrap();
    let space = Space::new(vmalloc_sim::Options::new(span).build(), SpaceOptions::default()).unwrap();
    let short = ShortMaps::with_block_slots(&space, SLOTS).unwrap();
    let kept = short.reserve(1).unwrap();
    space.raw().claim_for_tenant(SLOTS, SLOTS, "vm_map_ram".into()).unwrap();
    assert_eq!(space.stats().busy_pages, 2 * SLOTS);
    space.quiesce();
    // SAFETY: this is the only thread, and it has just called `quiesce`.
    unsafe { space.resume_in_child() };
    space.verify().unwrap();
    assert_eq!((space.stats().tenant_areas, space.stats().busy_pages), (1, SLOTS));
    // SAFETY: nothing uses the address any more.
    unsafe { short.unreserve(kept, 1) }.unwrap();
}

/// Two references to the short mappings of a space are one tenant.
#[test]
fn short_mappings_of_a_space_are_found_again() {
    let span = PageRange::new(0x100, 0x400).unwrap();
    let space = Space::new(vmalloc_sim::Options::new(span).build(), SpaceOptions::default()).unwrap();
    let addr = ShortMaps::of(&space).unwrap().reserve(PAGES).unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { ShortMaps::of(&space).unwrap().unreserve(addr, PAGES) }.unwrap();
    assert_eq!(space.stats().tenant_areas_made, 1);
}

/// Short mappings that were made twice are two tenants: a purge flushes what either got back, what
/// the machine refuses stays with its own, and a child of a fork goes on with that.
#[test]
fn two_tenants_share_a_purge() {
    let span = PageRange::new(0x100, 0x400).unwrap();
    let machine = vmalloc_sim::Options::new(span).frames(16).build();
    let space = Space::new(machine, SpaceOptions::default().unmap_on_free()).unwrap();
    let both = [SLOTS, 2 * SLOTS].map(|slots| ShortMaps::with_block_slots(&space, slots).unwrap());
    let frames = space.frames(2).unwrap();
    let map = |short: &ShortMaps<_>| {
        let addr = short.map(&frames).unwrap();
        let page = (addr >> space.geometry().page_shift) as u64;
        space.platform().prefetch(0, PageRange::new(page, page + 2).unwrap());
        (addr, page)
    };
    let mapped: Vec<_> = both.iter().map(map).collect();
    assert_eq!(space.stats().tenant_areas, 2);
    for (short, (addr, _)) in both.iter().rev().zip(&mapped) {
        // SAFETY: it is refused.
        let refused = unsafe { short.unmap(*addr, 2) };
        let not_its_own = [FreeError::WrongKind { addr: *addr }, FreeError::NotAnArea { addr: *addr }];
        let not_its_own = not_its_own.map(UnmapError::Free);
        assert!(not_its_own.contains(&refused.unwrap_err()), "it is the other's");
    }
    let refused = PageRange::new(mapped[1].1, mapped[1].1 + 1).unwrap();
    space.platform().refuse(Point::Unmap, refused);
    for (short, (addr, _)) in both.iter().zip(&mapped) {
        // SAFETY: nothing uses the mapping any more.
        unsafe { short.unmap(*addr, 2) }.unwrap();
    }
    assert!(space.purge().is_err());
    space.verify().unwrap();
    let counts = both.each_ref().map(|short| short.counts().areas);
    assert_eq!((counts, space.stats().refused_parts), ([0, 1], 1));
    space.quiesce();
    // SAFETY: this is the only thread, and it has just called `quiesce`.
    unsafe { space.resume_in_child() };
    assert_eq!((space.stats().refused_parts, space.stats().lazy_pages), (0, 2 * SLOTS));
    space.platform().relent();
    space.purge().unwrap();
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!((stats.tenant_areas, stats.largest_free_pages), (0, stats.span_pages));
    assert_eq!((space.platform().audit(), space.platform().faults()), (Vec::new(), Vec::new()));
}
