//! Protocols broken on purpose: for each some scenario fails, which holds as it is under the same
//! schedules.

use vmalloc_schedules::scenes::blocks::{self, Slots};
use vmalloc_schedules::scenes::{areas, forks, look_ups, purges, roots, shortage};
use vmalloc_schedules::{Failure, Mutant, Plan, tell};
use vmalloc_sim::InjectedBug;

/// Schedules within which every mutant is caught.
const SCHEDULES: usize = 2_000;

/// The scenario holds under the plan, and fails with `message` when the protocol is broken.
fn catches(plan: Plan, mutant: Mutant, message: &str, scenario: fn()) {
    assert_holds(plan.failure(scenario));
    assert_caught(&format!("{mutant:?}"), message, plan.broken(mutant).failure(scenario));
}

/// Checks that broken flushes, which are the machine's, are caught.
fn catches_flushes(bug: InjectedBug, message: &str, scenario: fn(Option<InjectedBug>)) {
    let plan = Plan::fixed(SCHEDULES);
    assert_holds(plan.failure(move || scenario(None)));
    assert_caught(&format!("{bug:?}"), message, plan.failure(move || scenario(Some(bug))));
}

fn assert_holds(failure: Option<Failure>) {
    assert!(failure.is_none(), "the scenario fails as it is: {failure:?}");
}

fn assert_caught(mutant: &str, message: &str, failure: Option<Failure>) {
    let failure = failure.unwrap_or_else(|| panic!("{mutant} is not seen"));
    assert!(failure.message.contains(message), "{mutant} is seen otherwise: {failure:?}");
    tell(&format!("{mutant} is caught by schedule {}: {}", failure.schedule, failure.message));
}

#[test]
fn a_dropped_flush_is_caught() {
    catches_flushes(InjectedBug::DroppedFlush, "reused before it was flushed", areas::small_areas);
}

#[test]
fn a_flush_after_reuse_is_caught() {
    catches_flushes(InjectedBug::DelayedFlush, "reused before it was flushed", areas::small_areas);
    catches_flushes(InjectedBug::DelayedFlush, "reused before it was flushed", areas::freed_elsewhere);
}

#[test]
fn a_lazy_count_that_falls_early_is_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::EarlyCount, " lazy pages", areas::lazy_pages_are_counted);
}

#[test]
fn a_drain_that_forgets_late_is_caught() {
    // In few schedules the last free comes between the look and what follows it.
    let plan = Plan::fixed(10 * SCHEDULES);
    catches(plan, Mutant::LateForget, "nobody is told of what waits", purges::drained_when_told);
}

#[test]
fn a_missing_wait_for_the_purge_is_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::NoWait, "no area of 7 pages", shortage::freed_space_on_its_way);
}

#[test]
fn lazy_pages_without_bound_are_caught() {
    let plan = Plan::fixed(SCHEDULES);
    catches(plan, Mutant::NoWait, "lazy pages are too many", purges::lazy_pages_are_bounded);
}

#[test]
fn pooling_while_an_allocation_is_in_need_is_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::Hoard, "no area of 6 pages", shortage::pooled_by_others);
}

#[test]
fn busy_bit_flipped_in_two_steps_is_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::SplitFlip, "", areas::freed_twice);
}

#[test]
fn a_stock_taken_without_its_lock_is_caught() {
    // Few schedules have two takes at once.
    let plan = Plan::fixed(10 * SCHEDULES);
    catches(plan, Mutant::UnlockedTake, "", || {
        look_ups::found_while_they_are_joined();
    });
}

#[test]
fn map_write_without_version_is_caught() {
    // A look takes a dozen loads, of which few orders go wrong.
    let plan = Plan::fixed(10 * SCHEDULES).fine();
    catches(plan, Mutant::NoVersion, "AreaInfo", look_ups::seqlock_read_is_consistent);
}

#[test]
fn area_busy_before_its_annotation_is_caught() {
    let plan = Plan::fixed(SCHEDULES);
    catches(plan, Mutant::LateNote, "a mixture", look_ups::found_with_its_own_annotation);
}

#[test]
fn needs_kept_over_a_fork_are_caught() {
    let plan = Plan::fixed(SCHEDULES);
    catches(plan, Mutant::ForkInNeed, "the child", forks::forked_while_in_need);
}

#[test]
fn locks_out_of_order_are_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::ForkOutOfOrder, "deadlock", forks::fork_meets_everything);
}

#[test]
fn slots_returned_in_two_steps_are_caught() {
    let plan = Plan::fixed(SCHEDULES).fine();
    catches(plan, Mutant::SplitReturn, "how often a mapping was ended", || {
        blocks::unmapped_twice(Slots::Recycled);
    });
}

#[test]
fn held_slots_counted_in_two_steps_are_caught() {
    catches(Plan::fixed(SCHEDULES).fine(), Mutant::SplitHeld, "the block is spent", || {
        blocks::last_slots_of_two(Slots::Recycled);
    });
}

#[test]
fn slots_cleaned_before_their_return_are_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::EagerClean, "was unmapped and not flushed", recycled);
    catches(Plan::fixed(SCHEDULES), Mutant::EagerClean, "is still mapped", kept);
}

fn recycled() {
    blocks::unmapped_while_purged(Slots::Recycled);
}

fn kept() {
    blocks::unmapped_while_purged(Slots::Kept);
}

#[test]
fn block_spent_in_any_state_is_caught() {
    catches(Plan::fixed(SCHEDULES), Mutant::SpendAnywhere, "the counts return to zero", recycled);
}

#[test]
fn fork_without_repair_is_caught() {
    let plan = Plan::fixed(SCHEDULES);
    catches(plan, Mutant::ForkAsItIs, "holds in the child", forks::forked_meanwhile);
    catches(plan, Mutant::ForkAsItIs, "holds in the child", || blocks::forked_meanwhile(Slots::Kept));
    catches(plan.fine(), Mutant::ForkAsItIs, "nobody here is at it", roots::forked_while_parts_change);
}
