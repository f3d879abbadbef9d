//! `vread`: what is mapped, and zeros for the rest.

use super::*;
use vmalloc::{Protection, Request};

#[track_caller]
fn assert_bytes(bytes: &[u8], expected: u8) {
    assert!(bytes.iter().all(|byte| *byte == expected), "not all are {expected}");
}

#[test]
fn guards_holes_and_freed_areas_read_as_zeros() {
    in_both_modes(Config::default(), |space| {
        let addrs: Vec<_> = (1..=4)
            .map(|value| {
                let mut buffer = space.buffer(2 * PAGE).unwrap();
                buffer.fill(value);
                buffer.into_raw().0.as_ptr().expose_provenance()
            })
            .collect();
        assert_eq!(addrs[3] - addrs[0], 9 * PAGE);
        free(space, addrs[1]);
        let mut to = vec![9; 20 * PAGE];
        assert_eq!(space.read(addrs[0] + 5, &mut to), 6 * PAGE - 5);
        let at = |page: usize, pages: usize| page * PAGE - 5..(page + pages) * PAGE - 5;
        assert_bytes(&to[..2 * PAGE - 5], 1);
        assert_bytes(&to[at(2, 4)], 0);
        assert_bytes(&to[at(6, 2)], 3);
        assert_bytes(&to[at(8, 1)], 0);
        assert_bytes(&to[at(9, 2)], 4);
        assert_bytes(&to[11 * PAGE - 5..], 0);
        // From anywhere to anywhere.
        assert_eq!(space.read(addrs[2] + 2 * PAGE - 1, &mut to[..PAGE + 2]), 2);
        assert_eq!((to[0], to[1], to[PAGE], to[PAGE + 1]), (3, 0, 0, 4));
        assert_eq!(space.read(addrs[1] + 3 * PAGE - 1, &mut to[..2]), 1);
        assert_eq!((space.read(0, &mut to), space.read(usize::MAX - 9, &mut to)), (0, 0));
        assert_bytes(&to, 0);
        assert_eq!(space.read(addrs[0], &mut []), 0);
        [0, 2, 3].iter().for_each(|nth| free(space, addrs[*nth]));
    });
}

#[test]
fn mappings_of_frames_are_read_where_something_is_mapped() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 6);
        frames.iter().for_each(|frame| set(linear_addr(space, *frame), 8));
        let sparse = space.raw().alloc_sparse(&Request::new(20 * PAGE)).unwrap();
        // SAFETY: the test owns the pages.
        unsafe { space.raw().map_pages(sparse + 3 * PAGE, &frames[..2], Protection::Read) }.unwrap();
        let mut to = vec![9; 25 * PAGE];
        assert_eq!(space.read(sparse, &mut to[..20 * PAGE]), 2 * PAGE);
        let firsts: Vec<_> = to[..20 * PAGE].iter().step_by(PAGE).copied().collect();
        assert_eq!((&firsts[..3], &firsts[3..5]), (&[0; 3][..], &[8; 2][..]));
        assert_bytes(&firsts[5..], 0);
        let reserved = space.raw().reserve(&Request::new(2 * PAGE)).unwrap();
        assert_eq!(space.read(reserved, &mut to[..3 * PAGE]), 0);
        let short = space.raw().map_short(&frames).unwrap();
        assert_eq!(space.read(short, &mut to[..6 * PAGE]), 6 * PAGE);
        assert!(to[..6 * PAGE].iter().step_by(PAGE).all(|byte| *byte == 8));
        unmap_ram(space, short, 6);
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().unreserve(reserved) }.unwrap();
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().free_sparse(sparse) }.unwrap();
        space.purge().unwrap();
        give(space, &frames);
    });
}

/// Their frames may be anybody's by now.
#[test]
fn returned_short_mappings_read_as_zeros() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 4);
        frames.iter().for_each(|frame| set(linear_addr(space, *frame), 8));
        let (gone, live) =
            (space.raw().map_short(&frames[..2]).unwrap(), space.raw().map_short(&frames[2..]).unwrap());
        unmap_ram(space, gone, 2);
        let mut to = vec![9; 2 * PAGE];
        assert_eq!((space.read(live, &mut to), to[0]), (2 * PAGE, 8));
        assert_eq!((space.read(gone, &mut to), to[0]), (0, 0));
        unmap_ram(space, live, 2);
        space.purge().unwrap();
        give(space, &frames);
    });
}

/// Returns the byte of each page of the neighbourhood, which its owner writes there.
fn page_value(page: usize) -> u8 {
    (page % 250) as u8 + 1
}

/// Allocates, writes and frees in the same few megabytes until told to stop.
fn come_and_go(space: &Space<Linux>, frames: &[Frame], stop: &AtomicBool) {
    let mut held = Vec::new();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let pages = 1 + round * 7 % 9;
        let addr = space.raw().alloc(&vmalloc::Request::new(pages * PAGE).zeroed()).unwrap();
        for page in 0..pages {
            // SAFETY: the test owns the page.
            unsafe { pointer(addr + page * PAGE).write_bytes(page_value(addr / PAGE + page), PAGE) };
        }
        held.push(addr);
        if held.len() > 8 {
            free(space, held.swap_remove(round % 8));
        }
        let mapped = space.raw().map(frames, Protection::Read, None).unwrap();
        vunmap(space, mapped);
    }
    held.iter().for_each(|addr| free(space, *addr));
}

/// Every byte is that of a page that was there, or zero: never a fault, never somebody else's.
#[test]
fn reading_while_others_free_and_map_never_faults() {
    for config in [Config::default(), Config::default().unmap_on_free().lazy_max_pages(8)] {
        in_both_modes(config, |space| {
            let frames = take_scattered(space, 3);
            // SAFETY: the test took the frames.
            let zeroed = |frame: &Frame| unsafe { pointer(linear_addr(space, *frame)).write_bytes(0, PAGE) };
            frames.iter().for_each(zeroed);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&stop);
                scope.spawn(|| come_and_go(space, &frames, &stop));
                let start = space.platform().memory_start();
                let mut to = vec![0; 100 * PAGE];
                let (mut read, mut round) = (0, 0);
                while round < 600 || read == 0 {
                    round += 1;
                    let first = start + round % 40 * PAGE;
                    read += space.read(first + 1, &mut to);
                    for (nth, byte) in to.iter().enumerate() {
                        let page = (first + 1 + nth) / PAGE;
                        assert!([0, page_value(page)].contains(byte), "{byte} in page {page:#x}");
                    }
                }
            });
            space.purge().unwrap();
            give(space, &frames);
        });
    }
}

trait Start {
    fn memory_start(&self) -> usize;
}

impl Start for Linux {
    fn memory_start(&self) -> usize {
        vmalloc::Platform::geometry(self).span.start() as usize * PAGE
    }
}
