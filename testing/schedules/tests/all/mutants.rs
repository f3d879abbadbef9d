//! Protocols broken on purpose: for each some scenario fails, which holds as it is under the same
//! schedules.

use vmalloc_schedules::scenes::blocks::{self, Slots};
use vmalloc_schedules::scenes::{areas, forks, groups, look_ups, purges, roots, shortage};
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

/// Tests that are like each other: a broken protocol, the message, and the scenario, under so many
/// schedules.
macro_rules! caught {
    ($($(#[$about:meta])* $name:ident: $plan:expr, $($mutant:ident, $message:literal, $scenario:expr),+;)*) => {$(
        $(#[$about])*
        #[test]
        fn $name() {
            $(catches($plan, Mutant::$mutant, $message, $scenario);)+
        }
    )*};
}

const PLAN: fn() -> Plan = || Plan::fixed(SCHEDULES);

caught! {
    a_lazy_count_that_falls_early_is_caught: PLAN(), EarlyCount, " lazy pages", areas::lazy_pages_are_counted;
    /// In few schedules the last free comes between the look and what follows it.
    a_drain_that_forgets_late_is_caught: Plan::fixed(10 * SCHEDULES),
        LateForget, "nobody is told of what waits", purges::drained_when_told;
    a_missing_wait_for_the_purge_is_caught: PLAN(), NoWait, "no area of 7 pages", shortage::freed_space_on_its_way;
    lazy_pages_without_bound_are_caught: PLAN(), NoWait, "lazy pages are too many", purges::lazy_pages_are_bounded;
    pooling_while_an_allocation_is_in_need_is_caught: Plan::fixed(10 * SCHEDULES),
        Hoard, "no area of 6 pages", shortage::pooled_by_others;
    busy_bit_flipped_in_two_steps_is_caught: PLAN(), SplitFlip, "", areas::freed_twice;
    /// Few schedules have two takes at once.
    a_stock_taken_without_its_lock_is_caught: Plan::fixed(10 * SCHEDULES),
        UnlockedTake, "", || _ = look_ups::found_while_they_are_joined();
    /// A look takes a dozen loads, of which few orders go wrong.
    map_write_without_version_is_caught: Plan::fixed(10 * SCHEDULES).fine(),
        NoVersion, "AreaInfo", look_ups::seqlock_read_is_consistent;
    area_busy_before_its_annotation_is_caught: PLAN(),
        LateNote, "a mixture", look_ups::found_with_its_own_annotation;
    a_ticket_of_the_purge_under_way_is_caught: PLAN(),
        UnderWay, "still translates", groups::flushed_beside_a_group;
    a_group_that_is_not_taken_over_is_caught: PLAN(),
        NoTakeOver, "still translates", groups::flushed_beside_a_group,
        NoTakeOver, "no area of 7 pages", groups::freed_space_in_a_group;
    a_group_beside_a_purge_of_the_space_is_caught: PLAN(),
        NotAlone, "still translates", groups::flushed_beside_a_group;
    a_group_that_drops_what_is_refused_is_caught: PLAN(),
        GroupDrops, "", groups::refused_in_a_group,
        GroupDrops, "", groups::failing_beside_groups;
    a_group_that_forgets_what_is_pending_is_caught: PLAN(),
        GroupForgets, "", groups::pending_beside_groups;
    a_run_outside_of_its_node_is_caught: Plan::fixed(10 * SCHEDULES),
        RunOutside, "no area of 6 pages", shortage::pooled_by_others;
    a_fork_past_groups_is_caught: PLAN(),
        ForkPastGroups, "", groups::forked_while_groups_purge;
    needs_kept_over_a_fork_are_caught: PLAN(), ForkInNeed, "the child", forks::forked_while_in_need;
    locks_out_of_order_are_caught: PLAN(), ForkOutOfOrder, "deadlock", forks::fork_meets_everything;
    slots_returned_in_two_steps_are_caught: PLAN().fine(),
        SplitReturn, "how often a mapping was ended", || blocks::unmapped_twice(Slots::Recycled);
    held_slots_counted_in_two_steps_are_caught: PLAN().fine(),
        SplitHeld, "the block is spent", || blocks::last_slots_of_two(Slots::Recycled);
    slots_cleaned_before_their_return_are_caught: PLAN(),
        EagerClean, "was unmapped and not flushed", || blocks::unmapped_while_purged(Slots::Recycled),
        EagerClean, "is still mapped", || blocks::unmapped_while_purged(Slots::Kept);
    block_spent_in_any_state_is_caught: PLAN(),
        SpendAnywhere, "the counts return to zero", || blocks::unmapped_while_purged(Slots::Recycled);
    fork_without_repair_is_caught: PLAN(),
        ForkAsItIs, "holds in the child", forks::forked_meanwhile,
        ForkAsItIs, "holds in the child", || blocks::forked_meanwhile(Slots::Kept);
    fork_of_roots_without_repair_is_caught: PLAN().fine(),
        ForkAsItIs, "nobody here is at it", roots::forked_while_parts_change;
}
