//! The stack of deferred areas under weak memory.

use super::Deferred;
use crate::sync::modelled::{holds, needs};
use crate::sync::{set_word_at, word_at};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;

/// Takes all areas that are on the stack, as a purge does, and writes over what they began with, as
/// their next owner.
fn take_all(stack: &Deferred) -> Vec<usize> {
    let mut taken = Vec::new();
    let mut addr = stack.take();
    while addr != 0 {
        // SAFETY: the area was entered, and taken out.
        let before = unsafe { word_at(addr) };
        // SAFETY: as above, and this thread owns the area now.
        unsafe { set_word_at(addr, 77) };
        taken.push(addr);
        addr = before;
    }
    taken
}

/// Two threads enter an area each, and a purge takes what it finds.
fn two_enter_and_one_takes() {
    let stack = Arc::new(Deferred::default());
    assert_eq!(stack.take(), 0);
    let threads = [0x1000, 0x2000].map(|addr| {
        let stack = stack.clone();
        // SAFETY: the area is that thread's until it is entered.
        thread::spawn(move || unsafe { stack.enter(addr) })
    });
    let mut taken = take_all(&stack);
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    taken.extend(take_all(&stack));
    taken.sort();
    assert_eq!(taken, [0x1000, 0x2000], "every area is taken once");
}

#[test]
fn models_of_deferred_areas_need_every_order() {
    let orders = [
        "Acquire: self.last.swap(0, Ordering::Acquire)",
        "Release: match self.last.compare_exchange_weak(last, addr, Ordering::Release, Ordering::Relaxed) {",
    ];
    needs(&orders, 3, two_enter_and_one_takes);
}

/// An area is entered, taken, handed out, and entered again, while another is on its way: the top
/// of the stack may be the same as before, with something else below it.
fn an_area_comes_back() {
    let stack = Arc::new(Deferred::default());
    assert_eq!(stack.take(), 0);
    // SAFETY: the area is this thread's.
    unsafe { stack.enter(0x1000) };
    let shared = stack.clone();
    // SAFETY: the area is that thread's until it is entered.
    let other = thread::spawn(move || unsafe { shared.enter(0x2000) });
    let mut taken = take_all(&stack);
    if taken.contains(&0x1000) {
        // SAFETY: it was taken out, so this thread owns it.
        unsafe { stack.enter(0x1000) };
        taken.retain(|&addr| addr != 0x1000);
    }
    other.join().expect("the thread ends");
    taken.extend(take_all(&stack));
    taken.sort();
    assert_eq!(taken, [0x1000, 0x2000], "every area is taken once");
}

#[test]
fn models_of_deferred_aba_hold() {
    holds(3, an_area_comes_back);
}
