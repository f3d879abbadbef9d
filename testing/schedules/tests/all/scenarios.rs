//! Every scenario holds, whatever the schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vmalloc_schedules::{Plan, explore, scenes};

/// Schedules of a scenario with points at locks and changes; a tenth as many more with points at
/// every access.
const SCHEDULES: usize = 1_000;

macro_rules! holds {
    ($($module:ident::$name:ident $(($bug:expr))?;)*) => {$(
        #[test]
        fn $name() {
            let plan = Plan::new(SCHEDULES);
            explore(stringify!($name), plan, || scenes::$module::$name($($bug)?));
            explore(stringify!($name), plan.tenth().fine(), || scenes::$module::$name($($bug)?));
        }
    )*};
}

holds! {
    areas::small_areas(None);
    areas::recycled_frames;
    areas::freed_elsewhere(None);
    areas::purged_while_freeing;
    areas::deferred_frees;
    areas::freed_twice_at_once;
    areas::frames_stay_inside_their_area;
    purges::purges_of_all_kinds;
    purges::cached_areas_decay;
    purges::shrink_by_one;
    purges::lazy_pages_are_bounded;
    purges::no_alias_is_left;
    shortage::freed_space_on_its_way;
    shortage::pooled_by_others;
    shortage::brought_by_others;
    shortage::notifier_makes_room;
    look_ups::try_find_answers_beside_readers_of_the_map;
    look_ups::found_with_its_own_annotation;
    look_ups::found_with_its_own_annotation_when_reused;
    look_ups::found_while_it_is_resized;
    look_ups::found_with_a_record_of_its_owner;
    look_ups::groups_are_made_and_freed_whole;
    groups::flushed_beside_a_group;
    groups::frames_beside_a_group;
    groups::freed_space_in_a_group;
    groups::in_need_beside_groups;
    groups::refused_in_a_group;
    groups::failing_beside_groups;
    groups::pending_beside_groups;
    groups::fork_meets_groups;
    groups::forked_while_groups_purge;
    groups::drained_by_groups;
    groups::drained_beside_a_group;
    forks::fork_meets_everything;
    forks::a_fork_meets_looks;
    forks::forked_meanwhile;
    forks::forked_while_in_need;
    forks::forked_while_areas_are_joined;
    forks::forked_while_areas_are_noted;
    forks::forked_inside_a_notifier;
    roots::forked_while_parts_change;
    areas::freed_twice;
    areas::lazy_pages_are_counted;
    purges::drained_in_the_background;
    purges::drained_when_told;
    areas::threads_migrate;
    shortage::memory_runs_out;
    purges::purges_fail;
    look_ups::annotations_follow_their_areas;
}

/// Explores a scene in which few orders of a dozen loads could go wrong, with points at every access
/// alone.
#[test]
fn seqlock_read_is_consistent() {
    let plan = Plan::new(SCHEDULES).fine();
    explore("seqlock_read_is_consistent", plan, scenes::look_ups::seqlock_read_is_consistent);
}

/// Explores one scene more, of which some schedules have to join areas.
#[test]
fn found_while_they_are_joined() {
    let plan = Plan::new(SCHEDULES);
    for plan in [plan, plan.tenth().fine()] {
        let joined = Arc::new(AtomicUsize::new(0));
        let counted = joined.clone();
        explore("found_while_they_are_joined", plan, move || {
            counted.fetch_add(usize::from(scenes::look_ups::found_while_they_are_joined()), Relaxed);
        });
        assert_ne!(joined.load(Relaxed), 0, "no schedule has joined areas");
    }
}

/// Explores scenes of sub-spaces.
#[test]
fn sub_spaces_are_forked_with() {
    let plan = Plan::new(SCHEDULES);
    explore("fork_meets_roots", plan, scenes::roots::fork_meets_roots);
    for refused in [1, 2, 1000] {
        let name = format!("forked_meanwhile with roots, flush {refused} refused");
        explore(&name, plan.tenth(), move || scenes::roots::forked_meanwhile(refused));
        explore(&name, plan.tenth().fine(), move || scenes::roots::forked_meanwhile(refused));
    }
}
