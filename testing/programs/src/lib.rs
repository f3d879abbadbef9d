//! Random programs over the whole raw API of a space, on any platform, against one oracle.
//!
//! ```text
//!   Seeded ─┐                 acts: alloc, free, commit, map, purge, move, fail …
//!   Bytes  ─┼─► choices ──► Player ──────────────────────────► Space on the platform under test
//!   Words  ─┘                 │  ▲                                          │
//!                             ▼  │ is the answer legal?                     │ memory, through a Look
//!                           Oracle: what each page of each area shows ◄─────┘
//! ```
//!
//! A [`Program`] knows which powers a platform has ([`frames`](Program::frames),
//! [`discard`](Program::discard) …), and so which acts it may choose from. One player serves all
//! platforms, all settings, and all sources of choices. Its acts are the calls of a space and the
//! types that own their area. Players on several threads can share a space
//! ([`join`](Program::join)), and go on in the child of a fork.
//!
//! # What is checked
//! - **P1** An address that is handed out is aligned, within its limits, and in no other area.
//!   [`find`](vmalloc::Space::find) tells of it what was asked for.
//! - **P2** A page shows the word written to it last, through any address and on any CPU. New
//!   pages are zero where that was promised.
//! - **P3** Guards trap, and pages that were never mapped, decommitted or unmapped. Freed pages
//!   trap after a flush; with [`trap_on_free`](vmalloc::SpaceOptions::trap_on_free), at once.
//! - **P4** A refusal is true: no free range can take the request, or a call of the platform has
//!   failed meanwhile. A wrong call has the right error. An error changes nothing.
//! - **P5** The counts add up, walks and look-ups agree with the oracle, and every invariant holds.
//! - **P6** At the end all is freed and purged: one free range, nothing mapped, no frame lost, and
//!   the machine has found no misuse.
//!
//! [`machines`] has simulated machines of every kind, and plays a fuzzer's bytes.
//!
//! Where an area is placed is the space's own business: the oracle asks whether an answer is legal,
//! and does not predict it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod acts;
mod faulty;
mod look;
pub mod machines;
mod narrow;
mod oracle;
mod play;
mod player;
mod settings;
mod sim;
mod whole;
mod wish;

pub use faulty::Faulty;
pub use look::{Below, Blind, Direct, Look, Nofault, Seen};
pub use narrow::Narrow;
pub use play::{Program, Walked};
pub use player::Player;
pub use settings::random_options;
pub use sim::SimLook;
pub use vmalloc_sim::Point;
