//! The limit on mappings, reached for real: each in a process of its own.

use super::*;
use vmalloc::Protection;
use vmalloc_harness::map_limit;

/// The rest of the program goes on: the heap, mappings of its own, and threads.
fn assert_program_goes_on() {
    assert_eq!(std::thread::spawn(|| vec![1_u8; 1 << 22].len()).join().unwrap(), 1 << 22);
    let small: Vec<Box<usize>> = (0..10_000).map(Box::new).collect();
    assert_eq!(*small[9_999], 9_999);
    for _ in 0..50 {
        // SAFETY: a fresh mapping at an address that the kernel chooses, and its end.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapped =
                libc::mmap(std::ptr::null_mut(), 1 << 20, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(mapped, libc::MAP_FAILED);
            assert_eq!(libc::munmap(mapped, 1 << 20), 0);
        }
    }
}

/// Maps until that is refused for want of mappings; what was mapped.
fn map_all(most: usize, map: impl Fn() -> Result<usize, AllocError>) -> Vec<usize> {
    let mut addrs = Vec::with_capacity(most);
    while addrs.len() < most {
        match map() {
            Ok(addr) => addrs.push(addr),
            refused => {
                let error = unbacked(refused, PlatformFault::MapLimit);
                assert!(error.to_string().contains("vm.max_map_count"), "{error}");
                return addrs;
            }
        }
    }
    panic!("{most} mappings were made");
}

/// One range that needs more than there is: nothing of it stays.
#[test]
fn a_mapping_of_too_many_pieces_leaves_nothing_behind() {
    in_own_process(|| {
        let Some(max) = map_limit().map(|max| max as usize) else { return };
        in_both_modes(SpaceOptions::default(), |space| {
            let two = scattered_frames(space.platform(), 2);
            let frames: Vec<_> = two.iter().copied().cycle().take(max).collect();
            let before = mappings(space.platform());
            unbacked(space.raw().map(&frames, Protection::ReadWrite, None), PlatformFault::MapLimit);
            unbacked(short(space).map(&frames), PlatformFault::MapLimit);
            assert!(mappings(space.platform()) <= before + OPEN_CHUNKS);
            let some = space.raw().map(&frames[..max / 2], Protection::ReadWrite, None).unwrap();
            assert_program_goes_on();
            vunmap(space, some);
            space.purge().unwrap();
            assert!(mappings(space.platform()) <= before + OPEN_CHUNKS);
            give(space.platform(), &two);
        });
    });
}

/// They need no mappings of the kernel's.
#[test]
fn a_hundred_thousand_short_mappings_live_at_once() {
    in_own_process(|| {
        const COUNT: usize = env::addresses(100_000);
        for len in [1, 4] {
            let options = options().frame_bytes(2 * COUNT * len * page_bytes());
            for space in spaces(options, SpaceOptions::default()) {
                let frames = take(space.platform(), 2 * COUNT * len);
                assert!(frames.is_sorted());
                let before = mappings(space.platform());
                // Every second run, the last one first.
                let runs: Vec<_> = frames.chunks(len).rev().step_by(2).collect();
                let addrs: Vec<_> = runs.iter().map(|run| short(&space).map(run).unwrap()).collect();
                addrs
                    .iter()
                    .zip(0..)
                    .for_each(|(addr, nth): (_, u32)| set(*addr + len * page_bytes() - 1, nth as u8));
                for ((addr, run), nth) in addrs.iter().zip(&runs).zip(0_u32..) {
                    assert_eq!((get(addr + len * page_bytes() - 1), run.len()), (nth as u8, len));
                }
                assert_eq!(mappings(space.platform()), before);
                addrs.iter().for_each(|addr| unmap_ram(&space, *addr, len));
                give(space.platform(), &frames);
                assert_all_whole(&space);
            }
        }
    });
}

/// Moves draw from the same budget: where there is none left, an area that has to move is copied or
/// refused, and stays whole.
#[test]
fn an_area_moves_or_stays_whole_at_the_limit() {
    in_own_process(|| {
        let Some(max) = map_limit().map(|max| max as usize) else { return };
        in_both_modes(SpaceOptions::default(), |space| {
            let frames = scattered_frames(space.platform(), 2);
            let (area, neighbour) = (alloc(space, 5), alloc(space, 1));
            fill_words(area, 5);
            let first = area;
            let addrs = map_all(max, || short(space).map(&frames));
            // SAFETY: the test owns the area.
            let moved = unsafe { space.raw().realloc(area, &Resize::new(9 * page_bytes())) };
            let area = moved.unwrap_or(area);
            assert_words_of(area, 5, first);
            space.verify().unwrap();
            addrs.iter().for_each(|addr| unmap_ram(space, *addr, 2));
            space.purge().unwrap();
            // SAFETY: as above.
            let area = unsafe { space.raw().realloc(area, &Resize::new(5000 * page_bytes())) }.unwrap();
            assert_words_of(area, 5, first);
            [area, neighbour].iter().for_each(|addr| free(space, *addr));
            space.purge().unwrap();
            give(space.platform(), &frames);
        });
    });
}
