//! `vread`: what is mapped, and zeros for the rest.

use super::*;
use vmalloc::Protection;

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
        let addr = space.raw().alloc(&Request::new(pages * page_bytes()).zeroed()).unwrap();
        for page in 0..pages {
            // SAFETY: the test owns the page.
            unsafe {
                byte(addr + page * page_bytes())
                    .write_bytes(page_value(addr / page_bytes() + page), page_bytes());
            };
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
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free().lazy_max_pages(8)] {
        in_both_modes(options, |space| {
            let frames = scattered_frames(space.platform(), 3);
            // SAFETY: the test took the frames.
            let zeroed = |frame: &Frame| unsafe {
                byte(linear_addr(space.platform(), *frame)).write_bytes(0, page_bytes());
            };
            frames.iter().for_each(zeroed);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&stop);
                scope.spawn(|| come_and_go(space, &frames, &stop));
                let start = space.geometry().span.start() as usize * page_bytes();
                let mut to = vec![0; 100 * page_bytes()];
                let (mut read, mut round) = (0, 0);
                while round < 120 * env::effort() || read == 0 {
                    round += 1;
                    let first = start + round % 40 * page_bytes();
                    read += space.read(first + 1, &mut to);
                    let (rest_of_first, others) = to.split_at(page_bytes() - 1);
                    let pages = std::iter::once(rest_of_first).chain(others.chunks(page_bytes()));
                    for (page, bytes) in (first / page_bytes()..).zip(pages) {
                        let value = page_value(page);
                        let foreign = bytes.iter().find(|byte| ![0, value].contains(byte));
                        assert_eq!(foreign, None, "in page {page:#x}");
                    }
                }
            });
            space.purge().unwrap();
            give(space.platform(), &frames);
        });
    }
}
