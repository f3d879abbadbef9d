//! Forks: the child goes on with the pool, whatever other threads were doing with it.
#![cfg(not(miri))]

mod common;

use common::{PAGE, fill, is_zero, pool};
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc_slots::{Dirty, Options};

/// Runs `body` in a forked child, and checks that it ends well.
fn in_forked_child(body: impl FnOnce() -> bool) {
    // SAFETY: the child runs only `body`, which the tests keep to the pool, and then exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // A child that hangs must not hang the test.
        // SAFETY: no conditions.
        unsafe { libc::alarm(60) };
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: no conditions.
        unsafe { libc::_exit(if well { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: room for a status; the child is ours.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child ended with wait status {status:#x}");
}

#[test]
fn parent_and_child_have_slots_of_their_own() {
    let pool = pool(Options::new(1 << 30));
    let mut slot = pool.alloc().unwrap();
    fill(&mut slot, PAGE);
    in_forked_child(|| {
        // SAFETY: the slot is the child's copy.
        unsafe { slot.as_ptr().write(1) };
        slot.grow(1 << 20).unwrap();
        fill(&mut slot, 1 << 20);
        let other = pool.alloc().unwrap();
        assert!(is_zero(&other) && other.addr() != slot.addr());
        true
    });
    // SAFETY: the slot is the parent's.
    assert_eq!(unsafe { slot.as_ptr().read() }, 0xa5);
    assert_eq!((slot.committed(), pool.stats().reserved), (64 << 10, 1));
}

/// Other threads are in the middle of everything at the fork: of a set, a batch, a reservation.
#[test]
fn a_fork_while_others_use_the_pool_leaves_a_working_child() {
    let pool = pool(Options::new(1 << 30).keep_bytes(8 << 10).batch_slots(4).warm_slots(30).max_slots(200));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for user in 0..2 {
            let (pool, stop) = (&pool, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut all: Vec<_> = (0..20).map(|_| pool.alloc_for(user).unwrap()).collect();
                    for slot in &mut all {
                        assert!(is_zero(slot));
                        fill(slot, 32 << 10);
                    }
                }
            });
        }
        for _ in 0..20 {
            in_forked_child(|| {
                for nth in 0..20 {
                    let mut some: Vec<_> = (0..16).map(|_| pool.alloc().unwrap()).collect();
                    for slot in &mut some {
                        assert!(is_zero(slot));
                        slot.grow(80 << 10).unwrap();
                        fill(slot, 80 << 10);
                    }
                    if let (Some(slot), true) = (some.pop(), nth % 2 == 0) {
                        // SAFETY: as written.
                        unsafe { slot.free(Dirty::Below(80 << 10)) };
                    }
                }
                pool.flush().is_ok()
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
}
