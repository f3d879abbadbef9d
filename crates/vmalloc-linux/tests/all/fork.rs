//! Fork: parent and child go on with copies of their own.

use crate::common::*;
use lock_api::Mutex;
use vmalloc_linux::{CHUNK_PAGES, FutexLock, Linux, LinuxOptions, open};

fn span() -> usize {
    page_bytes() << 18
}

/// Maps and unmaps in chunks of the thread's own, opening and closing them.
fn churn(linux: &Linux, first: u64) {
    let all = pages(linux, first * CHUNK_PAGES, 20 * CHUNK_PAGES);
    for round in 0..16 {
        let at = (first + round) * CHUNK_PAGES;
        let ranges = [pages(linux, at + 5, 3), pages(linux, at + CHUNK_PAGES - 2, 4)];
        ranges.iter().for_each(|range| map(linux, *range));
        linux.do_unmap(&ranges).unwrap();
    }
    linux.do_unmap(&[all]).unwrap();
}

#[test]
fn a_fork_while_others_map_and_unmap_leaves_a_working_child() {
    in_own_process(|| {
        for_each_strategy(span(), |linux| {
            forks_amid(20, &[&|| churn(linux, 10), &|| churn(linux, 30)], || {
                // The child has no other threads: it may use what they were opening or closing at
                // the fork.
                for chunk in 10..50 {
                    let fresh = pages(linux, chunk * CHUNK_PAGES + 100, 3);
                    map(linux, fresh);
                    assert_reads(linux, fresh, 0);
                    fill(linux, fresh, 1);
                    linux.do_unmap(&[fresh, pages(linux, (chunk + 1) * CHUNK_PAGES, 1)]).unwrap();
                    assert_traps(linux, fresh);
                }
                true
            });
        });
    });
}

/// A layer above, such as a heap: a lock, and what it protects. It has hooks of its own, installed
/// after those of the platform.
static LAYER: Mutex<FutexLock, (u64, u64)> = Mutex::new((0, 0));

extern "C" fn hold_layer() {
    std::mem::forget(LAYER.lock());
}

extern "C" fn release_layer() {
    // SAFETY: `hold_layer` locked it in this thread, or in the one that this was forked from.
    unsafe { LAYER.force_unlock() };
}

#[test]
fn a_lock_of_a_layer_above_is_free_and_consistent_in_the_child() {
    in_own_process(|| {
        let space =
            open(LinuxOptions::new().max_bytes(span()), vmalloc::SpaceOptions::default().nodes(1)).unwrap();
        // SAFETY: functions for the life of the program, which do not unwind.
        let installed =
            unsafe { libc::pthread_atfork(Some(hold_layer), Some(release_layer), Some(release_layer)) };
        assert_eq!(installed, 0);
        let use_it = || {
            let mut pair = LAYER.lock();
            pair.0 += 1;
            // Under the layer's lock, as a heap would.
            drop(space.buffer(2 * page_bytes()).unwrap());
            pair.1 += 1;
        };
        forks_amid(50, &[&use_it, &use_it], || {
            use_it();
            let pair = LAYER.lock();
            pair.0 == pair.1
        });
    });
}

/// Ten thousand spaces in one process, made and dropped, and a fork that holds all of their locks.
#[test]
fn ten_thousand_spaces_are_forked_with_and_dropped() {
    in_own_process(|| {
        const SPACES: usize = 10_000;
        let small = || {
            open(
                LinuxOptions::new().max_bytes(16 * page_bytes()).frame_bytes(0),
                vmalloc::SpaceOptions::default().nodes(1),
            )
            .unwrap()
        };
        let mut spaces: Vec<_> = (0..SPACES).map(|_| small()).collect();
        for _ in 0..2 {
            in_forked_child(|| {
                spaces.iter().all(|space| space.buffer(1).is_ok()) && small().buffer(1).is_ok()
            });
            // Every second one goes, from the middle of the list of hooks.
            let mut kept = false;
            spaces.retain(|_| {
                kept = !kept;
                kept
            });
        }
        assert_eq!(spaces.len(), SPACES / 4);
        spaces.truncate(10);
        // As many again, one after the other: what is dropped is forgotten.
        (0..SPACES).for_each(|_| drop(small()));
        in_forked_child(|| spaces.iter().all(|space| space.buffer(1).is_ok()));
    });
}
