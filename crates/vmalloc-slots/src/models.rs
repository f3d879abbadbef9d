//! A slot that changes hands under weak memory: the next owner sees what the last one noted of it,
//! and there is one owner.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p vmalloc-slots --lib models --target-dir target/loom
//! ```
//!
//! With a relaxed exchange in `IndexSet::insert` or `IndexSet::remove` the first model fails, and
//! with a load and a store in `remove` the second. The third fails with a relaxed exchange in
//! `FreeSet::park` or `FreeSet::take_parked`, or with an exchange that only releases in `park`. The
//! fourth fails without the fence in `FreeSet::mark` or in `FreeSet::unmark`.

use crate::free_set::FreeSet;
use crate::index_set::IndexSet;
use crate::record::{Records, SlotState};
use crate::sync::AtomicUsize;
use crate::turns::Turns;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use loom::sync::Arc;
use loom::thread;

fn state(committed: u64) -> SlotState {
    SlotState { base: 16, committed, ..SlotState::default() }
}

#[test]
fn models_of_a_slot_that_changes_hands_hold() {
    loom::model(|| {
        let scene = Arc::new((IndexSet::new(2).expect("memory"), Records::new(2).expect("memory")));
        let theirs = scene.clone();
        let freeing = thread::spawn(move || {
            let (free, records) = &*theirs;
            records.set(1, state(3));
            free.insert(1);
        });
        let (free, records) = &*scene;
        if let Some(index) = free.remove_lowest() {
            assert_eq!((index, records.get(1)), (1, state(3)));
            records.set(1, state(4));
            free.insert(1);
        }
        freeing.join().expect("no panic");
        assert!(free.remove(1));
    });
}

#[test]
fn models_of_two_that_want_one_slot_hold() {
    loom::model(|| {
        let free = Arc::new(IndexSet::new(1).expect("memory"));
        free.insert(0);
        let theirs = free.clone();
        let other = thread::spawn(move || theirs.remove(0));
        let own = free.remove_lowest().is_some();
        assert!(own != other.join().expect("no panic"), "one owner");
        assert_eq!(free.len(), 0);
    });
}

#[test]
fn models_of_slots_that_are_parked_hold() {
    loom::model(|| {
        let scene = Arc::new((FreeSet::new(2, 1).expect("memory"), Records::new(2).expect("memory")));
        let theirs = scene.clone();
        let freeing = thread::spawn(move || {
            let (free, records) = &*theirs;
            records.set(1, state(3));
            free.park(0, 1).inspect(|&other| assert_eq!((other, records.get(other)), (0, state(2))))
        });
        let (free, records) = &*scene;
        records.set(0, state(2));
        let mut owned = Vec::from_iter(free.park(0, 0));
        owned.extend(free.take_parked(0));
        owned.iter().for_each(|&index| assert_eq!(records.get(index), state(2 + index as u64)));
        owned.extend(freeing.join().expect("no panic"));
        owned.extend(free.take_any_parked());
        owned.sort_unstable();
        assert_eq!(owned, [0, 1], "each slot has one owner");
    });
}

/// A drain has forgotten that it was asked before it looks, as `Space::drain` does, and a free
/// reads that word last, as `Space::tell` does.
#[test]
fn models_of_a_free_beside_the_last_drain_hold() {
    const ASKED: usize = 1;
    loom::model(|| {
        let scene = Arc::new((FreeSet::new(2, 1).expect("memory"), AtomicUsize::new(ASKED)));
        let theirs = scene.clone();
        let freeing = thread::spawn(move || {
            let (free, told) = &*theirs;
            assert_eq!(free.park(0, 1), None);
            free.mark();
            told.load(Relaxed) != ASKED
        });
        let (free, told) = &*scene;
        told.swap(0, Relaxed);
        let comes_again = free.unmark();
        let is_asked = freeing.join().expect("no panic");
        assert!(comes_again || is_asked, "the slot is overlooked");
    });
}

#[test]
fn models_of_a_flush_beside_a_drain_hold() {
    loom::model(|| {
        let scene = Arc::new((IndexSet::new(2).expect("memory"), Turns::new()));
        scene.0.insert(1);
        let theirs = scene.clone();
        let draining = thread::spawn(move || {
            let (waiting, turns) = &*theirs;
            let turn = turns.drain(0);
            let taken = turn.as_ref().and_then(|_| waiting.remove_lowest());
            // It is refused, and goes on waiting.
            taken.into_iter().for_each(|index| waiting.insert(index));
        });
        let (waiting, turns) = &*scene;
        let _turn = turns.caller(0);
        assert!(waiting.remove(1), "a drain has the slot");
        draining.join().expect("no panic");
    });
}
