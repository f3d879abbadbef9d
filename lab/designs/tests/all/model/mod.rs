//! Every design against a reference too simple to be wrong: random programs on one thread, and
//! threads that meet.
//!
//! `VMALLOC_SEED` repeats a run that failed, `VMALLOC_OPS` makes programs longer.

mod oracle;
mod program;
mod threads;

use program::{Plan, play};
use vmalloc::PageRange;
use vmalloc_harness::env;
use vmalloc_lab::Setup;
use vmalloc_lab::designs::Name;

/// Programs for each design and plan.
const PROGRAMS: u64 = 24;

fn setup(pages: u64, cpus: usize, lazy_max: u64) -> Setup {
    let span = PageRange::from_len(3, pages).expect("a span");
    Setup::with_cpus(cpus).span(span).lazy_max(lazy_max)
}

fn all_designs_follow(plan: impl Fn(u64) -> Plan) {
    // One, if the environment says which.
    let mut seeds: Vec<u64> = (0..PROGRAMS).map(env::seed).collect();
    seeds.dedup();
    for &name in Name::ALL {
        for &seed in &seeds {
            play(name, &plan(seed), seed)
                .unwrap_or_else(|wrong| panic!("{name}, VMALLOC_SEED={seed}: {wrong}"));
        }
    }
}

#[test]
fn in_a_small_span_every_answer_is_one_that_the_reference_allows() {
    all_designs_follow(|seed| Plan {
        setup: setup(2000 + seed * 97, 1 + seed as usize % 3, [0, 64, 500, 1 << 20][seed as usize % 4]),
        steps: env::ops(300),
    });
}

#[test]
fn in_a_large_span_every_answer_is_one_that_the_reference_allows() {
    all_designs_follow(|seed| Plan {
        setup: setup(100_000, 1 + seed as usize % 3, [200, 5000][seed as usize % 2]),
        steps: env::ops(300),
    });
}
