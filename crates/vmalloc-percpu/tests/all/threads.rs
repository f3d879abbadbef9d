//! Threads that meet: each group is its owner's alone, and nothing is lost.

use std::sync::{Mutex, PoisonError};
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_percpu::{CongruentAreas, CongruentError};
use vmalloc_sim::{Options, Sim};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;
const SPAN: (u64, u64) = (0x100, 0x180);

/// Threads make and drop groups in a span that has room for a few of them. Their areas lie between
/// each other's, so a search often meets areas that were made meanwhile.
#[test]
fn groups_of_threads_that_meet_share_no_page() {
    let span = PageRange::new(SPAN.0, SPAN.1).expect("not empty");
    let space: Space<Sim> =
        Space::new(Options::new(span).build(), SpaceOptions::default()).expect("an empty space");
    let taken = Mutex::new([false; SPAN.1 as usize]);
    let mark = |group: &CongruentAreas<&Space<Sim>>, is_taken| {
        let mut all = taken.lock().unwrap_or_else(PoisonError::into_inner);
        for page in [0, 1, 2].map(|nth| group.area(nth).expect("an area") / PAGE) {
            assert_ne!(std::mem::replace(&mut all[page], is_taken), is_taken, "page {page:#x}: {group:?}");
        }
    };
    let play = &|thread: usize| {
        let mut made = 0;
        for round in 0..300 {
            let gap = (2 + (thread + round) % 5) * PAGE;
            match CongruentAreas::new(&space, &[0, gap, 2 * gap], &[PAGE; 3], PAGE) {
                Ok(group) => {
                    mark(&group, true);
                    std::thread::yield_now();
                    mark(&group, false);
                    made += 1;
                }
                Err(CongruentError::NoSpace(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        made
    };
    let made: usize = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || play(thread)));
        threads.map(|thread| thread.join().expect("no thread panics")).iter().sum()
    });
    assert!(made > 600, "{made} groups were made");
    space.purge().expect("no fault");
    space.verify().expect("every invariant holds");
    let stats = space.stats();
    assert_eq!((stats.free_pages, stats.largest_free_pages), (stats.span_pages, stats.span_pages));
    assert_eq!(space.platform().check_end(), []);
}
