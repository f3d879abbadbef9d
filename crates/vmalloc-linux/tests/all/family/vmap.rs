//! `vmap`: aliases, guards, and what is left behind.

use super::*;
use vmalloc::{FreeError, Protection};

fn vmap(space: &Space<Linux>, frames: &[Frame]) -> usize {
    space.raw().map(frames, Protection::ReadWrite, None).unwrap()
}

#[test]
fn two_mappings_and_the_linear_map_show_the_same_bytes() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 9);
        let (one, other) = (vmap(space, &frames), vmap(space, &frames));
        assert_ne!(one, other);
        fill_from(one, 9, 1);
        assert_filled(other, 9, 1);
        for (frame, value) in frames.iter().zip(1..) {
            let linear = linear_addr(space, *frame);
            assert_eq!(get(linear), value);
            set(linear, value + 100);
        }
        assert_filled(one, 9, 101);
        vunmap(space, one);
        assert_filled(other, 9, 101);
        vunmap(space, other);
        give(space, &frames);
    });
}

#[test]
fn a_frame_may_be_mapped_twice_in_one_area() {
    in_both_modes(Config::default(), |space| {
        let frames = take(space, 2);
        let addr = vmap(space, &[frames[0], frames[1], frames[0], frames[0]]);
        set(addr + 2 * PAGE + 7, 5);
        assert_eq!([0, 1, 2, 3].map(|page| get(addr + page * PAGE + 7) == 5), [true, false, true, true]);
        vunmap(space, addr);
        give(space, &frames);
    });
}

#[test]
fn the_pages_around_an_area_trap() {
    in_both_modes(Config::default(), |space| {
        let frames = take(space, 3);
        let addrs: Vec<_> = (0..5).map(|_| vmap(space, &frames)).collect();
        for addr in &addrs {
            assert!(traps(space, addr + 3 * PAGE), "the guard behind");
            assert!(traps(space, addr - PAGE), "the guard of the area before, or nothing");
            fill_from(*addr, 3, 4);
        }
        addrs.iter().for_each(|addr| vunmap(space, *addr));
        give(space, &frames);
    });
}

#[test]
fn what_was_unmapped_traps_after_the_purge_and_the_frames_keep_their_bytes() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 40);
        let addr = vmap(space, &frames);
        fill_from(addr, 40, 1);
        vunmap(space, addr);
        space.purge().unwrap();
        assert!((0..41).all(|page| traps(space, addr + page * PAGE)));
        // Memory of another kind at the same place is zeroed, and not the frames.
        let plain = space.raw().alloc(&vmalloc::Request::new(40 * PAGE).zeroed()).unwrap();
        assert!((0..40).all(|page| get(plain + page * PAGE) == 0));
        (0..40).for_each(|page| set(plain + page * PAGE, 77));
        let kept = frames.iter().map(|frame| get(linear_addr(space, *frame)));
        assert!(kept.eq(1..=40));
        free(space, plain);
        give(space, &frames);
    });
}

#[test]
fn a_protection_allows_what_it_says() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 3);
        let read = space.raw().map(&frames, Protection::Read, None).unwrap();
        let write = vmap(space, &frames);
        fill_from(write, 3, 9);
        assert_filled(read, 3, 9);
        assert!((0..3).all(|page| !can_write(read + page * PAGE) && can_write(write + page * PAGE + 1)));
        // SAFETY: nothing uses the area otherwise.
        unsafe {
            space.raw().protect(read, Protection::ReadWrite).unwrap();
            space.raw().protect(write, Protection::Read).unwrap();
        }
        assert!(can_write(read + 1) && !can_write(write + PAGE));
        vunmap(space, read);
        vunmap(space, write);
        give(space, &frames);
    });
}

#[test]
fn frames_that_were_not_taken_are_refused() {
    in_both_modes(Config::default(), |space| {
        let frames = take(space, 3);
        give(space, &frames[1..2]);
        let refused = space.raw().map(&frames, Protection::ReadWrite, None).unwrap_err();
        let named = |frame| matches!(frame, AllocError::BadFrame { frame, .. } if frame == frames[1].0);
        assert!(named(refused), "{refused}");
        assert!(space.raw().map(&[], Protection::ReadWrite, None).is_err());
        assert!(
            space.raw().map_device(&frames[..1], Protection::ReadWrite, None).is_err(),
            "a frame of the supply"
        );
        give(space, &[frames[0], frames[2]]);
    });
}

#[test]
fn only_its_own_call_ends_a_mapping() {
    in_both_modes(Config::default(), |space| {
        let frames = take(space, 2);
        let addr = vmap(space, &frames);
        let page = (addr / PAGE) as u64;
        // SAFETY: they are refused.
        unsafe {
            assert_eq!(space.raw().free(addr), Err(FreeError::WrongKind { page }));
            assert_eq!(
                space.raw().unmap(addr + PAGE),
                Err(FreeError::Interior { page: page + 1, start: page })
            );
            assert!(space.raw().unmap_short(addr, 2).is_err() && space.raw().free_sparse(addr).is_err());
        }
        fill_from(addr, 2, 3);
        vunmap(space, addr);
        // SAFETY: it is refused.
        assert_eq!(unsafe { space.raw().unmap(addr) }, Err(FreeError::AlreadyFreed { page }));
        give(space, &frames);
    });
}

/// Rounds of mapping and unmapping leave no mapping of the kernel's behind.
#[test]
fn purged_areas_cost_no_mappings() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 200);
        let before = crate::common::mappings(space.platform());
        for _ in 0..3 {
            let addrs: Vec<_> = frames.chunks(7).map(|part| vmap(space, part)).collect();
            assert!(crate::common::mappings(space.platform()) >= before + 200);
            addrs.iter().for_each(|addr| vunmap(space, *addr));
            space.purge().unwrap();
            assert!(crate::common::mappings(space.platform()) <= before + OPEN_CHUNKS);
        }
        give(space, &frames);
    });
}
