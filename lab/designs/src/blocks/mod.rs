//! Blocks for short mappings: slots out of a larger area, as they were before 2015, since then, and
//! ours.
//!
//! ```text
//!    CPU 0's queue ─► [▓▓▓▓▓▓▓▓▓░░]─►[▓▓▓░░░░░░░░]         ▓ handed out, once in the life of a block
//!                          9 of 11        3 of 11            ░ not yet
//!    4 slots wanted: not in the first, the first with room is the second
//!
//!    off the queue    [▒▒▒▓▓▒▒▒▓▒▒]   [▒▒▒▒▒▒▒▒▒▒▒] ──► freed, and its addresses with it      ▒ returned: dirty
//! ```
//!
//! * `K1` A block hands out its slots from the lowest up, 2^order at a time, and each once. In a queue are the blocks of its CPU
//!   that have slots left.
//! * `K2` A block whose slots have all been returned is freed, at that return.
//!
//! | | a new block |
//! |---|---|
//! | [`Head`](Variant::Head), before 2015 | goes to the head, and the request searches again |
//! | [`Tail`](Variant::Tail), 2015 | is occupied by the request at once, and goes to the tail |
//! | [`Range`](Variant::Range), 2015, the third patch | as that; what is dirty in a block is one range, no bitmap |
//! | [`Ours`](Variant::Ours) | slots are handed out again after a flush |
//!
//! At the head a new block hides the older ones, and what they have left is never asked for; at the
//! tail the oldest are filled first, and so freed. A walk passes at most one block for each order
//! 0…6, seven. Source: the postings of 2015.

mod classic;
mod dirty;
mod ours;
pub mod scenarios;

use crate::design::{Refusal, Setup};
use dirty::{Bitmap, Span};
use serde::Serialize;
use strum::Display;

/// The most pages of a mapping: a word of bits.
pub const MAX_PAGES: u64 = 64;

/// Slots for mappings of 1 to 64 pages.
pub trait Blocks: Send + Sync {
    /// Hands out slots; the first page.
    ///
    /// # Errors
    /// `Bad` for no pages or more than 64, `NoSpace` when there is no room for another block.
    fn map(&self, pages: u64) -> Result<u64, Refusal>;

    /// Returns what [`map`](Self::map) handed out for so many pages.
    ///
    /// # Errors
    /// `NotAnArea` when no block is there, or, where that can be told, nothing is mapped.
    fn unmap(&self, start: u64, pages: u64) -> Result<(), Refusal>;

    /// Blocks so far.
    fn counts(&self) -> Counts;

    /// Counts what a flush of all that is dirty has to do; `None` where it asks no block.
    fn flush(&self) -> Option<Flush> {
        None
    }
}

/// Counts of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Blocks made.
    pub made: u64,
    /// Blocks freed.
    pub freed: u64,
    /// The most blocks that a request looked at, the one with room included; 0 where it walks none.
    pub walked: u64,
}

/// The work of a flush of all aliases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Flush {
    /// Searches for where something dirty begins or ends.
    pub searches: u64,
    /// Ranges that are to be flushed.
    pub ranges: u64,
    /// Pages of these.
    pub pages: u64,
}

/// A way to keep blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Variant {
    /// Before 2015.
    Head,
    /// Since 2015.
    Tail,
    /// That, with a range of dirty slots.
    Range,
    /// The product's.
    #[strum(serialize = "vmalloc")]
    Ours,
}

impl Variant {
    /// Builds it, without any block yet.
    ///
    /// # Panics
    /// Unless a block has a power of two of slots, 128 to 1024; or when memory for metadata is
    /// short.
    #[must_use]
    pub fn build(self, setup: &Setup, slots: u64) -> Box<dyn Blocks> {
        assert!((128..=1024).contains(&slots) && slots.is_power_of_two(), "blocks of {slots} slots");
        match self {
            Self::Head => Box::new(classic::Classic::<Bitmap>::new(setup, slots, true)),
            Self::Tail => Box::new(classic::Classic::<Bitmap>::new(setup, slots, false)),
            Self::Range => Box::new(classic::Classic::<Span>::new(setup, slots, false)),
            Self::Ours => Box::new(ours::Ours::new(setup, slots)),
        }
    }
}
