//! Scenarios of blocks hold, whatever the schedule and whatever becomes of slots that are returned.

use vmalloc_schedules::scenes::blocks::{self, Slots};
use vmalloc_schedules::{Plan, explore};

/// Schedules of a scenario with one kind of slots; a tenth as many more with points at every
/// access.
const SCHEDULES: usize = 1_000;

fn explored(name: &str, slots: Slots, scene: fn(Slots)) {
    let plan = Plan::new(SCHEDULES);
    let name = format!("{name}, {slots:?}");
    explore(&name, plan, move || scene(slots));
    explore(&name, plan.tenth().fine(), move || scene(slots));
}

macro_rules! holds {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            for slots in [Slots::Recycled, Slots::Kept] {
                explored(stringify!($name), slots, blocks::$name);
            }
        }
    )*

        /// Runs the scene where mappings replace earlier ones.
        mod replaced {
            use super::*;
            $(
                #[test]
                fn $name() {
                    explored(stringify!($name), Slots::Replaced, blocks::$name);
                }
            )*
        }
    };
}

holds!(
    each_with_its_own,
    unmapped_elsewhere,
    last_slot_meets_closing,
    unmapped_while_purged,
    purges_meet_mapping,
    last_slots_of_two,
    flushed_while_unmapping,
    flushed_while_mapping,
    flushed_while_the_window_moves_on,
    unmapped_twice,
    found_by_two,
    fork_meets_blocks,
    forked_meanwhile,
    slots_run_out
);
