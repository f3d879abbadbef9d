//! Fork: parent and child go on with copies of their own.

mod common;

use common::*;
use lock_api::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use vmalloc_linux::{AtFork, CHUNK_PAGES, FutexLock, Linux, register};

const SPAN: usize = 1 << 30;

for_all_strategies!(
    parent_and_child_have_memory_of_their_own,
    a_fork_while_others_map_and_unmap_leaves_a_working_child,
);

fn parent_and_child_have_memory_of_their_own(linux: &Linux) {
    let (both, scattered) = (pages(linux, 0, 4), [pages(linux, 10, 2), pages(linux, 20, 2)]);
    let untouched = pages(linux, 30, 2);
    map(linux, both);
    map(linux, untouched);
    // Before any page is touched, guard pages are all that there is to copy.
    in_forked_child(|| {
        assert_traps(linux, pages(linux, 4, 26));
        assert_traps(linux, pages(linux, 32, 2));
        assert_reads(linux, untouched, 0);
        true
    });
    fill(linux, both, 1);
    for range in scattered {
        map(linux, range);
        fill(linux, range, 2);
    }
    in_forked_child(|| {
        assert_reads(linux, both, 1);
        assert_reads(linux, untouched, 0);
        assert_traps(linux, pages(linux, 4, 6));
        fill(linux, both, 9);
        // Two ranges: the vectors must name the child now, not the parent.
        linux.do_unmap(&scattered).unwrap();
        scattered.iter().for_each(|range| assert_traps(linux, *range));
        for index in 1..6 {
            let fresh = pages(linux, index * CHUNK_PAGES, 3);
            map(linux, fresh);
            assert_reads(linux, fresh, 0);
            assert_traps(linux, pages(linux, index * CHUNK_PAGES + 3, 1));
        }
        true
    });
    assert_reads(linux, both, 1);
    for range in scattered {
        assert_reads(linux, range, 2);
    }
    linux.do_unmap(&scattered).unwrap();
    scattered.iter().for_each(|range| assert_traps(linux, *range));
    // The child opened these chunks in its own books and its own memory.
    assert_traps(linux, pages(linux, CHUNK_PAGES, 3));
    map(linux, pages(linux, CHUNK_PAGES, 3));
}

/// Maps and unmaps in chunks of the thread's own, opening and closing them, until told to stop.
fn churn(linux: &Linux, thread: u64, stop: &AtomicBool) {
    let first = CHURNED.start + thread * 20;
    let all = pages(linux, first * CHUNK_PAGES, 20 * CHUNK_PAGES);
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let at = (first + round % 19) * CHUNK_PAGES;
        let ranges = [pages(linux, at + 5, 3), pages(linux, at + CHUNK_PAGES - 2, 4)];
        ranges.iter().for_each(|range| map(linux, *range));
        linux.do_unmap(&ranges).unwrap();
        if round % 16 == 15 {
            linux.do_unmap(&[all]).unwrap();
        }
    }
}

/// Stops the other threads however the test ends, so that it ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The chunks that two threads open and close while others fork.
const CHURNED: std::ops::Range<u64> = 10..50;

fn a_fork_while_others_map_and_unmap_leaves_a_working_child(linux: &Linux) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for thread in 0..2 {
            let stop = &stop;
            scope.spawn(move || churn(linux, thread, stop));
        }
        for _ in 0..20 {
            in_forked_child(|| {
                // The child has no other threads: it may use what they were opening or closing at the fork.
                for chunk in CHURNED {
                    let fresh = pages(linux, chunk * CHUNK_PAGES + 100, 3);
                    map(linux, fresh);
                    assert_reads(linux, fresh, 0);
                    fill(linux, fresh, 1);
                    linux.do_unmap(&[fresh, pages(linux, (chunk + 1) * CHUNK_PAGES, 1)]).unwrap();
                    assert_traps(linux, fresh);
                }
                true
            });
        }
    });
}

/// A layer above: a lock, and what it protects.
struct Layer {
    pair: Mutex<FutexLock, (u64, u64)>,
    forks: Mutex<FutexLock, u64>,
}

impl AtFork for Layer {
    fn prepare(&self) {
        std::mem::forget(self.pair.lock());
    }

    fn parent(&self) {
        // SAFETY: `prepare` locked it in this thread.
        unsafe { self.pair.force_unlock() };
        *self.forks.lock() += 1;
    }

    fn child(&self) {
        // SAFETY: `prepare` locked it in this thread.
        unsafe { self.pair.force_unlock() };
    }
}

#[test]
fn a_registered_lock_is_free_and_consistent_in_the_child() {
    let _linux = Linux::reserve(vmalloc_linux::Options::new()).unwrap();
    let layer = Arc::new(Layer { pair: Mutex::new((0, 0)), forks: Mutex::new(0) });
    let hook: Weak<Layer> = Arc::downgrade(&layer);
    register(hook).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let mut pair = layer.pair.lock();
                pair.0 += 1;
                std::hint::black_box(&mut *pair);
                pair.1 += 1;
            }
        });
        for _ in 0..50 {
            in_forked_child(|| {
                let pair = layer.pair.lock();
                pair.0 == pair.1
            });
        }
    });
    // Other tests of this process may fork as well.
    assert!(*layer.forks.lock() >= 50);
}

#[test]
fn a_dead_hook_is_forgotten_and_its_place_used_again() {
    for _ in 0..200 {
        let layer = Arc::new(Layer { pair: Mutex::new((0, 0)), forks: Mutex::new(0) });
        let hook: Weak<Layer> = Arc::downgrade(&layer);
        register(hook).unwrap();
    }
    in_forked_child(|| true);
}
