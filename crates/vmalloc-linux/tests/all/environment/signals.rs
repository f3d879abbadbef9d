//! Signals whose handler does nothing, at any moment.

use super::exercise::exercise;
use super::{finish, for_both_guards};
use crate::common::in_own_process;
use crate::common::process::{Thread, handle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static COUNT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Runs `act` in this thread, which gets signals all the while, as fast as they can be sent.
fn pestered(act: impl FnOnce()) {
    let target = Thread::current();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                target.interrupt();
                thread::sleep(Duration::from_micros(20));
            }
        });
        act();
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn signals_change_nothing() {
    in_own_process(|| {
        for flags in [0, libc::SA_RESTART] {
            handle(libc::SIGUSR1, count, flags);
            for_both_guards(|space| {
                let before = COUNT.load(Ordering::Relaxed);
                let start = Instant::now();
                let mut rounds = 0;
                pestered(|| {
                    // Until there were enough of them, however long that takes.
                    while COUNT.load(Ordering::Relaxed) - before < 300 {
                        let done = exercise(space);
                        assert!(done.refusals.is_empty(), "{:?}", done.refusals);
                        done.owed.give(space);
                        rounds += 1;
                    }
                });
                eprintln!("{rounds} rounds in {:?}", start.elapsed());
                finish(space, super::Owed::default());
            });
        }
    });
}
