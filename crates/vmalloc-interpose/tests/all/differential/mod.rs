//! Random calls through the library and straight to the kernel, compared call by call: answers,
//! errors, access to every page by `/proc/self/maps`, contents.
//!
//! `VMALLOC_CALLS=1000000 cargo test -p vmalloc-interpose --test all differential` makes as many.

mod calls;
mod maps;
mod steps;
mod worlds;

use crate::common::held_fork::{during_a_fork, fork_and};
use crate::common::{again, number, seed};
use std::time::Instant;
use worlds::Worlds;

/// Calls of a run, unless `VMALLOC_CALLS` says otherwise.
const CALLS: u64 = 4000;
/// All contents are compared after as many calls.
const ALL: u64 = 64;
/// A child of a fork compares everything after as many calls, and goes on.
const FORK: u64 = 500;
/// Calls of such a child.
const IN_CHILD: u64 = 30;

fn calls() -> u64 {
    number("VMALLOC_CALLS").unwrap_or(CALLS)
}

fn compare(settings: &[(&str, &str)]) {
    let (seed, calls) = (seed().to_string(), calls().to_string());
    let own = [("VMALLOC_SEED", seed.as_str()), ("VMALLOC_CALLS", &calls), ("VMALLOC_MMAP_LEAST", "4K")];
    again(one_thread_under_the_library, &[&own, settings].concat());
}

#[test]
fn every_call_answers_as_the_kernel() {
    compare(&[]);
}

#[test]
fn every_call_answers_as_the_kernel_while_areas_are_kept_and_cleared() {
    compare(&[("VMALLOC_MMAP_KEEP", "1M")]);
}

#[test]
fn every_call_answers_as_the_kernel_while_areas_are_kept_without_memory() {
    compare(&[("VMALLOC_MMAP_KEEP", "1M"), ("VMALLOC_MMAP_CLEAR", "0")]);
}

/// As many calls in a row are made while a thread forks, and as many while none does.
const IN_FORK: u64 = 50;

#[test]
fn every_call_answers_as_the_kernel_while_another_thread_forks() {
    for keep in [None, Some(("VMALLOC_MMAP_KEEP", "1M"))] {
        let (seed, calls) = (seed().to_string(), calls().to_string());
        let own = [("VMALLOC_SEED", seed.as_str()), ("VMALLOC_CALLS", &calls), ("VMALLOC_MMAP_LEAST", "4K")];
        again(calls_in_forks_under_the_library, &[&own[..], keep.as_slice()].concat());
    }
}

#[test]
#[ignore = "run by the others, under the library"]
fn calls_in_forks_under_the_library() {
    let mut worlds = Worlds::new(seed(), 0, false);
    let steps = |worlds: &mut Worlds| (0..IN_FORK).for_each(|_| steps::step(worlds));
    for _ in 0..calls() / (2 * IN_FORK) {
        steps(&mut worlds);
        during_a_fork(&mut worlds, steps, in_child);
        worlds.compare_all();
    }
    println!("calls: {} in all, half of them while a thread forks", calls());
}

#[test]
fn threads_do_not_see_each_other() {
    for keep in [None, Some(("VMALLOC_MMAP_KEEP", "1M"))] {
        let (seed, calls) = (seed().to_string(), (calls() / 4).to_string());
        let own = [("VMALLOC_SEED", seed.as_str()), ("VMALLOC_CALLS", &calls), ("VMALLOC_MMAP_LEAST", "4K")];
        again(threads_under_the_library, &[&own[..], keep.as_slice()].concat());
    }
}

#[test]
#[ignore = "run by the others, under the library"]
fn one_thread_under_the_library() {
    let mut worlds = Worlds::new(seed(), 0, false);
    let start = Instant::now();
    for call in 1..=calls() {
        steps::step(&mut worlds);
        if call % ALL == 0 {
            worlds.compare_all();
        }
        if call % FORK == 0 {
            fork(&mut worlds);
        }
        if call % 50_000 == 0 {
            println!("calls: {call} in {:.0?}", start.elapsed());
        }
    }
    worlds.compare_all();
    println!("calls: {} in all, each in both worlds, in {:.1?}", calls(), start.elapsed());
}

#[test]
#[ignore = "run by the others, under the library"]
fn threads_under_the_library() {
    let seed = seed();
    std::thread::scope(|scope| {
        for thread in 1..=3 {
            scope.spawn(move || {
                let mut worlds = Worlds::new(seed, thread, true);
                for call in 1..=calls() {
                    steps::step(&mut worlds);
                    if call % FORK == 0 {
                        fork(&mut worlds);
                    }
                }
                worlds.compare_all();
            });
        }
    });
}

/// Compares everything in a child, which makes some calls of its own.
fn fork(worlds: &mut Worlds) {
    fork_and(|| in_child(worlds));
}

fn in_child(worlds: &mut Worlds) {
    worlds.compare_all();
    // A region that was left behind has holes that the kernel may fill, and may have had those of
    // others.
    worlds.is_shared = true;
    worlds.regions.retain(|region| !region.stays_behind);
    for _ in 0..IN_CHILD {
        steps::step(worlds);
    }
    worlds.compare_all();
}
