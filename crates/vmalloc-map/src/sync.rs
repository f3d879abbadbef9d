//! Atomics, and hooks for the exploration of schedules: no other module knows of one.
//!
//! In every ordinary build the atomics are the core's own, [`size`] is its first argument (its
//! second under Miri) and [`is`] is `false`: none of it leaves an instruction. Under
//! `--cfg shuttle` the scheduler may let another thread run at each operation on an atomic. Batches
//! are small then, so that few areas make many. A protocol can be broken on purpose, to show that
//! the scenarios of `vmalloc-schedules` notice it. Under `--cfg loom` the
//! atomics are those of a checker of weak memory, for the `models` beside the code that they check:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p vmalloc --lib models --target-dir target/loom
//! ```
//!
//! Under `--cfg machine` the lab's machine of virtual CPUs is told of each operation that reads and
//! writes at once.

#[cfg(not(target_has_atomic = "64"))]
compile_error!("vmalloc needs atomics of 64 bits with compare-and-swap, which this target lacks");

#[cfg(any(shuttle, machine))]
mod hooked;
#[cfg(loom)]
pub mod modelled;
#[cfg(not(any(shuttle, loom, machine)))]
mod plain;
#[cfg(not(loom))]
mod word;

#[cfg(any(shuttle, machine))]
pub use hooked::*;
#[cfg(loom)]
pub use modelled::*;
#[cfg(not(any(shuttle, loom, machine)))]
pub use plain::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence, is, size, unlocked};
#[cfg(not(loom))]
pub use word::{set_word_at, word_at};

/// A protocol broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(shuttle), allow(dead_code, unreachable_pub))]
pub enum Mutant {
    /// Lazy pages are counted off when a purge takes them, not when it gives them back.
    EarlyCount,
    /// An allocation that needs addresses does not wait for the purge under way.
    NoWait,
    /// Addresses are taken for later while others are in need.
    Hoard,
    /// A call has nothing to do where the purge has done it that was under way when it came.
    UnderWay,
    /// A purge of the whole space leaves what purges of groups are at work on.
    NoTakeOver,
    /// A group purges beside a purge of the whole space.
    NotAlone,
    /// A purge of a group drops what the platform refused.
    GroupDrops,
    /// A purge of a group gives areas back of which a part has still to be unmapped.
    GroupForgets,
    /// A run is neither in the map nor in a node for a moment.
    RunOutside,
    /// A fork does not wait for the purges of groups.
    ForkPastGroups,
    /// A busy bit is flipped by a load and a store.
    SplitFlip,
    /// A purge takes what the stock has without its lock.
    UnlockedTake,
    /// A drain forgets that it was asked for after its look at the nodes, not before.
    LateForget,
    /// The holder of the map does not mark the bitmaps as changing.
    NoVersion,
    /// An area becomes busy before its annotation is in its table.
    LateNote,
    /// A fork takes the map before what comes before it.
    ForkOutOfOrder,
    /// A child of a fork counts threads that it lacks as in need, and inside notifiers.
    ForkInNeed,
    /// A child of a fork leaves everything as other threads had it.
    ForkAsItIs,
    /// Slots are returned by a load and a store.
    SplitReturn,
    /// Slots that are held are counted off by a load and a store.
    SplitHeld,
    /// A flush makes all dirty slots of a block clean, those too that were returned meanwhile.
    EagerClean,
    /// The thread that returns the last slots of a block does not look which state it has.
    SpendAnywhere,
}
