//! Every scenario holds, whatever the schedule.
#![cfg(shuttle)]

use vmalloc_schedules::{Flushes, Plan, explore, root_scenes, scenes};

/// Schedules of a scenario with points at locks and changes; a tenth as many more with points at
/// every access.
const SCHEDULES: usize = 12_000;

macro_rules! holds {
    ($($name:ident $(($flushes:expr))?;)*) => {$(
        #[test]
        fn $name() {
            let plan = Plan::new(SCHEDULES);
            explore(stringify!($name), plan, || scenes::$name($($flushes)?));
            explore(stringify!($name), plan.tenth().fine(), || scenes::$name($($flushes)?));
        }
    )*};
}

holds! {
    small_areas(Flushes::Done);
    recycled_frames(Flushes::Done);
    freed_elsewhere(Flushes::Done);
    purged_while_freeing;
    deferred_frees;
    freed_twice_at_once;
    purges_of_all_kinds;
    cached_areas_decay;
    shrink_by_one;
    no_alias_is_left(Flushes::Done);
    freed_space_on_its_way;
    pooled_by_others;
    notifier_makes_room;
    seqlock_read_is_consistent;
    found_with_its_own_annotation;
    found_with_its_own_annotation_when_reused;
    found_while_it_is_resized;
    fork_meets_everything;
    forked_meanwhile;
    forked_while_in_need;
    forked_inside_a_notifier;
    freed_twice;
    lazy_pages_are_counted;
    drained_in_the_background;
    threads_migrate;
    memory_runs_out;
    purges_fail;
    annotations_follow_their_areas;
}

/// Explores scenes of sub-spaces.
#[test]
fn sub_spaces_are_forked_with() {
    let plan = Plan::new(SCHEDULES);
    explore("fork_meets_roots", plan, root_scenes::fork_meets_roots);
    for refused in [1, 2, 1000] {
        let name = format!("forked_meanwhile with roots, flush {refused} refused");
        explore(&name, plan.tenth(), move || root_scenes::forked_meanwhile(refused));
        explore(&name, plan.tenth().fine(), move || root_scenes::forked_meanwhile(refused));
    }
}
