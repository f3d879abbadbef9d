//! Threads that have the least stack that there is, 16 KiB.

mod common;

use common::{done, program, run};

/// With purges of many ranges at once, and of few.
const SETTINGS: [&[(&str, &str)]; 3] = [&[], &[("VMALLOC_BUDGET", "0")], &[("VMALLOC_DECAY", "1")]];

#[test]
fn a_thread_with_the_least_stack_may_free_and_trim() {
    let stacks = program("stacks.c");
    for settings in SETTINGS {
        for name in ["free", "trim"] {
            done(&run(&stacks, &[name], settings));
        }
    }
}
