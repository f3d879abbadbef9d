//! CPUs that are not there, threads that end, forks in the middle of either.

use super::exercise::{Owed, exercise, is_inside};
use super::{finish, for_both_guards, options, space_in};
use crate::common::sandbox::{Call, refused};
use crate::common::{
    Batches, alloc, assert_words, fill_words, free, in_forked_child, in_own_process, spaces,
};
use libc::SYS_madvise;
use std::sync::mpsc;
use std::thread;
use vmalloc::SpaceOptions;
use vmalloc_linux::{GuardMeans, LinuxOptions};

/// Confines this process to the first CPU that it may use, as where all others were taken away;
/// what it might use before.
fn confine() -> libc::cpu_set_t {
    // SAFETY: a set of bits, and room for one.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut before), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &before)).unwrap();
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one), 0);
        before
    }
}

fn end(cpus: &libc::cpu_set_t) {
    // SAFETY: a set that was read before.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) }, 0);
}

#[test]
fn one_cpu_is_enough_before_and_after() {
    in_own_process(|| {
        for_both_guards(|space| {
            exercise(space).owed.give(space);
            let before = confine();
            finish(space, Owed::default());
            share(space);
            end(&before);
            finish(space, Owed::default());
        });
        let before = confine();
        let spaces: Vec<_> = spaces(LinuxOptions::new(), SpaceOptions::default()).collect();
        for space in &spaces {
            finish(space, Owed::default());
            share(space);
        }
        // More CPUs than there were when it was opened.
        end(&before);
        for space in &spaces {
            share(space);
            finish(space, Owed::default());
        }
    });
}

/// Threads allocate, hand their areas on and end, while others allocate and free.
fn share(space: &vmalloc::Space<vmalloc_linux::Linux>) {
    const ROUNDS: usize = 6;
    let (to, areas) = mpsc::channel::<(usize, usize)>();
    thread::scope(|scope| {
        for round in 0..ROUNDS {
            let short = (0..4).map(|nth| {
                let to = to.clone();
                scope.spawn(move || {
                    for step in 0..20 {
                        let pages = 1 + (round + nth * step) % 40;
                        let addr = alloc(space, pages);
                        fill_words(addr, pages);
                        to.send((addr, pages)).unwrap();
                    }
                })
            });
            let short: Vec<_> = short.collect();
            let freed = scope.spawn({
                let some: Vec<_> = (0..40).map_while(|_| areas.recv().ok()).collect();
                move || {
                    for (addr, pages) in some {
                        assert_words(addr, pages);
                        free(space, addr);
                    }
                    space.decay().unwrap();
                }
            });
            short.into_iter().chain([freed]).for_each(|thread| thread.join().unwrap());
        }
        drop(to);
        for (addr, pages) in areas {
            assert_words(addr, pages);
            free(space, addr);
        }
    });
    space.purge().unwrap();
}

/// The child has what its parent could not unmap, and the same sandbox; or not any more.
#[test]
fn a_child_goes_on_with_what_its_parent_could_not_unmap() {
    in_own_process(|| {
        for guards in GuardMeans::all() {
            for relents_first in [false, true] {
                // Single calls: what they are about is in registers, which the supervisor sees in
                // any process.
                let unmapping = SpaceOptions::default().unmap_on_free();
                let Some(space) = space_in(Batches::Refused, options(guards), unmapping) else { continue };
                let before = exercise(&space);
                let is_meant = |call: &Call| is_inside(&space, call.args[0]);
                refused(&[SYS_madvise], libc::EIO, is_meant, |refusal| {
                    let done = exercise(&space);
                    assert!(space.stats().refused_areas > 0);
                    if relents_first {
                        refusal.end();
                    }
                    in_forked_child(|| {
                        let done = exercise(&space);
                        assert_eq!(done.refusals.is_empty(), relents_first, "{:?}", done.refusals);
                        assert_eq!(space.purge().is_ok(), relents_first);
                        true
                    });
                    refusal.end();
                    finish(&space, done.owed);
                });
                before.owed.give(&space);
            }
        }
    });
}
