//! Short mappings: addresses for mappings that live shortly, at the price of a few stores.
//!
//! A **block** is an area of up to 1024 pages, its **slots**, cut from the space once and handed
//! out piece by piece: a request of up to 64 pages takes 2^order slots. The CPU that maps asks its
//! own queue; the CPU that unmaps touches only the block. (The idea is Linux's `vm_map_ram`, 2008;
//! blocks at the tail of their queue, 2015.)
//!
//! ```text
//!    map on CPU 0           queue 0          block                                      unmap, on any CPU
//!       │                 ┌──────────┐      ┌───────────────┬──────┬───────┬───────────┐      │
//!       └── exchange ───► │ window ──┼────► │ 4 · · · D ·  …│ live │ dirty │ window    │ ◄────┘
//!                         └──────────┘      └───────────────┴──────┴───────┴───────────┘   byte: 4 → 4|DIRTY
//!                                             a byte a slot           held = live + window   held -= 4
//! ```
//! Neither takes a lock as a rule.
//!
//! [`ShortMaps`] are the short mappings of one space, [`ShortMapping`] owns one. A purge of the
//! space flushes returned slots together with everything else that waits: the blocks are a
//! [tenant](vmalloc::tenant) of the space.
//!
//! # Terms
//! - A **window** is a range of slots that one queue may hand out, from its start. A queue has one
//!   for each order.
//! - A slot is **live** (mapped), **dirty** (returned, and perhaps still translated somewhere),
//!   **clean**, or in a window.
//!
//! # Invariants
//! - **BLOCK-1** The bytes of a block, from the first, are a sequence of runs. The other bytes of a
//!   run mean nothing. In a block that is all clean no byte means anything.
//!
//!   | first byte | run |
//!   |---|---|
//!   | 0 | one clean slot |
//!   | `RESERVED + k` | 2^k slots of a window, or just taken out of it by a thread that is about to write a live run |
//!   | `n` ≤ 64 | a live run of n pages, in 2^⌈log n⌉ slots |
//!   | `n + KEPT` | such a run, returned and kept mapped for the next caller that maps the same frames |
//!   | `n \| DIRTY` | such a run, returned for good |
//!
//! - **BLOCK-2** `held` = slots that are live or in a window. The thread that brings it to 0 moves
//!   the block to the lists.
//! - **BLOCK-3** `clean` = clean slots. A slot that is neither held nor clean is dirty.
//! - **BLOCK-4** The state of a block changes only with the lists locked.
//!
//! ```text
//!             all slots a window                    window used up                held = 0
//!    Unused ────────────────────► Open (in a queue) ───────────────► Closed ─────────────────► Spent
//!       ▲                          ▲        ▲                          │                         │
//!       │ pressure                 │        │ some slots    flushed    ▼        flushed          │
//!       └───────────── Ready ──────┘        └────────────── Part ◄── Purging ◄───────────────────┘
//!                        ▲                                             │
//!                        └─────────────────────────────────────────────┘ all slots
//! ```
//!
//! Beyond the original: a flush makes dirty slots clean while others live on, and a block with
//! clean slots is opened again. So one long-lived mapping pins itself and not a block. On a machine
//! whose mappings [replace](vmalloc::Geometry::remaps_atomically) what was there, dirty slots are as
//! good as clean ones.
//!
//! # Locks
//! A queue, or none; then the lists of all blocks, with a queue or without. Nothing is locked under
//! the lists, and the space is called under neither.
// Modules:
// - `calls`: the calls. `mapping`: the owner of a mapping. `error`.
// - `blocks`: all blocks of a space. `slots`: a block's record, a byte for each slot.
// - `windows`: a CPU's queue, from which it takes slots. `kept`: runs that it keeps mapped.
// - `lists`: blocks that can be opened, for all CPUs.
// - `handout`: what every mapping does. `lifecycle`: from one window to the next.
// - `tenant`: the answers to the space. `collect`: blocks in a purge. `repair`: blocks after
//   a fork. `check`: the invariants.
// - `linear`: frames that are mapped already.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod blocks;
mod calls;
mod check;
mod collect;
mod error;
mod handout;
mod kept;
mod lifecycle;
mod linear;
mod lists;
mod mapping;
#[cfg(all(test, loom))]
mod models;
mod repair;
mod slots;
mod tenant;
#[cfg(test)]
mod tests;
mod windows;

pub use blocks::MOST_PAGES;
pub use calls::{ShortMaps, TAG};
pub use error::{ShortError, UnmapError};
pub use mapping::{ShortMapping, ShortMapsRef};

use blocks::{Blocks, Padded, is_served, order_of, slots_for};
use kept::{Kept, Key, MOST_KEPT};
use lists::{List, Lists};
use slots::{Block, BlockState, MAX_SLOTS, Run, SlotState};
use windows::{AtomicWindow, Queue, QueueState, Window};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
