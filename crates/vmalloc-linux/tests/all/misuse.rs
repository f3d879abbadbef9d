//! Many threads at once: the same area freed by several of them, and areas that are freed elsewhere
//! than they were allocated.

use crate::common::{alloc, assert_whole, byte};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Barrier};
use vmalloc::{FreeError, Request, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, open};

const SPAN: usize = 1 << 30;
const PAGE: usize = 1 << 12;
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

fn free(space: &Space<Linux>, addr: usize) -> Result<(), FreeError> {
    // SAFETY: the areas here are memory that no thread reads after the first free. Double frees are
    // the subject of the test: all but the first have to be refused.
    unsafe { space.raw().free(addr) }
}

/// Runs `work` on all threads at once, with their numbers.
fn together<R: Send>(work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let start = |number| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(number)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Areas of many sizes: some too large for any pool, some with a note.
fn areas_of_all_kinds(space: &Space<Linux>, count: usize) -> Vec<usize> {
    let area = |index: usize| match index % 8 {
        0 => space.raw().alloc(&Request::new(300 * PAGE)).unwrap(),
        1 => space.raw().alloc(&Request::new(PAGE + 1).tag("noted")).unwrap(),
        2 => space.raw().alloc(&Request::new(2 * PAGE).guard(false)).unwrap(),
        pages => alloc(space, pages),
    };
    (0..count).map(area).collect()
}

/// No thread allocates meanwhile, so every address stays that of one area: exactly one of the frees
/// of an address may succeed.
#[test]
fn of_many_who_free_an_area_exactly_one_succeeds() {
    for options in all_options() {
        let space = space(options);
        for _ in 0..10 {
            let areas = areas_of_all_kinds(&space, 400);
            let results = together(|number| {
                // Half of the threads from the other end, so that they meet somewhere, and not only
                // at the start.
                let order: Vec<_> =
                    if number % 2 == 0 { areas.clone() } else { areas.iter().rev().copied().collect() };
                let mut freed = Vec::new();
                for addr in order {
                    match free(&space, addr) {
                        Ok(()) => freed.push(addr),
                        // The second, after the purge of what was too large to be kept, finds
                        // nothing there, or what that became part of: free space.
                        Err(FreeError::AlreadyFreed { addr: told } | FreeError::NotAnArea { addr: told }) => {
                            assert_eq!(told, addr);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                freed
            });
            let mut freed: Vec<_> = results.into_iter().flatten().collect();
            let mut all = areas;
            freed.sort_unstable();
            all.sort_unstable();
            assert_eq!(freed, all, "each freed once, none lost");
            space.verify().unwrap();
        }
        assert_whole(&space);
    }
}

/// Each thread allocates and frees on its own while it also frees addresses that have no owner.
/// Those frees are refused, and harm no other.
#[test]
fn wrong_frees_beside_right_ones_are_told_and_change_nothing() {
    for options in all_options() {
        let space = space(options);
        let held = areas_of_all_kinds(&space, 64);
        together(|number| {
            for round in 0..2000 {
                let own = alloc(&space, 2 + (number + round) % 5);
                // Areas that are held all the time: inside, beside a page, as another kind.
                let other = held[(number * 31 + round) % held.len()];
                assert_eq!(free(&space, other + 1), Err(FreeError::Unaligned { addr: other + 1 }));
                // SAFETY: nothing uses the addresses any more.
                let unreserved = unsafe { space.raw().unreserve(other) };
                assert_eq!(unreserved, Err(FreeError::WrongKind { addr: other }));
                let inside = FreeError::Interior { addr: own + PAGE, start: own };
                assert_eq!(free(&space, own + PAGE), Err(inside));
                free(&space, own).unwrap();
            }
        });
        for addr in held {
            free(&space, addr).unwrap();
            assert!(free(&space, addr).is_err());
        }
        assert_whole(&space);
    }
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
            free(space, kept.swap_remove_back(index).unwrap()).unwrap();
        }
        if round % 1000 == 0 {
            let stats = space.stats();
            most.fetch_max((stats.span_pages - stats.free_pages) as usize, Ordering::Relaxed);
        }
    }
    kept.into_iter().for_each(|addr| free(space, addr).unwrap());
}
