//! Three protocols under all orders of their steps and all that weak memory allows. They are
//! copies, named with each, of what takes a whole space; what is smaller is checked as it is, by
//! the models beside the core's own code
//! (`RUSTFLAGS="--cfg loom" cargo test -p vmalloc --lib models --target-dir target/loom`).

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// `Space::publish`, `take` and `count_given`: a free tells of its pages, a purge counts them off.
fn count_lazy_pages(publish: fn(&Mutex<(u64, u64)>, &AtomicU64)) {
    loom::model(move || {
        // Pages in the node's list and those not told of yet; pages told of.
        let space = Arc::new((Mutex::new((0, 0)), AtomicU64::new(0)));
        let shared = space.clone();
        let freer = thread::spawn(move || publish(&shared.0, &shared.1));
        let (node, lazy) = &*space;
        for _ in 0..2 {
            let taken = {
                let mut node = node.lock().expect("nobody fails with it");
                let (pages, unpublished) = std::mem::take(&mut *node);
                lazy.fetch_add(unpublished, Relaxed);
                pages
            };
            assert!(lazy.fetch_sub(taken, Relaxed) >= taken, "fewer than none");
        }
        freer.join().expect("the freer ends");
    });
}

#[test]
fn lazy_pages_are_published_before_they_are_subtracted() {
    count_lazy_pages(|node, lazy| {
        let mut node = node.lock().expect("nobody fails with it");
        node.0 += 3;
        lazy.fetch_add(3, Relaxed);
    });
}

#[test]
#[should_panic(expected = "fewer than none")]
fn lazy_pages_published_without_the_lock_are_caught() {
    count_lazy_pages(|node, lazy| {
        node.lock().expect("nobody fails with it").0 += 3;
        lazy.fetch_add(3, Relaxed);
    });
}

/// `Space::until_room` and `Space::claim_of_map`: a thread in need says so before it looks into the
/// nodes, and another puts what it takes for later into its node before it lets go of the map.
fn need_and_run(says_so_first: bool, keeps_the_map: bool) {
    loom::model(move || {
        // Addresses in another CPU's pool and in the map, and how many are in need.
        let space = Arc::new((Mutex::new(0u64), Mutex::new(4u64), AtomicU64::new(0)));
        let shared = space.clone();
        let other = thread::spawn(move || {
            for _ in 0..2 {
                let mut map = shared.1.lock().expect("nobody fails with it");
                if shared.2.load(Relaxed) == 0 && *map >= 2 {
                    *map -= 2;
                    let held = keeps_the_map.then_some(map);
                    *shared.0.lock().expect("nobody fails with it") += 2;
                    drop(held);
                }
            }
        });
        let (pool, map, in_need) = &*space;
        if says_so_first {
            in_need.fetch_add(1, Relaxed);
        }
        // The second look finds what the other took before the first.
        let has_all = (0..2).any(|_| {
            let shed = std::mem::take(&mut *pool.lock().expect("nobody fails with it"));
            let mut map = map.lock().expect("nobody fails with it");
            *map += shed;
            *map == 4
        });
        assert!(has_all, "no addresses for all that is needed");
        other.join().expect("the other ends");
    });
}

#[test]
fn allocation_in_need_finds_pooled_areas() {
    need_and_run(true, true);
}

#[test]
#[should_panic(expected = "no addresses for all")]
fn allocation_in_need_announced_too_late_is_caught() {
    need_and_run(false, true);
}

#[test]
#[should_panic(expected = "no addresses for all")]
fn a_run_put_in_without_the_map_is_caught() {
    need_and_run(true, false);
}

/// `Space::purge_with` and `Deferred`: a call enters an area without a lock, and has nothing to do
/// where it waited for a purge that began after it.
fn share_purges(keep_order: fn()) {
    loom::model(move || {
        // Areas entered, purges that have begun, and the number of the last.
        let space = Arc::new((AtomicU64::new(0), AtomicU64::new(0), Mutex::new(0)));
        let shared = space.clone();
        let purge = move |begun: Option<u64>, space: &(AtomicU64, AtomicU64, Mutex<u64>)| {
            let mut last = space.2.lock().expect("nobody fails with it");
            if begun.is_none_or(|begun| *last <= begun) {
                *last = space.1.fetch_add(1, Relaxed) + 1;
                keep_order();
                space.0.swap(0, Acquire);
            }
        };
        let other = thread::spawn(move || purge(None, &shared));
        space.0.fetch_add(1, Release);
        keep_order();
        let begun = space.1.load(Relaxed);
        purge(Some(begun), &space);
        assert_eq!(space.0.swap(0, Relaxed), 0, "an area was freed before and not flushed");
        other.join().expect("the other ends");
    });
}

#[test]
fn a_shared_purge_has_what_was_freed_before() {
    share_purges(|| fence(SeqCst));
}

#[test]
#[should_panic(expected = "not flushed")]
fn a_purge_shared_without_fences_is_caught() {
    share_purges(|| {});
}
