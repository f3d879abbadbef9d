//! Areas that are freed by other threads than those that allocated them.

use crate::common::{alloc, assert_whole, byte, free, page_bytes};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use vmalloc::{Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, open};

/// Pairs of a thread that allocates and one that frees.
const PAIRS: usize = 4;
/// The areas that go around between them.
const QUEUE: usize = 64;
/// Areas that each pair makes.
const ROUNDS: usize = 10_000;

/// Half of the threads allocate and write, the others check and free: each area is freed by another
/// thread, on another CPU where there are several. Neither memory nor metadata may grow with the
/// number of rounds: with a node for each CPU, one for all, and more than there are CPUs.
#[test]
fn areas_that_are_freed_elsewhere_stay_bounded() {
    let default = SpaceOptions::default();
    let modes = [default, default.cache_bytes(1 << 20), default.unmap_on_free()];
    for options in modes.into_iter().flat_map(|it| [it, it.nodes(1), it.nodes(16)]) {
        let linux = LinuxOptions::new().max_bytes(page_bytes() << 18);
        let space = open(linux, options.lazy_max_pages(1 << 12)).unwrap();
        let [first, _, _, last] = [(); 4].map(|()| {
            let (most, pages) = (hand_over(&space), space.stats().span_pages);
            // In queues, in hands, cached and lazy up to twice the threshold, where frees begin to
            // purge; what is freed during a purge comes on top.
            assert!(most < pages / 4, "{most} of {pages} pages in use, lazy or kept");
            assert_whole(&space);
            space.stats().metadata_bytes
        });
        assert!(last <= 2 * first + (1 << 20), "metadata grows: {first}, {last}");
    }
}

/// All pairs, to the end; the most pages that were not free.
fn hand_over(space: &Space<Linux>) -> u64 {
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for pair in 0..PAIRS {
            let (give, get) = sync_channel(QUEUE);
            let stamp = move |round: usize| (pair * ROUNDS + round) as u64;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let addr = alloc(space, 1 + (pair + round) % 8);
                    // SAFETY: the first word of an area that is this thread's until it is handed
                    // over.
                    unsafe { byte(addr).cast::<u64>().write(stamp(round)) };
                    give.send(addr).unwrap();
                }
            });
            let most = &most;
            scope.spawn(move || {
                // A few are kept for a while, so that they are not freed in the order in which they
                // came.
                let mut kept = VecDeque::new();
                for (round, addr) in get.iter().enumerate() {
                    // SAFETY: handed over to this thread.
                    let found = unsafe { byte(addr).cast::<u64>().read() };
                    assert_eq!(found, stamp(round), "somebody else wrote to it");
                    kept.push_back(addr);
                    if kept.len() > 16 {
                        free(space, kept.swap_remove_back(round % 17).unwrap());
                    }
                    if round % 1000 == 0 {
                        let stats = space.stats();
                        most.fetch_max(stats.span_pages - stats.free_pages, Ordering::Relaxed);
                    }
                }
                kept.into_iter().for_each(|addr| free(space, addr));
            });
        }
    });
    most.into_inner()
}
