//! Two protocols of counts under all orders of their steps and all that weak memory allows. They
//! are copies, named with each, of what takes a whole space; what is smaller is checked as it is,
//! by the models beside the core's own code
//! (`RUSTFLAGS="--cfg loom" cargo test -p vmalloc --lib models --target-dir target/loom`).

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
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

/// `Space::claim`, its purge, and the run of `HeldNode::claim`: a thread in need says so before it
/// looks into the nodes.
fn need_and_run(says_so_first: bool) {
    loom::model(move || {
        // Addresses in another CPU's pool and in the map, and how many are in need.
        let space = Arc::new((Mutex::new(0u64), Mutex::new(4u64), AtomicU64::new(0)));
        let shared = space.clone();
        let other = thread::spawn(move || {
            let mut pool = shared.0.lock().expect("nobody fails with it");
            if shared.2.load(Relaxed) == 0 {
                *shared.1.lock().expect("nobody fails with it") -= 2;
                *pool += 2;
            }
        });
        let (pool, map, in_need) = &*space;
        if says_so_first {
            in_need.fetch_add(1, Relaxed);
        }
        let shed = std::mem::take(&mut *pool.lock().expect("nobody fails with it"));
        *map.lock().expect("nobody fails with it") += shed;
        if !says_so_first {
            in_need.fetch_add(1, Relaxed);
        }
        assert_eq!(*map.lock().expect("nobody fails with it"), 4, "addresses for all that is needed");
        other.join().expect("the other ends");
    });
}

#[test]
fn allocation_in_need_finds_pooled_areas() {
    need_and_run(true);
}

#[test]
#[should_panic(expected = "addresses for all")]
fn allocation_in_need_announced_too_late_is_caught() {
    need_and_run(false);
}
