//! Replays: what happened in a trace, done again by a design.
//!
//! ```text
//!   Events ──Compiler──► Script: steps, 16 bytes each          Script × Design ──► Outcome
//!              │           alloc  slot, shape                     │
//!              │           free   slot, shape                     ├─ pace: all calls in a row, one time for all
//!              │           purge                                  ├─ look: each call by itself: latencies, peaks, samples
//!              │                                                  ├─ hits: which allocations came from a pool or a cache
//!              └─ Tally: what became of each event                └─ end:  everything freed, settled and verified, after each
//! ```
//!
//! **Slots.** A design chooses its own addresses, so those of the trace matter only for telling
//! areas apart: each area of the trace is a slot, which holds the page that the design gave. The
//! search for the area that a free means is done once, by the compiler, and is not part of what is
//! timed.
//!
//! **Windows.** Where a trace has windows (Linux has one for most areas and one for modules), those
//! that overlap are joined, and each joined window is a design of its own with that span. So a
//! request for the whole window is one for the whole span, which designs may serve from pools, and
//! no area leaves its window. What is shared in a kernel, the count of lazy pages, is each window's
//! own, but for the design that follows Linux in this ([`Name::build_windows`]). A trace without
//! windows has one of 8 TiB, or twice what is busy at most.
//!
//! **Unmatched.** Areas from before the trace are freed in it, and those of per-CPU chunks have no
//! allocation there. Such frees are counted, and not replayed. An area that is allocated over
//! another one shows that the free of that one was missed: it is freed first. Every event is
//! replayed, unmatched, or ignored ([`Tally::adds_up`]).
//!
//! **Programs.** A mapping is an area. Where a part of it is unmapped, replaced or moved, it is
//! freed, and what is left of it is allocated again: designs free whole areas. These pieces are
//! counted as splits. What grows or moves is freed and allocated. The heap grows by areas. All
//! tasks share one space of addresses, as threads do; where processes of one trace use the same
//! addresses, one's mapping replaces the other's, as a fixed mapping would.
//!
//! **CPUs.** One thread plays them all, one step after the other ([`crate::cpu::play`]): the same
//! script and design give the same addresses and counts.

mod compile;
mod hits;
mod live;
mod look;
mod measure;
mod outcome;
mod pace;
mod placed;
mod script;
mod shapes;
mod stage;
mod tally;

pub use compile::{Compiler, Purges, TooMuch};
pub use measure::Latency;
pub use outcome::{Hits, Outcome, Sample, WindowOutcome};
pub use script::Script;
pub use tally::{Ignored, Tally, Unmatched};

use crate::designs::Name;
use std::sync::atomic::AtomicU64;

/// Returns the steps of [`replay`], to show progress.
#[must_use]
pub fn steps(script: &Script) -> u64 {
    2 * script.steps.len() as u64
}

/// Replays a script on designs of one name; `done` counts the steps. What a design does wrong is
/// among the complaints of the outcome.
///
/// # Panics
/// Where building a design does.
pub fn replay(script: &Script, design: Name, done: &AtomicU64) -> Outcome {
    let mut outcome = Outcome::new(design, script);
    pace::run(script, design, done, &mut outcome);
    look::run(script, design, done, &mut outcome);
    hits::run(script, design, &mut outcome);
    outcome
}

#[cfg(test)]
mod tests;
