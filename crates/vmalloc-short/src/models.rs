//! Bytes and windows of a block under weak memory. The page behind a slot is a cell that loom
//! watches: a thread that maps or unmaps a page must come after every thread that did so before.

use super::{AtomicWindow, Block, Window};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::boxed::Box;
use vmalloc::sync::modelled::{holds, needs};
use zerocopy::FromZeros;

/// Slots of the block, whose pages are their numbers and so many more.
const SLOTS: u64 = 2;
const FIRST: u64 = 16;
const END: u64 = FIRST + SLOTS;

/// A block, a window of one queue and of another, and the entries of the page table.
struct Scene {
    block: Box<Block>,
    here: AtomicWindow,
    there: AtomicWindow,
    entries: [UnsafeCell<u64>; SLOTS as usize],
}

impl Scene {
    /// All slots are a window here.
    fn new() -> Arc<Self> {
        let block = Block::new_box_zeroed().expect("a record");
        block.reserve(FIRST..END, 0);
        assert_eq!(block.hold(SLOTS), 0);
        assert_eq!(block.runs(FIRST..END).count() as u64, SLOTS);
        let (here, there) = (AtomicWindow::default(), AtomicWindow::default());
        assert_eq!((here.close().next, there.close().next), (0, 0));
        here.open(Window { next: FIRST, end: END });
        Arc::new(Self { block, here, there, entries: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    /// Maps or unmaps a page, which the caller owns.
    fn set(&self, page: u64, entry: u64) {
        // SAFETY: all threads of a model run in one of the system's; loom reports a thread that is
        // not alone.
        self.entries[(page - FIRST) as usize].with_mut(|place| unsafe { *place = entry });
    }

    /// A mapping of one page from its begin to its end; whether no slot is held any more.
    fn map_and_unmap(&self, hot: &AtomicWindow) -> Option<bool> {
        // Another thread may be at it.
        let page = (0..SLOTS).find_map(|_| hot.take(0))?;
        self.block.take(page, 1);
        self.set(page, 1);
        assert!(self.block.give_run(page, 1), "nobody else returned it");
        Some(self.block.give(1) == 1)
    }

    /// Recycles dirty slots as a purge does, while others live on: they are unmapped and become a
    /// window of another queue.
    fn recycle(&self) {
        for page in FIRST..END {
            if self.block.clear_dirty(page..page + 1) == 1 {
                self.set(page, 0);
                self.block.reserve(page..page + 1, 0);
                self.block.hold(1);
                return self.there.open(Window { next: page, end: page + 1 });
            }
        }
    }
}

/// Slots that one thread returns are unmapped by a second, and mapped by a third.
fn slots_go_round() {
    let scene = Scene::new();
    let shared = scene.clone();
    let user = thread::spawn(move || shared.map_and_unmap(&shared.here).expect("a slot"));
    let shared = scene.clone();
    let next = thread::spawn(move || shared.map_and_unmap(&shared.there));
    scene.recycle();
    user.join().expect("the user ends");
    next.join().expect("the next user ends");
}

#[test]
fn models_of_recycled_slots_need_every_order() {
    let orders = [
        "Acquire: SlotState::of(self.byte(page).load(Acquire))",
        "Release: self.byte(start).compare_exchange(old, new, AcqRel, Relaxed).is_ok()",
        "Acquire: let taken = self.0.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed);",
        "Release: self.0.store(window.next << LEN_BITS | window.len(), Ordering::Release);",
    ];
    needs(&orders, 2, slots_go_round);
}

/// Two threads return the last two slots: the second of them unmaps both.
fn the_last_unmaps_all() {
    let scene = Scene::new();
    let use_a_slot = |scene: &Scene| {
        let is_last = scene.map_and_unmap(&scene.here).expect("a slot");
        if is_last {
            (FIRST..END).for_each(|page| scene.set(page, 0));
        }
        is_last
    };
    let shared = scene.clone();
    let other = thread::spawn(move || use_a_slot(&shared));
    let here = use_a_slot(&scene);
    let there = other.join().expect("the other ends");
    assert!(here != there, "one of the two is the last");
}

#[test]
fn models_of_last_slots_returned_need_every_order() {
    let orders =
        ["Acquire: self.held.fetch_sub(slots, AcqRel)", "Release: self.held.fetch_sub(slots, AcqRel)"];
    needs(&orders, 3, the_last_unmaps_all);
}

#[test]
fn models_of_last_slots_returned_hold() {
    holds(3, the_last_unmaps_all);
}

/// Two threads return one mapping.
fn two_return_one_mapping() {
    let scene = Scene::new();
    let page = scene.here.take(0).expect("a slot");
    scene.block.take(page, 1);
    let shared = scene.clone();
    let other = thread::spawn(move || shared.block.give_run(page, 1));
    let here = scene.block.give_run(page, 1);
    assert!(here != other.join().expect("the other ends"), "one of the two returns it");
}

#[test]
fn models_of_slots_returned_twice_hold() {
    holds(3, two_return_one_mapping);
}

/// A window is closed while two threads take from it: no slot is handed out twice, and none is
/// lost.
fn a_window_is_closed() {
    let scene = Scene::new();
    let shared = scene.clone();
    let other = thread::spawn(move || shared.here.take(0));
    let left = scene.here.close();
    let here = scene.here.take(0);
    let there = other.join().expect("the other ends");
    assert_eq!(here, None, "it is closed");
    let taken = u64::from(there.is_some());
    assert_eq!((left.next, left.end), (FIRST + taken, END));
}

#[test]
fn models_of_a_closed_window_hold() {
    holds(3, a_window_is_closed);
}
