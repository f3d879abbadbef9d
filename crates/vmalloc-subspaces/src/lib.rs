//! Sub-spaces: one platform's span, divided among named parts, each a full
//! [`Space`](vmalloc::Space).
//!
//! ```text
//!   Space "modules"       Space "jit"            Space …     each with its own range, direction,
//!        │                     │                   │         protection and limit
//!   Subspace ── MappedSet  Subspace ── MappedSet  Root of a Subspace: nested
//!        └──────────┬──────────┴───────────────────┘
//!                 Root: the Plan (which sub-space has which range)
//!                   │
//!                Platform                                    memory, flush, lock
//! ```
//!
//! A [`Subspace`] is a platform like any other. It hands every call on to the platform below, but
//! has a span of its own and records which of its pages are mapped. So a space needs to know
//! nothing of all this, and a sub-space can be divided again.
//!
//! # Invariants
//! - **SUB-1** The ranges of sub-spaces are disjoint and inside the span: they are busy areas of
//!   one area map.
//! - **SUB-2** No two sub-spaces have the same name.
//! - **SUB-3** A mapped set holds every page through which anything may be reachable. A page is
//!   entered before it is mapped, and removed when it has been flushed.
//! - **SUB-4** A range is handed out again only after everything in its mapped set has been
//!   unmapped and flushed. If the platform fails at that after a sub-space was dropped, the range
//!   [lingers](SubspaceState::Lingering).
//!
//! # The end of a sub-space
//! When its space is dropped, everything mapped in it is unmapped and flushed, and its range is
//! free again. That includes memory that is still handed out: it ends with its space, as with the
//! space of a whole platform. Safe code cannot hold any, since a [`Buffer`](vmalloc::Buffer)
//! borrows its space. A bare address kept beyond that dangles.
//!
//! [Frames](vmalloc::FrameSupply) that were taken are not tracked: they stay taken until the caller
//! gives them back. The platform itself lives until the root and all sub-spaces are gone.
//!
//! # Locks
//! | lock | held | over calls of the platform |
//! |---|---|---|
//! | sweeper | while lingering ranges are reclaimed | yes |
//! | plan | when a sub-space comes or goes | no |
//! | mapped set | for each call that maps or flushes | no |
//!
//! None of the last two is held while another lock is taken, but in a fork. All come after the
//! locks of the spaces above, and before those of the platform, which may be a sub-space of another
//! root.
//!
//! # Forks
//! [`Root::quiesce`] takes the sweeper, the plan, and then every mapped set. So the child of a fork
//! finds no half-done change of any of them. It finds the work of other threads between two locks
//! in one of these states:
//!
//! | another thread was | what the child finds | repair |
//! |---|---|---|
//! | making a sub-space | its entry, [`Changing`](SubspaceState::Changing) | it [lingers](SubspaceState::Lingering), and is reclaimed |
//! | reclaiming a dropped one | its entry, `Changing`, and what is left in its mapped set | it lingers, and is reclaimed |
//! | mapping | pages in the mapped set that are not mapped (SUB-3) | none: that thread owns the area for ever, and its pages count |
//! | moving pages | both places in the mapped set | none, as for mapping |
//! | flushing | nothing: a purge holds its space's purger, which the fork waited for | none |
//! | the owner of a sub-space | a live entry | none: what a thread owns that the child lacks is lost |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

// The files:
//
// | file | subject |
// |---|---|
// | `root.rs` | `Root`: sub-spaces made, listed, and their ranges reclaimed |
// | `subspace.rs` | `Subspace`: a part of a platform, as a platform |
// | `plan.rs` | which sub-space has which range, under which name |
// | `mapped_set.rs` | the mapped pages of a sub-space, and their limit |
// | `fork.rs` | locks held around a fork, and repairs in its child |

mod counted;
mod error;
mod fork;
mod info;
mod mapped_set;
mod plan;
mod root;
mod subspace;

pub use error::SubspaceError;
pub use fork::WeakRoot;
pub use info::{SubspaceInfo, SubspaceState};
pub use root::{Divisible, LIMIT_BYTES, Root};
pub use subspace::{Protected, Subspace, Writable};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
