//! A map of one span: every free range and every area of it, in one structure.
//!
//! [`AreaMap`] hands out ranges of numbers: exact lowest (or highest) fit under an alignment and
//! limits in O(log n), immediate coalescing, look-up by any number inside, areas that come back for
//! a token. It is a pure data structure: no memory, no lock, no thread. The
//! numbers are called pages; they may as well be IOVA pages, frames, blocks of a device, or ids.
//! [`PageSet`] is a set of them, in runs.
//!
//! ```
//! use vmalloc_map::{AreaMap, Fit, PageRange};
//!
//! let mut map = AreaMap::new(PageRange::new(0x1000, 0x9000).unwrap())?;
//! let area = map.alloc(&Fit::new(5).align(4))?;
//! assert_eq!((area.start(), area.len()), (0x1000, 5));
//! assert_eq!(map.find(0x1003), Some(area));
//! map.free(area.start())?;
//! assert!(map.is_whole());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate `vmalloc` puts memory behind such a map.
//!
//! # Terms
//! The span is cut into **segments**: a *free range*, a *busy* area (handed out), or a *retired*
//! area (freed, but not reusable yet, or kept for reuse). Segments follow each other without gaps,
//! so a segment needs no record of its own: where it starts is a bit, where it ends is the next
//! such bit, and its state is two more bits.
//!
//! ```text
//!            ┌────────────────────────── Bitmaps ─────────────────────────┐  page → leaf, mostly one load
//!            ▼                       ▼                                   ▼
//!   …│ Leaf: 256 pages │◄────►│ Leaf: 256 pages │◄─── no leaf ───►│ Leaf: 256 pages │…   boundary bitmaps
//!            ▲                       ▲        where no segment starts    ▲
//!            └───────────────── Tree of Summaries ───────────────────────────┘  lowest fit, O(log n)
//! ```
//!
//! # Invariants
//! - **MAP-1** A segment starts at the first page of the span.
//! - **MAP-2** No free range is followed by a free range: freeing coalesces at once.
//! - **MAP-3** A `used` bit stands only at a start, a `busy` bit only at a used start.
//! - **MAP-4** A leaf exists if and only if a segment starts in it; leaves are linked in address
//!   order.
//! - **MAP-5** The tree holds the leaves in that order, and the summary beside a leaf is exactly
//!   that of the free ranges that *start* in it.
//! - **MAP-6** `free_pages` is the sum of the free ranges, `areas` the number of areas.
//!
//! # Cost
//! For n leaves (at most one for each segment): placement, freeing and resizing are O(log n) for
//! every alignment up to 2^13 pages. A larger alignment takes O(free ranges that are large enough).
//! Look-up is one load where leaves are dense from the start of the span on; elsewhere, and deep
//! inside an area of more than 256 pages, it is a way down the tree: five nodes for a million
//! leaves. Memory follows the areas, not the span: at most 32 bytes each for 10,000 and more areas
//! of 1…64 pages in a steady state, at most 512 for an isolated huge area (`cargo test -p
//! vmalloc-model memory::`).
//!
//! Tree nodes are in an array that grows by an eighth, which now and then makes one allocation copy
//! it. Leaves never move.
//!
//! # Sources
//! Boundary tags are Knuth's (1968), placed outside the memory as a kernel must; lowest fit by the
//! largest size in a subtree is the augmented tree that Linux uses since 2019; constraints follow
//! Bonwick's vmem (2001).
//!
//! # Features
//! - `error-texts` (on by default): errors tell their facts. Without it they tell the name of their
//!   type, which makes a kernel smaller.
//! - `serde`: maps are written as span and segments, and checked when they are read.
//! - `count-steps`: `AreaMap::last_steps` tells how many tree nodes and ranges a search looked at.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

// The files:
//
// - `metadata`, `row_array`: where records live: on the heap, or in memory that a caller lends.
// - `leaf`: the bits, and what can be read off one leaf. `bitmaps`: all leaves, for readers
//   without the map.
// - `scan`: the free ranges of a leaf, one by one or, where there are many, all at once
//   (`runs`).
// - `summary`: what a set of free ranges can take, for every alignment at once.
// - `tree`: summaries of all leaves under a wide tree.
// - `map`: the map's parts. `fit`: requests. `error`: refusals. `sync`: atomics, and hooks
//   for explored schedules.
// - `search`, `highest`: placement. `congruent`: that of several areas at once.
// - `place`, `coalesce`: allocation and freeing. `cut`: areas cut and grown where they are,
//   and the span.
// - `quarantine`: areas whose pages come back for a token. `traits`: printed, cloned,
//   compared, written. `verify`: the invariants below, checked.

mod addr;
mod bitmap;
mod bitmaps;
mod cell;
mod coalesce;
mod cut;
mod error;
mod fit;
mod highest;
mod lack;
mod leaf;
mod map;
mod metadata;
mod page_set;
mod place;
mod quarantine;
mod row_array;
mod runs;
mod scan;
mod search;
mod shared;
mod summary;
#[doc(hidden)]
pub mod sync;
mod traits;
mod tree;
mod verify;
mod version;

pub use addr::PageRange;
pub use cut::ResizeError;
pub use error::{FitError, NoArea, NoSpace, RequestError};
pub use fit::{Fit, Policy};
pub use map::{AreaMap, Segment, State};
pub use page_set::PageSet;
pub use quarantine::Quarantined;
pub use verify::Violation;

/// The parts of a map whose areas change hands without its lock: for `vmalloc` alone. They may
/// change at any time.
#[doc(hidden)]
pub mod parts {
    pub use crate::bitmap::LEAF_SHIFT;
    pub use crate::bitmaps::{Bitmaps, Look, Note};
    pub use crate::lack::{Lack, Nodes};
    pub use crate::leaf::Leaf;
    pub use crate::row_array::RowArray;
    pub use crate::shared::{Lent, Once, OutOfMemory, Shared, try_box, try_zeroed};
}

#[cfg(test)]
mod tests;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
