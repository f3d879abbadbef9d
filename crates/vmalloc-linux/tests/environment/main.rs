//! The environments that a program may find itself in: calls that the kernel refuses or does in
//! part, limits, locked memory, signals, forks, one CPU. Each case is a process of its own, which
//! it may ruin.
//!
//! What holds in all of them: an allocation works, and shows what was written to it, or it fails
//! with an error that names the reason. Nothing is lost: as soon as the environment allows, the
//! space is whole again, and until then what stays back is in [`Stats`](vmalloc::Stats).

#[path = "../common/mod.rs"]
mod common;

mod exercise;
mod gathering;
mod holes;
mod kernel;
mod locked;
mod machine;
mod resources;
mod sandbox;
mod signals;
mod threads;

use exercise::{Owed, exercise};
use std::sync::Arc;
use vmalloc::{Config, Space, Stats};
use vmalloc_linux::{BatchAdvise, Guards, Linux, OpenError, Options, ReserveError, open};

const PAGE: usize = 4096;
const SPAN: usize = 1 << 32;
const FRAMES: usize = 1 << 12;

/// Lazy pages that start a purge, whatever the machine has: 32 MiB.
const LAZY_MAX: u64 = 8 << 10;

/// Memory is unmapped when it is freed, or kept for reuse.
fn configs() -> [Config; 2] {
    [Config::default().unmap_on_free(), Config::default()].map(|config| config.lazy_max_pages(LAZY_MAX))
}

fn options(guards: Guards, vectors: BatchAdvise) -> Options {
    let options = Options::new().exactly(SPAN).frame_bytes(FRAMES * PAGE).without_drain_thread();
    options.guards(guards).batch_advise(vectors)
}

/// A space with these means; `None` where the kernel lacks them.
fn space_with(options: Options, config: Config) -> Option<Arc<Space<Linux>>> {
    match open(options, config) {
        Ok(space) => Some(space),
        Err(OpenError::Reserve(error @ ReserveError::Unsupported { .. })) => {
            eprintln!("NOT RUN: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a scenario on a fresh space for each strategy that the kernel has, and each configuration.
fn everywhere(scenario: impl Fn(&Arc<Space<Linux>>)) {
    for guards in Guards::all() {
        for vectors in BatchAdvise::all() {
            for config in configs() {
                if let Some(space) = space_with(options(guards, vectors), config) {
                    eprintln!("with {guards:?}, {vectors:?}, {:?} bytes cached", config.cache_bytes);
                    scenario(&space);
                }
            }
        }
    }
}

/// Runs a scenario for each way to guard, and one way to advise.
fn for_both_guards(scenario: impl Fn(&Arc<Space<Linux>>)) {
    configs().into_iter().for_each(|config| for_both_guards_in(config, &scenario));
}

/// Runs a scenario for each way to guard, in one configuration.
fn for_both_guards_in(config: Config, scenario: impl Fn(&Arc<Space<Linux>>)) {
    for guards in Guards::all() {
        if let Some(space) = space_with(options(guards, BatchAdvise::PidfdSelf), config) {
            eprintln!("with {guards:?}, {:?} bytes cached", config.cache_bytes);
            scenario(&space);
        }
    }
}

/// The counts add up, whatever stays back.
fn check(space: &Space<Linux>) {
    space.verify().unwrap();
    let stats = space.stats();
    let Stats { free_pages, busy_pages, lazy_pages, cached_pages, pooled_pages, .. } = stats;
    assert_eq!(
        free_pages + busy_pages + lazy_pages + cached_pages + pooled_pages,
        stats.span_pages,
        "{stats:?}"
    );
    assert!(stats.refused_areas <= stats.lazy_areas && stats.refused_pages <= lazy_pages, "{stats:?}");
}

/// Checks that the space is whole again, and works, after a restriction has ended.
fn finish(space: &Space<Linux>, owed: Owed) {
    space.purge().unwrap();
    owed.give(space);
    let done = exercise(space);
    assert!(done.refusals.is_empty(), "{:?}", done.refusals);
    space.purge().unwrap();
    done.owed.give(space);
    check(space);
    let Stats { free_pages, span_pages, busy_areas, lazy_areas, refused_areas, .. } = space.stats();
    assert_eq!((free_pages, busy_areas, lazy_areas, refused_areas), (span_pages, 0, 0, 0));
}
