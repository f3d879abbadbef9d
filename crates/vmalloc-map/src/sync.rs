//! Atomics, and hooks for the exploration of schedules: no other module knows of one.
//!
//! In every ordinary build the atomics are the core's own, and [`size`] is its first argument (its
//! second under Miri): none of it leaves an instruction. Under `--cfg shuttle` the scheduler may
//! let another thread run at each operation on an atomic. Batches are small then, so that few areas
//! make many. Under `--cfg loom` the atomics are those of a checker of weak memory, for the
//! `models` beside the code that they check:
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
pub use plain::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence, size};
#[cfg(not(loom))]
pub use word::{set_word_at, word_at};
