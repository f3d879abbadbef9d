//! Areas into which frames are mapped page by page: sparse ones, and those of per-CPU memory.

use super::*;
use vmalloc::{AreaError, Protection, Request};

fn map_pages(space: &Space<Linux>, addr: usize, frames: &[Frame]) -> Result<(), AreaError> {
    // SAFETY: the tests own the pages.
    unsafe { space.raw().map_pages(addr, frames, Protection::ReadWrite) }
}

fn unmap_pages(space: &Space<Linux>, addr: usize, pages: u64) -> Result<(), AreaError> {
    // SAFETY: as above.
    unsafe { space.raw().unmap_pages(addr, pages) }
}

#[test]
fn only_what_was_mapped_can_be_touched() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 6);
        let addr = space.raw().alloc_sparse(&Request::new(1000 * PAGE)).unwrap();
        assert!(traps(space, addr) && traps(space, addr + 999 * PAGE));
        map_pages(space, addr + 10 * PAGE, &frames[..3]).unwrap();
        map_pages(space, addr + 997 * PAGE, &frames[3..]).unwrap();
        fill_from(addr + 10 * PAGE, 3, 1);
        fill_from(addr + 997 * PAGE, 3, 4);
        assert!(frames.iter().zip(1..).all(|(frame, value)| get(linear_addr(space, *frame)) == value));
        assert!([9, 13, 996, 1000].iter().all(|page| traps(space, addr + page * PAGE)));
        unmap_pages(space, addr + 11 * PAGE, 1).unwrap();
        assert!(traps(space, addr + 11 * PAGE) && get(addr + 12 * PAGE) == 3);
        map_pages(space, addr + 11 * PAGE, &frames[5..]).unwrap();
        assert_eq!(get(addr + 11 * PAGE), 6);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().free_sparse(addr) }.unwrap();
        space.purge().unwrap();
        assert!([10, 11, 12, 997].iter().all(|page| traps(space, addr + page * PAGE)));
        give(space, &frames);
    });
}

#[test]
fn what_can_not_be_mapped_or_unmapped_changes_nothing() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 3);
        let addr = space.raw().alloc_sparse(&Request::new(10 * PAGE)).unwrap();
        map_pages(space, addr + 4 * PAGE, &frames[..1]).unwrap();
        set(addr + 4 * PAGE, 7);
        let page = (addr / PAGE) as u64;
        assert_eq!(map_pages(space, addr + 3 * PAGE, &frames), Err(AreaError::Mapped { page: page + 4 }));
        assert!(traps(space, addr + 3 * PAGE) && traps(space, addr + 5 * PAGE));
        assert_eq!(unmap_pages(space, addr + 4 * PAGE, 2), Err(AreaError::NotMapped { page: page + 5 }));
        assert!(
            matches!(map_pages(space, addr + 8 * PAGE, &frames), Err(AreaError::Beyond { .. })),
            "the guard"
        );
        assert!(matches!(unmap_pages(space, addr, 11), Err(AreaError::Beyond { .. })));
        assert_eq!(get(addr + 4 * PAGE), 7);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().free_sparse(addr) }.unwrap();
        space.purge().unwrap();
        give(space, &frames);
    });
}

/// As an allocator of per-CPU memory does: a chunk for two groups of CPUs, far apart, and a unit
/// for each.
#[test]
fn per_cpu_areas_hold_what_is_mapped_into_them() {
    const OFFSETS: [usize; 3] = [0, 512 * PAGE, 700 * PAGE];
    const SIZES: [usize; 3] = [4 * PAGE, 4 * PAGE, 8 * PAGE];
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 16);
        let base = space.raw().alloc_congruent(&OFFSETS, &SIZES, 4 * PAGE).unwrap();
        assert!(base.is_multiple_of(4 * PAGE));
        let mut rest = &frames[..];
        for (nth, (offset, size)) in OFFSETS.iter().zip(SIZES).enumerate() {
            let own;
            (own, rest) = rest.split_at(size / PAGE);
            assert!(traps(space, base + offset));
            map_pages(space, base + offset, own).unwrap();
            fill_from(base + offset, size / PAGE, 50 * nth as u8);
        }
        // One variable, one copy for each.
        let copies = OFFSETS.map(|offset| get(base + offset + 3 * PAGE));
        assert_eq!(copies, [3, 53, 103]);
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().free_congruent(base, &OFFSETS, &SIZES) }.unwrap();
        space.purge().unwrap();
        assert!(OFFSETS.iter().all(|offset| traps(space, base + offset)));
        give(space, &frames);
    });
}
