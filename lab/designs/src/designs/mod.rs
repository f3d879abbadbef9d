//! The designs, and how they are chosen.
//!
//! ```text
//!    Name ──┬─► Classic ── one lock, lazy list, Purge ──► Areas ──┬─► BusyList
//!           │                                                     └─► Pair: busy tree + FreeSpace ──┬─► FreeList
//!           ├─► Nodes ──── per-CPU nodes ─────────────────────────────────────────► FreeSpace ──────┴─► Augmented
//!           └─► Ours
//! ```

mod areas;
mod augmented;
mod busy_list;
mod classic;
mod free_list;
mod free_ranges;
mod name;
mod nodes;
mod ours;
mod pair;
mod purge;
mod stack;
mod tree;

use crate::design::{Counts, Segment, State};
pub use name::{Name, UnknownName};
pub use ours::Ours;
#[cfg(not(machine))]
pub(crate) use ours::{Addresses, space};
pub use purge::one_purger;
use vmalloc::PageRange;

/// Sums up the areas and pages of segments.
pub(crate) fn count(segments: &[Segment]) -> Counts {
    let mut counts = Counts::default();
    for Segment { range, state } in segments {
        match state {
            State::Busy => {
                counts.busy_areas += 1;
                counts.busy_pages += range.len();
            }
            State::Lazy => counts.lazy_pages += range.len(),
            State::Pooled => counts.pooled_pages += range.len(),
            State::Free => {
                counts.free_pages += range.len();
                counts.largest_free_pages = counts.largest_free_pages.max(range.len());
            }
        }
    }
    counts
}

/// Each page of the span is in exactly one segment.
pub(crate) fn verify_partition(span: PageRange, segments: &[Segment]) -> Result<(), String> {
    let mut end = span.start();
    for segment in segments {
        if segment.range.start() != end {
            return Err(format!("{segment:?} begins where {end:#x} was to come"));
        }
        end = segment.range.end();
    }
    if end == span.end() { Ok(()) } else { Err(format!("nothing is known from {end:#x} on")) }
}
