//! Small protocols under all orders of their steps and all that weak memory allows. The explorations of whole spaces are
//! sequentially consistent; whether an ordering is strong enough is seen here.
//!
//! The version is the core's own code over other atomics. The rest are models: what they copy is named with each.
#![cfg(shuttle)]
// What a model does not call of the code that it includes.
#![allow(dead_code)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use version::Version;

/// What the core's facade is for the core.
mod sync {
    pub(crate) use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering;
    use std::cell::Cell;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Mutant {
        NoVersion,
        NoFence,
    }

    // All threads of a model run in one of the system's.
    thread_local! {
        static BROKEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(crate) fn break_it(how: Mutant) {
        BROKEN.set(Some(how));
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        BROKEN.get() == Some(mutant)
    }

    pub(crate) fn fence(order: Ordering) {
        if !is(Mutant::NoFence) {
            loom::sync::atomic::fence(order);
        }
    }
}

#[path = "../../vmalloc/src/area_map/version.rs"]
mod version;

/// A holder of the map changes two words twice, somebody looks at both without the lock.
fn look_while_changing() {
    loom::model(|| {
        let planes = Arc::new((Version::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let shared = planes.clone();
        let holder = thread::spawn(move || {
            let (version, first, second) = &*shared;
            for value in 1..=2 {
                version.begin();
                first.store(value, Relaxed);
                second.store(value, Relaxed);
                version.end();
            }
        });
        let (version, first, second) = &*planes;
        if let Some((first, second)) = version.read(|| (first.load(Relaxed), second.load(Relaxed))) {
            assert_eq!(first, second, "a mixture was seen");
        }
        holder.join().expect("the holder ends");
        let seen = version.read(|| (first.load(Relaxed), second.load(Relaxed)));
        assert_eq!(seen, Some((2, 2)), "nothing is changing any more");
    });
}

#[test]
fn a_look_sees_no_mixture() {
    look_while_changing();
}

#[test]
#[should_panic(expected = "a mixture was seen")]
fn without_a_version_it_does() {
    sync::break_it(sync::Mutant::NoVersion);
    look_while_changing();
}

#[test]
#[should_panic(expected = "a mixture was seen")]
fn without_fences_it_does() {
    sync::break_it(sync::Mutant::NoFence);
    look_while_changing();
}

/// `Long::part` and `Long::join`, which flip busy bits.
struct Busy(AtomicU64);

impl Busy {
    fn clear(&self, mask: u64) -> bool {
        self.0.fetch_and(!mask, Relaxed) & mask != 0
    }

    fn clear_in_two_steps(&self, mask: u64) -> bool {
        let word = self.0.load(Relaxed);
        self.0.store(word & !mask, Relaxed);
        word & mask != 0
    }

    fn set(&self, mask: u64) -> bool {
        self.0.fetch_or(mask, Relaxed) & mask != 0
    }
}

/// Two free one area, while a neighbour in the same word is freed and handed out again.
fn two_freers(clear: fn(&Busy, u64) -> bool) {
    loom::model(move || {
        let busy = Arc::new(Busy(AtomicU64::new(0b11)));
        let shared = busy.clone();
        let other = thread::spawn(move || clear(&shared, 0b01));
        let shared = busy.clone();
        let neighbour = thread::spawn(move || {
            assert!(clear(&shared, 0b10), "the neighbour was busy");
            assert!(!shared.set(0b10), "the neighbour was retired");
        });
        let first = clear(&busy, 0b01);
        let second = other.join().expect("the other ends");
        neighbour.join().expect("the neighbour ends");
        assert!(first != second, "one of two frees the area");
        assert_eq!(busy.0.load(Relaxed), 0b10, "the neighbour is as it was left");
    });
}

#[test]
fn of_two_who_free_an_area_one_succeeds() {
    two_freers(Busy::clear);
}

#[test]
#[should_panic]
fn a_flip_in_two_steps_lets_both() {
    two_freers(Busy::clear_in_two_steps);
}

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
fn lazy_pages_are_told_of_before_they_are_counted_off() {
    count_lazy_pages(|node, lazy| {
        let mut node = node.lock().expect("nobody fails with it");
        node.0 += 3;
        lazy.fetch_add(3, Relaxed);
    });
}

#[test]
#[should_panic(expected = "fewer than none")]
fn told_of_without_the_lock_they_are_not() {
    count_lazy_pages(|node, lazy| {
        node.lock().expect("nobody fails with it").0 += 3;
        lazy.fetch_add(3, Relaxed);
    });
}

/// `claim`, its purge, and the run of `try_claim`: who is in need says so before he looks into the nodes.
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
fn who_is_in_need_finds_what_is_not_in_use() {
    need_and_run(true);
}

#[test]
#[should_panic(expected = "addresses for all")]
fn who_says_so_too_late_does_not() {
    need_and_run(false);
}

/// `Deferred`: frees push areas, linked through their first words, and a purge takes them all.
fn defer(entered: Ordering, taken: Ordering) {
    loom::model(move || {
        // Two areas, named 1 and 2, and the last that was entered.
        let words = || [UnsafeCell::new(0), UnsafeCell::new(0)];
        let space = Arc::new((words(), AtomicUsize::new(0)));
        let threads = [1, 2].map(|area| {
            let space = space.clone();
            thread::spawn(move || {
                let (words, last) = &*space;
                let mut before = last.load(Relaxed);
                loop {
                    // SAFETY: the area is this thread's until it is entered.
                    words[area - 1].with_mut(|word| unsafe { *word = before });
                    match last.compare_exchange_weak(before, area, entered, Relaxed) {
                        Ok(_) => return,
                        Err(other) => before = other,
                    }
                }
            })
        });
        let take = || {
            let (words, last) = &*space;
            let (mut area, mut count) = (last.swap(0, taken), 0);
            while area != 0 {
                // SAFETY: the area was entered, and taken out.
                area = words[area - 1].with(|word| unsafe { *word });
                count += 1;
            }
            count
        };
        let early = take();
        threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
        assert_eq!(early + take(), 2, "every area is taken once");
    });
}

#[test]
fn deferred_areas_are_taken_once() {
    defer(Ordering::Release, Ordering::Acquire);
}

#[test]
#[should_panic]
fn entered_without_release_their_words_are_not_seen() {
    defer(Relaxed, Ordering::Acquire);
}
