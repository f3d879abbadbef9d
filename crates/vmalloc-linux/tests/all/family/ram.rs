//! `vm_map_ram`: mappings that live shortly.

use super::*;
use vmalloc::FrameSupply;
use vmalloc::FreeError;

#[test]
fn consecutive_frames_are_mapped_already() {
    in_both_modes(Config::default(), |space| {
        let first = space.platform().take_run(64, 1).unwrap();
        let run: Vec<_> = (0..64).map(|nth| first.plus(nth)).collect();
        let mappings = crate::common::mappings(space.platform());
        for len in [1, 4, 63, 64] {
            let addr = space.raw().map_short(&run[..len]).unwrap();
            assert_eq!(addr, linear_addr(space, first));
            fill_from(addr, len, len as u8);
            assert_filled(addr, len, len as u8);
            unmap_ram(space, addr, len);
        }
        assert_eq!(crate::common::mappings(space.platform()), mappings);
        assert_eq!(space.stats().blocks, 0);
        give(space, &run);
    });
}

#[test]
fn scattered_frames_show_their_bytes_whatever_their_number() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 200);
        for len in [2, 3, 5, 17, 63, 64, 65, 200] {
            let addr = space.raw().map_short(&frames[..len]).unwrap();
            assert!(space.contains(addr));
            fill_from(addr, len, len as u8);
            for (nth, frame) in frames[..len].iter().enumerate() {
                assert_eq!(get(linear_addr(space, *frame)), (len + nth) as u8);
            }
            unmap_ram(space, addr, len);
        }
        space.purge().unwrap();
        give(space, &frames);
    });
}

#[test]
fn what_was_unmapped_traps_after_the_purge() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 70);
        let lens = [2, 9, 64, 70];
        let addrs = lens.map(|len| space.raw().map_short(&frames[..len]).unwrap());
        lens.iter().zip(addrs).for_each(|(len, addr)| fill_from(addr, *len, 1));
        let live = space.raw().map_short(&frames[..2]).unwrap();
        lens.iter().zip(addrs).for_each(|(len, addr)| unmap_ram(space, addr, *len));
        space.purge().unwrap();
        for (len, addr) in lens.into_iter().zip(addrs) {
            assert!((0..len).all(|page| traps(space, addr + page * PAGE)), "{len} pages at {addr:#x}");
        }
        assert_filled(live, 2, 1);
        unmap_ram(space, live, 2);
        give(space, &frames);
    });
}

#[test]
fn slots_lead_to_other_frames_when_they_are_used_again() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 300);
        for round in 0..2000_usize {
            let len = 2 + round % 6;
            let part = &frames[round * 7 % 290..][..len];
            part.iter().zip(round..).for_each(|(frame, nth)| set(linear_addr(space, *frame), nth as u8));
            let addr = space.raw().map_short(part).unwrap();
            assert_filled(addr, len, round as u8);
            unmap_ram(space, addr, len);
        }
        space.purge().unwrap();
        give(space, &frames);
    });
}

#[test]
fn another_number_of_pages_is_refused_and_changes_nothing() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 3);
        let addr = space.raw().map_short(&frames).unwrap();
        let page = (addr / PAGE) as u64;
        let wrong = FreeError::WrongCount { page, mapped: 3, given: 2 };
        // SAFETY: it is refused.
        assert_eq!(unsafe { space.raw().unmap_short(addr, 2) }, Err(wrong));
        fill_from(addr, 3, 8);
        unmap_ram(space, addr, 3);
        // SAFETY: it is refused.
        assert_eq!(unsafe { space.raw().unmap_short(addr, 3) }, Err(FreeError::AlreadyFreed { page }));
        let linear = space.raw().map_short(&frames[..1]).unwrap();
        // SAFETY: it is refused.
        assert!(unsafe { space.raw().unmap_short(linear, 2) }.is_err());
        unmap_ram(space, linear, 1);
        // SAFETY: it is refused.
        assert!(unsafe { space.raw().unmap_short(linear, 1) }.is_err());
        space.purge().unwrap();
        give(space, &frames);
    });
}

#[test]
fn a_page_may_be_mapped_many_times_at_once() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 2);
        let addrs: Vec<_> = (0..500).map(|_| space.raw().map_short(&frames).unwrap()).collect();
        set(addrs[0], 3);
        assert!(addrs.iter().all(|addr| get(*addr) == 3));
        let linear: Vec<_> = (0..500).map(|_| space.raw().map_short(&frames[..1]).unwrap()).collect();
        assert!(linear.iter().all(|addr| get(*addr) == 3));
        addrs.iter().for_each(|addr| unmap_ram(space, *addr, 2));
        linear.iter().for_each(|addr| unmap_ram(space, *addr, 1));
        space.purge().unwrap();
        give(space, &frames);
    });
}
