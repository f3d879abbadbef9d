//! Flushes broken on purpose: a scenario fails, which holds as it is under the same schedules.

use vmalloc_schedules::scenes::areas;
use vmalloc_schedules::{Plan, tell};
use vmalloc_sim::InjectedBug;

/// Schedules within which the bugs are caught.
const SCHEDULES: usize = 2_000;

/// The message of the machine.
const REUSED: &str = "reused before it was flushed";

fn is_caught(bug: InjectedBug, scenario: fn(Option<InjectedBug>)) {
    let plan = Plan::fixed(SCHEDULES);
    let failure = plan.failure(move || scenario(None));
    assert!(failure.is_none(), "the scenario fails as it is: {failure:?}");
    let failure = plan.failure(move || scenario(Some(bug))).expect("the bug is seen");
    assert!(failure.message.contains(REUSED), "{bug:?} is seen otherwise: {failure:?}");
    tell(&format!("{bug:?} is caught by schedule {}: {}", failure.schedule, failure.message));
}

#[test]
fn a_dropped_flush_is_caught() {
    is_caught(InjectedBug::DroppedFlush, areas::small_areas);
}

#[test]
fn a_flush_after_reuse_is_caught() {
    is_caught(InjectedBug::DelayedFlush, areas::small_areas);
    is_caught(InjectedBug::DelayedFlush, areas::freed_elsewhere);
}
