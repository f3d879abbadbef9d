//! Areas that are freed by other threads than those that allocated them.

use crate::common::{alloc, assert_whole, byte, free};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use vmalloc::{Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, open};

const SPAN: usize = 1 << 30;
const THREADS: usize = 8;

fn space(options: SpaceOptions) -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(SPAN), options).unwrap()
}

/// Retaining and not, with a node for each CPU, one for all, and more than there are CPUs.
fn all_options() -> impl Iterator<Item = SpaceOptions> {
    let modes = [
        SpaceOptions::default(),
        SpaceOptions::default().cache_bytes(1 << 20),
        SpaceOptions::default().unmap_on_free(),
    ];
    modes.into_iter().flat_map(|options| [options, options.nodes(1), options.nodes(16)])
}

/// The areas that go around between a producer and its consumer.
const QUEUE: usize = 64;
/// Areas that each producer makes.
const ROUNDS: usize = 10_000;

/// Half of the threads allocate and write, the others check and free: each area is freed by another
/// thread, on another CPU where there are several. Neither memory nor metadata may grow with the
/// number of rounds.
#[test]
fn areas_that_are_freed_elsewhere_stay_bounded() {
    for options in all_options() {
        let space = space(options.lazy_max_pages(1 << 12));
        let mut metadata = Vec::new();
        for _ in 0..4 {
            let most = hand_over(&space);
            // In queues, in hands, cached and lazy up to twice the threshold, where frees begin to
            // purge; what is freed during a purge comes on top.
            let pages = space.stats().span_pages;
            assert!(most < pages / 4, "{most} of {pages} pages in use, lazy or kept");
            assert_whole(&space);
            metadata.push(space.stats().metadata_bytes);
        }
        let (first, last) = (metadata[0], metadata[3]);
        assert!(last <= 2 * first + (1 << 20), "metadata grows: {metadata:?}");
    }
}

/// All producers and consumers, to the end; the most pages that were not free.
fn hand_over(space: &Space<Linux>) -> u64 {
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..THREADS / 2 {
            let (give, get) = sync_channel(QUEUE);
            let most = &most;
            scope.spawn(move || produce(space, number, &give));
            scope.spawn(move || consume(space, number, &get, most));
        }
    });
    most.into_inner() as u64
}

fn stamp(number: usize, round: usize) -> u64 {
    (number * ROUNDS + round) as u64
}

fn produce(space: &Space<Linux>, number: usize, give: &SyncSender<usize>) {
    for round in 0..ROUNDS {
        let addr = alloc(space, 1 + (number + round) % 8);
        // SAFETY: the first word of an area that is this thread's until it is handed over.
        unsafe { byte(addr).cast::<u64>().write(stamp(number, round)) };
        give.send(addr).unwrap();
    }
}

fn consume(space: &Space<Linux>, number: usize, get: &Receiver<usize>, most: &AtomicUsize) {
    // A few are kept for a while, so that they are not freed in the order in which they came.
    let mut kept = VecDeque::new();
    for (round, addr) in get.iter().enumerate() {
        // SAFETY: handed over to this thread.
        let found = unsafe { byte(addr).cast::<u64>().read() };
        assert_eq!(found, stamp(number, round), "somebody else wrote to it");
        kept.push_back(addr);
        if kept.len() > 16 {
            let index = round % kept.len();
            free(space, kept.swap_remove_back(index).unwrap());
        }
        if round % 1000 == 0 {
            let stats = space.stats();
            most.fetch_max((stats.span_pages - stats.free_pages) as usize, Ordering::Relaxed);
        }
    }
    kept.into_iter().for_each(|addr| free(space, addr));
}
