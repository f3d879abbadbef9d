//! A look from outside: the spaces of another process, or of a core dump, without its help.
//!
//! ```no_run
//! use vmalloc_inspect::{Process, Target};
//!
//! let process = Process::open(4711)?;
//! for space in Target::find(&process)?.spaces()? {
//!     println!("{:?}", space.snapshot()?.tally());
//! }
//! # Ok::<(), vmalloc_inspect::InspectError>(())
//! ```
//!
//! # What holds
//! - Nothing in the other process is changed, stopped or waited for. It is read through
//!   `/proc/PID/mem`, which takes the right to trace it.
//! - Nothing that is read is trusted: each length is bounded, each pointer is an address to read
//!   and no more, each walk goes upwards or counts down. Random bytes end in an [`InspectError`].
//! - A live space changes while it is read. The map is read again until its version says that it
//!   was whole; a space that never rests for that long is told with [`Snapshot::is_settled`] false.
//!   The states of freed areas are read after that, and may be newer.
//!
//! # What does not
//! - Spaces are found that [`open`](vmalloc_linux::open()) or [`share`](vmalloc_linux::share) made
//!   on a whole reservation: no sub-spaces, and no space that a program moved out of its `Arc`.
//! - The program that looks is of the same version of the layouts, and of the same kind of machine:
//!   64 bits, least byte first.
#![forbid(unsafe_code)]

// The files:
//
//  process.rs    a live process: its memory, mappings, faults      dump.rs   a core dump
//       └──────────────┬───────────────────────────────────────────────┘
//                  memory.rs     bytes and words, each page read once, all of it bounded
//                      │
//                  target.rs     the beacon, and the outlines it leads to
//                      │
//       containers.rs  │         lists and tables, whose layouts specimens tell
//                      ▼
//    walk.rs  segments   waiting.rs  cached, pooled, lazy   notes.rs  annotations   frees.rs
//                      └───────────────────┬────────────────────────┘
//                                     snapshot.rs ──► explain.rs  one address;   tally.rs  areas by tag
//
//  program/      what the program `vmalloc` (bin/vmalloc/) and that of the lab share

mod containers;
mod dump;
mod error;
mod explain;
mod frees;
mod memory;
mod notes;
mod process;
// Hidden: programs of ours share it.
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod program;
mod snapshot;
mod tally;
mod target;
mod waiting;
mod walk;

pub use dump::CoreDump;
pub use error::InspectError;
pub use explain::{Explanation, Neighbour, Place, Position};
pub use frees::RecordedFree;
pub use memory::{KernelMapping, Residency, Source};
pub use process::{Counters, Process};
pub use snapshot::{AreaState, Segment, Snapshot};
pub use tally::{Sum, Tagged, Tally};
pub use target::{SpaceView, Target};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
