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
//!   tests/scenarios.rs, blocks.rs   every scene holds      tests/flushes.rs   a broken flush fails     tests/models.rs
//!            │                                                                                     counts under weak memory
//!   scenes/     what the threads do
//!   explore.rs  PCT and random schedules
//!   world.rs    a small space: few pages, small pools and batches, one CPU a thread
//!   machine.rs  the simulator, a scheduling point at each call         lock.rs   threads that wait are blocked: deadlocks show
//!            │
//!   vmalloc     sync.rs: the core's atomics are scheduling points, its bounds small
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
//! Those of the allocator are changes of its sources, in `testing/mutants/named.toml`, each with the
//! scenarios that must notice it: `cargo xtask mutants vmalloc-schedules` runs them. Those of the
//! machine are bugs that it injects:
//!
//! | what | where | caught by |
//! |---|---|---|
//! | a flush is dropped | `InjectedBug::DroppedFlush` | `a_dropped_flush_is_caught` |
//! | areas are given back, and handed out, before the flush | `InjectedBug::DelayedFlush` | `a_flush_after_reuse_is_caught` |
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
pub use vmalloc::sync::{Grain, point};
pub use world::{Mapping, World, here};
