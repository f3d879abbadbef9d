//! Repairs in the child of a fork.

use crate::{Options, ShortMaps};
use vmalloc::{Config, PageRange, Space};

/// A fork leaves two threads behind: one has taken slots out of a window and not marked them, the
/// other has marked slots as returned and not counted them off. The child repairs both.
#[test]
fn slots_are_repaired_in_the_child_of_a_fork() {
    let span = PageRange::new(0x100, 0x200).unwrap();
    let machine = vmalloc_sim::Options::new(span).remaps_atomically().build();
    let space = Space::new(machine, Config::default()).unwrap();
    let short = ShortMaps::new(&space, Options::new()).unwrap();
    let [kept, returned] = [(); 2].map(|()| short.reserve(3).unwrap());
    space.quiesce();
    let page = (returned >> space.geometry().page_shift) as u64;
    let blocks = short.blocks();
    assert!(blocks.get(page).unwrap().give_run(page, 3), "returned, and never counted off");
    blocks.queues[0].0.windows[2].take(2).expect("taken, and never marked");
    // SAFETY: this is the only thread, and it has just called `quiesce`.
    unsafe { space.resume_in_child() };
    space.verify().unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { short.unreserve(kept, 3) }.unwrap();
    space.purge().unwrap();
    let stats = space.stats();
    assert_eq!((stats.tenant_areas, stats.largest_free_pages), (0, stats.span_pages));
}

/// A fork leaves a thread behind that has an area for a block and has not made it one. The child
/// gives it back.
#[test]
fn an_area_without_its_block_is_given_back_in_the_child_of_a_fork() {
    let span = PageRange::new(0x100, 0x400).unwrap();
    let space = Space::new(vmalloc_sim::Options::new(span).build(), Config::default()).unwrap();
    let short = ShortMaps::new(&space, Options::new().block_slots(64)).unwrap();
    let kept = short.reserve(1).unwrap();
    space.claim_for_tenant(64, 64, "vm_map_ram".into()).unwrap();
    assert_eq!(space.stats().busy_pages, 128);
    space.quiesce();
    // SAFETY: this is the only thread, and it has just called `quiesce`.
    unsafe { space.resume_in_child() };
    space.verify().unwrap();
    assert_eq!((space.stats().tenant_areas, space.stats().busy_pages), (1, 64));
    // SAFETY: nothing uses the address any more.
    unsafe { short.unreserve(kept, 1) }.unwrap();
}

/// Two references to the short mappings of a space are one tenant.
#[test]
fn short_mappings_of_a_space_are_found_again() {
    let span = PageRange::new(0x100, 0x400).unwrap();
    let space = Space::new(vmalloc_sim::Options::new(span).build(), Config::default()).unwrap();
    let addr = ShortMaps::of(&space).unwrap().reserve(5).unwrap();
    // SAFETY: nothing uses the addresses any more.
    unsafe { ShortMaps::of(&space).unwrap().unreserve(addr, 5) }.unwrap();
    assert_eq!(space.stats().tenant_areas_made, 1);
}
