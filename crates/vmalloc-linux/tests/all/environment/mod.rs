//! The environments that a program may find itself in: calls that the kernel refuses or does in
//! part, limits, locked memory, signals, forks, one CPU. Each case is a process of its own, which
//! it may ruin.
//!
//! What holds in all of them: an allocation works, and shows what was written to it, or it fails
//! with an error that names the reason. Nothing is lost: as soon as the environment allows, the
//! space is whole again, and until then what stays back is in [`Stats`](vmalloc::Stats).
// Parts are for `holes` and `kernel` alone.
#![cfg_attr(not(all(target_env = "gnu", target_pointer_width = "64")), allow(dead_code))]

mod exercise;
mod locked;
mod machine;
mod resources;
mod signals;
mod threads;

// They hold up a thread in mmap(2). musl's heap makes that call under its only lock, for which the
// thread that is to answer would wait; and programs of 32 bits make another call, mmap2.
#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
mod holes;
#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
mod kernel;

use crate::common::{Batches, opened, page_bytes, spaces};
use exercise::{Owed, exercise};
use std::sync::Arc;
use vmalloc::{Space, SpaceOptions, Stats};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

pub(crate) fn span() -> usize {
    page_bytes() << 18
}
const FRAMES: usize = 1 << 12;

/// Lazy pages that start a purge, whatever the machine has: 32 MiB.
const LAZY_MAX: u64 = 8 << 10;

/// Memory is unmapped when it is freed, or kept for reuse.
fn all_options() -> [SpaceOptions; 2] {
    [SpaceOptions::default().unmap_on_free(), SpaceOptions::default()]
        .map(|space_options| space_options.lazy_max_pages(LAZY_MAX))
}

fn plain_options() -> LinuxOptions {
    LinuxOptions::new().max_bytes(span()).frame_bytes(FRAMES * page_bytes()).drain_thread(false)
}

fn options(guards: GuardMeans) -> LinuxOptions {
    plain_options().guard_means(guards)
}

/// A space that purges in batches, or one that may not.
fn space_in(
    batches: Batches,
    options: LinuxOptions,
    space_options: SpaceOptions,
) -> Option<Arc<Space<Linux>>> {
    let space = opened(batches.opening(|| open(options, space_options)))?;
    batches.are_those_of(space.platform()).then_some(space)
}

/// Runs a scenario on a fresh space for each strategy that the kernel has, with all options.
fn everywhere(scenario: impl Fn(&Arc<Space<Linux>>)) {
    everywhere_with(|_| true, scenario);
}

/// Runs a scenario as `everywhere` does, where many ranges are purged by one call.
fn everywhere_in_batches(scenario: impl Fn(&Arc<Space<Linux>>)) {
    everywhere_with(|batches| batches == Batches::Taken, scenario);
}

fn everywhere_with(has: impl Fn(Batches) -> bool, scenario: impl Fn(&Arc<Space<Linux>>)) {
    for guards in GuardMeans::all() {
        for batches in Batches::ALL.into_iter().filter(|batches| has(*batches)) {
            for space_options in all_options() {
                if let Some(space) = space_in(batches, options(guards), space_options) {
                    let cached = space_options.cache_bytes;
                    eprintln!("with {guards:?}, batches {batches:?}, {cached:?} bytes cached");
                    scenario(&space);
                }
            }
        }
    }
}

/// Runs a scenario for each way to guard, and one way to advise.
fn for_both_guards(scenario: impl Fn(&Arc<Space<Linux>>)) {
    all_options().into_iter().for_each(|space_options| for_both_guards_in(space_options, &scenario));
}

/// Runs a scenario for each way to guard, with the options of one space.
fn for_both_guards_in(space_options: SpaceOptions, scenario: impl Fn(&Arc<Space<Linux>>)) {
    spaces(plain_options(), space_options).for_each(|space| scenario(&space));
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
pub(crate) fn finish(space: &Space<Linux>, owed: Owed) {
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
