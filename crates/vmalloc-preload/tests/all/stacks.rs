//! Threads that have the least stack that there is, 16 KiB.

use crate::common::{done, program, run};

/// With purges of many ranges at once and of few, and of each kind.
const SETTINGS: [&[(&str, &str)]; 5] = [
    &[],
    &[("VMALLOC_BUDGET", "0")],
    &[("VMALLOC_DECAY", "1")],
    &[("VMALLOC_GUARDS", "1")],
    &[("VMALLOC_THREAD", "1")],
];

fn play(names: &[&str]) {
    let stacks = program("stacks.c");
    for settings in SETTINGS {
        for name in names {
            done(&run(&stacks, &[name], settings));
        }
    }
}

#[test]
fn a_thread_with_the_least_stack_may_free_and_trim() {
    play(&["free", "trim"]);
}

#[test]
fn a_thread_with_the_least_stack_may_start_the_heap_and_use_all_of_it() {
    play(&["start", "all"]);
}
