//! Notifiers and forks: a child calls them, whatever its parent's threads were doing.

use crate::common::{free, in_forked_child, in_own_process};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use vmalloc::{Notifier, Request, Space, SpaceOptions};
use vmalloc_harness::output_of_child;
use vmalloc_linux::{Linux, LinuxOptions, open};

const BYTES: usize = 64 << 10;

/// Holds areas, and may be told to stay inside a call.
struct Cache {
    held: Mutex<Vec<usize>>,
    stays: AtomicBool,
    inside: AtomicBool,
    calls: AtomicU64,
}

impl Notifier<Linux> for Cache {
    fn make_room(self: Arc<Self>, space: &Space<Linux>, _: u64) -> u64 {
        self.calls.fetch_add(1, SeqCst);
        if self.stays.load(SeqCst) {
            self.inside.store(true, SeqCst);
            while self.stays.load(SeqCst) {
                thread::yield_now();
            }
            return 0;
        }
        let held = std::mem::take(&mut *self.held.lock().expect("no panic"));
        held.iter().for_each(|&addr| free(space, addr));
        held.len() as u64 * 17
    }
}

/// Lets a thread go on that stays inside a call, also when the test fails.
struct EndStay<'a>(&'a Cache);

impl Drop for EndStay<'_> {
    fn drop(&mut self) {
        self.0.stays.store(false, SeqCst);
    }
}

#[test]
fn a_fork_while_a_thread_is_inside_a_notifier_leaves_a_child_that_calls_them() {
    in_own_process(|| {
        let options = LinuxOptions::new().max_bytes(64 << 20).frame_bytes(0).drain_thread(false);
        let space = open(options, SpaceOptions::default()).expect("a space");
        let mut areas: Vec<usize> =
            std::iter::from_fn(|| space.raw().alloc(&Request::new(BYTES)).ok()).collect();
        let held = Mutex::new(areas.split_off(areas.len() - 100));
        let (stays, inside, calls) = (AtomicBool::new(true), AtomicBool::new(false), AtomicU64::new(0));
        let cache = Arc::new(Cache { held, stays, inside, calls });
        let notifier: Arc<dyn Notifier<Linux>> = cache.clone();
        space.register_notifier(&notifier).expect("there is memory");
        thread::scope(|scope| {
            scope.spawn(|| space.raw().alloc(&Request::new(BYTES)));
            while !cache.inside.load(SeqCst) {
                thread::yield_now();
            }
            let _guard = EndStay(&cache);
            in_forked_child(|| {
                cache.stays.store(false, SeqCst);
                let before = cache.calls.load(SeqCst);
                let met = space.raw().alloc(&Request::new(BYTES)).is_ok();
                areas.iter().for_each(|&addr| free(&space, addr));
                space.purge().expect("the kernel agrees");
                // With the second, more of its size come along.
                (0..2).for_each(|_| _ = space.raw().alloc(&Request::new(1)).expect("all is free"));
                let (calls, pooled) = (cache.calls.load(SeqCst) - before, space.stats().pooled_areas);
                assert!(met && calls == 1 && pooled > 0, "{met}, {calls} calls, {pooled} areas pooled");
                true
            });
        });
    });
}

/// Forks wherever it is called.
struct Forking;

impl Notifier<Linux> for Forking {
    fn make_room(self: Arc<Self>, _: &Space<Linux>, _: u64) -> u64 {
        0
    }

    fn decay(self: Arc<Self>, _: &Space<Linux>) -> bool {
        in_forked_child(|| true);
        false
    }
}

#[test]
fn a_notifier_may_fork_in_a_drain_of_the_program_and_not_on_the_drain_thread() {
    in_own_process(|| {
        for has_thread in [false, true] {
            let (said, status) = output_of_child(|| {
                let options = LinuxOptions::new().max_bytes(64 << 20).drain_thread(has_thread);
                let space = open(options, SpaceOptions::default()).expect("a space");
                let notifier: Arc<dyn Notifier<Linux>> = Arc::new(Forking);
                space.register_notifier(&notifier).expect("there is memory");
                let freed = space.raw().alloc(&Request::new(BYTES)).expect("room");
                free(&space, freed);
                space.decay().expect("the kernel agrees");
                if has_thread {
                    loop {
                        thread::park();
                    }
                }
            });
            match has_thread {
                false => assert_eq!(status, 0, "{said}"),
                true => {
                    assert!(
                        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT,
                        "{status:#x}"
                    );
                    assert!(said.contains("vmalloc: a notifier forked on the drain thread"), "{said}");
                }
            }
        }
    });
}
