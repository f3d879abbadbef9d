//! Explored schedules: the whole space on the simulator, under a scheduler that decides at each
//! lock and each atomic operation which thread runs next.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test -p vmalloc-schedules --test all --target-dir target/schedules
//! ```
//!
//! Without the cfg this crate is empty, and no ordinary build knows of the scheduler.
//! `VMALLOC_SCHEDULES=1000000` is the long mode: so many schedules for each scenario, and a tenth
//! as many with points at every load and store. `VMALLOC_SEED=…` takes others; a failure prints
//! both, and they repeat it.
//!
//! ```text
//!   tests/scenarios.rs   every scene holds      tests/mutants.rs   a broken protocol fails     tests/models.rs   counts
//!            │                                           │                                     under weak memory
//!   scenes/     what the threads do                      │
//!   explore.rs  PCT and random schedules  ◄──────────────┘
//!   world.rs    a small space: few pages, small pools and batches, one CPU a thread
//!   machine.rs  the simulator, a scheduling point at each call         lock.rs   threads that wait are blocked: deadlocks show
//!            │
//!   vmalloc     sync.rs: the core's atomics are scheduling points, its bounds small, its protocol broken on request
//! ```
//!
//! Each schedule ends with everything freed and purged, and every invariant verified. Then all
//! counts are at zero, the span is one free range, and the machine has no leak and no stale
//! translation (`World::finish`).
//!
//! A fork ends a schedule otherwise (`World::fork`): from one moment on the scheduler runs the
//! child alone, which finds everything as the other threads had it.
//!
//! # Protocols broken on purpose
//!
//! | what | where | caught by |
//! |---|---|---|
//! | a flush is dropped | `InjectedBug::DroppedFlush` | `a_dropped_flush_is_caught` |
//! | areas are given back, and handed out, before the flush | `InjectedBug::DelayedFlush` | `a_flush_after_reuse_is_caught` |
//! | lazy pages are counted off when they are taken | `Mutant::EarlyCount` | `a_lazy_count_that_falls_early_is_caught` |
//! | no allocation waits for the purge under way | `Mutant::NoWait` | `a_missing_wait_for_the_purge_is_caught`, `lazy_pages_without_bound_are_caught` |
//! | runs are taken while others are in need | `Mutant::Hoard` | `pooling_while_an_allocation_is_in_need_is_caught` |
//! | a call leaves its work to the purge that was under way when it came | `Mutant::UnderWay` | `a_ticket_of_the_purge_under_way_is_caught` |
//! | a purge of the whole space leaves what groups are at work on | `Mutant::NoTakeOver` | `a_group_that_is_not_taken_over_is_caught` |
//! | a group purges beside a purge of the whole space | `Mutant::NotAlone` | `a_group_beside_a_purge_of_the_space_is_caught` |
//! | a group drops what the platform refused | `Mutant::GroupDrops` | `a_group_that_drops_what_is_refused_is_caught` |
//! | a group gives areas back with parts still to be unmapped | `Mutant::GroupForgets` | `a_group_that_forgets_what_is_pending_is_caught` |
//! | a run is neither in the map nor in a node for a moment | `Mutant::RunOutside` | `a_run_outside_of_its_node_is_caught` |
//! | a fork does not wait for groups | `Mutant::ForkPastGroups` | `a_fork_past_groups_is_caught` |
//! | a busy bit is flipped by a load and a store | `Mutant::SplitFlip` | `busy_bit_flipped_in_two_steps_is_caught` |
//! | a purge takes from the stock without its lock | `Mutant::UnlockedTake` | `a_stock_taken_without_its_lock_is_caught` |
//! | a drain forgets that it was asked for after its look | `Mutant::LateForget` | `a_drain_that_forgets_late_is_caught` |
//! | the version of the bitmaps stays | `Mutant::NoVersion` | `map_write_without_version_is_caught` |
//! | an area becomes busy before its annotation is there | `Mutant::LateNote` | `area_busy_before_its_annotation_is_caught` |
//! | a child of a fork still counts others as in need | `Mutant::ForkInNeed` | `needs_kept_over_a_fork_are_caught` |
//! | a fork takes the locks out of order | `Mutant::ForkOutOfOrder` | `locks_out_of_order_are_caught` |
//! | a child of a fork leaves what others were doing as it is | `Mutant::ForkAsItIs` | `fork_without_repair_is_caught`, `fork_of_roots_without_repair_is_caught` |
//! | slots are returned by a load and a store | `Mutant::SplitReturn` | `slots_returned_in_two_steps_are_caught` |
//! | held slots are counted off by a load and a store | `Mutant::SplitHeld` | `held_slots_counted_in_two_steps_are_caught` |
//! | a flush makes slots clean that were returned meanwhile | `Mutant::EagerClean` | `slots_cleaned_before_their_return_are_caught` |
//! | a block is spent wherever it is | `Mutant::SpendAnywhere` | `block_spent_in_any_state_is_caught` |
//!
//! The models have theirs: pages told of too late, need told of too late, a run put in without the
//! map, a purge shared without fences.
//!
//! # What is not explored
//! Weak memory: a schedule is sequentially consistent. The core's own models (`--cfg loom`) and
//! Miri see to that. Threads that are interrupted by others of the same CPU, as in a signal
//! handler. The Linux platform, whose own locks (`drain`) are not the core's.
#![cfg(shuttle)]

mod explore;
mod lock;
mod machine;
pub mod scenes;
mod world;

pub use explore::{Failure, Plan, explore, tell};
pub use lock::Lock;
pub use machine::Machine;
pub use vmalloc::sync::{Grain, Mutant, point};
pub use world::{Mapping, World, here};
