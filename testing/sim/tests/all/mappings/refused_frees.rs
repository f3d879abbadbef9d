//! Frees that are wrong: each has its error, and changes nothing.

use crate::mappings::everything::*;
use crate::mappings::support::{PAGE, fill, give, page, shows, unchanged, unmap_ram, with_blocks};
use vmalloc::{FreeError, Kind, Protection, Request, Space};
use vmalloc_sim::Sim;

const RW: Protection = Protection::ReadWrite;

#[test]
fn an_area_is_freed_by_its_own_call_only() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let slot_block = space.find(all.addr(SLOT)).expect("a block").addr;
        for (name, free, own) in FREES {
            let others = all.but(own);
            let starts =
                others.into_iter().filter(|&addr| space.find(addr).is_some_and(|area| area.addr == addr));
            for addr in starts.chain([all.base, all.base + OFFSETS[1], slot_block]) {
                let refused = unchanged(space, || free(space, addr));
                assert_eq!(refused, Err(FreeError::WrongKind { page: page(addr) }), "{name} at {addr:#x}");
            }
        }
        all.end(space);
    });
}

#[test]
fn free_of_an_interior_address_is_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (name, free, _) in FREES {
            for addr in nowhere(space, &all) {
                let refused = unchanged(space, || free(space, addr));
                let kind = space.find(addr).map(|area| (area.kind, area.addr == addr));
                let is_right = match refused {
                    Err(FreeError::Unaligned { .. }) => kind.is_some() && !addr.is_multiple_of(PAGE),
                    Err(FreeError::NotAnArea { .. }) => kind.is_none(),
                    Err(FreeError::Interior { start, .. }) => {
                        space.find(addr).is_some_and(|area| page(area.addr) == start)
                    }
                    // A block that begins where its second slot would be an area.
                    Err(FreeError::WrongKind { .. }) => kind.is_some_and(|(_, starts)| starts),
                    _ => false,
                };
                assert!(is_right, "{name} at {addr:#x}: {refused:?}");
            }
        }
        all.end(space);
    });
}

#[test]
fn double_free_is_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (free, kind) in
            [(FREES[0].1, Kind::Vmalloc), (FREES[1].1, Kind::Vmap), (FREES[2].1, Kind::Sparse)]
        {
            let addr = match kind {
                Kind::Vmalloc => space.raw().alloc(&Request::new(PAGE)).expect("room"),
                Kind::Vmap => space.raw().map(all.spare(), RW, None).expect("room"),
                _ => space.raw().alloc_sparse(&Request::new(PAGE)).expect("room"),
            };
            free(space, addr).expect("busy");
            let again = unchanged(space, || free(space, addr));
            assert!(
                matches!(again, Err(FreeError::AlreadyFreed { .. } | FreeError::NotAnArea { .. })),
                "{again:?}"
            );
            space.purge().expect("nothing fails");
            assert!(free(space, addr).is_err());
        }
        all.end(space);
    });
}

fn unmap(space: &Space<Sim>, addr: usize, count: usize) -> Result<(), FreeError> {
    // SAFETY: the frames are the test's.
    unsafe { space.raw().unmap_short(addr, count) }
}

#[test]
fn unmap_short_with_a_wrong_count_is_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (which, mapped) in [(SLOT, 4), (LARGE, 67)] {
            let addr = all.addr(which);
            for given in [0, 1, 3, 5, 63, 64, 65, 66, 68, 128, 132, 195, 260, 1 << 20, usize::MAX] {
                let refused = unchanged(space, || unmap(space, addr, given));
                let wrong = FreeError::WrongCount { page: page(addr), mapped, given: given as u64 };
                assert_eq!(refused, Err(wrong), "{given} pages");
            }
        }
        all.end(space);
    });
}

#[test]
fn unmap_short_inside_a_run_is_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for addr in [all.addr(SLOT) + PAGE, all.addr(SLOT) + 3 * PAGE] {
            for count in [1, 2, 3, 4] {
                let refused = unchanged(space, || unmap(space, addr, count));
                assert!(matches!(refused, Err(FreeError::NotAnArea { .. })), "{refused:?}");
            }
        }
        let refused = unchanged(space, || unmap(space, all.addr(LARGE) + PAGE, 66));
        assert_eq!(
            refused,
            Err(FreeError::Interior { page: page(all.addr(LARGE)) + 1, start: page(all.addr(LARGE)) })
        );
        for which in [PLAIN, EXEC, USER, VMAP, IOMAP, SHOWN, SPARSE, RESERVED] {
            let (addr, count) = all.areas[which];
            let refused = unchanged(space, || unmap(space, addr, count));
            assert_eq!(refused, Err(FreeError::WrongKind { page: page(addr) }));
        }
        for addr in nowhere(space, &all) {
            assert!(unchanged(space, || unmap(space, addr, 1)).is_err(), "at {addr:#x}");
        }
        all.end(space);
    });
}

#[test]
fn double_unmap_short_is_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let addr = space.raw().map_short(all.spare()).expect("room");
        fill(space, addr, 3);
        unmap_ram(space, addr, 3);
        for count in [0, 1, 3, 4] {
            let again = unchanged(space, || unmap(space, addr, count));
            assert_eq!(again, Err(FreeError::AlreadyFreed { page: page(addr) }), "{count} pages");
        }
        all.end(space);
    });
}

/// In the byte of a slot a bit says that it was returned: together with the pages it is another
/// number.
#[test]
fn returned_slots_are_not_confused_with_counts() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let addr = space.raw().map_short(all.spare()).expect("room");
        let beside = space.raw().map_short(all.spare()).expect("room");
        let words = fill(space, beside, 3);
        unmap_ram(space, addr, 3);
        let again = unchanged(space, || unmap(space, addr, 128 + 3));
        assert!(again.is_err());
        shows(space, beside, &words);
        unmap_ram(space, beside, 3);
        all.end(space);
    });
}

#[test]
fn linear_map_runs_end_with_their_count() {
    let space = crate::mappings::support::space(
        crate::mappings::support::plain(1024, 2).linear(0x10_0000),
        vmalloc::Config::default(),
    );
    let frames = crate::mappings::support::take_run(&space, 4);
    let addr = space.raw().map_short(&frames[1..]).expect("there");
    for given in [0, 1, 2, 4, 64, 65, usize::MAX] {
        let refused = unchanged(&space, || unmap(&space, addr, given));
        assert_eq!(refused, Err(FreeError::WrongCount { page: page(addr), mapped: 3, given: given as u64 }));
    }
    for other in [addr - PAGE, addr + PAGE, addr + 5000 * PAGE] {
        assert_eq!(
            unchanged(&space, || unmap(&space, other, 3)),
            Err(FreeError::NotAnArea { page: page(other) })
        );
    }
    for (_, free, _) in FREES {
        assert_eq!(unchanged(&space, || free(&space, addr)), Err(FreeError::NotAnArea { page: page(addr) }));
    }
    unmap_ram(&space, addr, 3);
    assert_eq!(unchanged(&space, || unmap(&space, addr, 3)), Err(FreeError::NotAnArea { page: page(addr) }));
    give(&space, &frames);
    crate::mappings::support::finish(&space);
}
