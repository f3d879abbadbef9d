//! The measurements of a report: each module answers a question about every design.
//!
//! | module | question |
//! |---|---|
//! | [`live`] | what does an allocation cost when much is live already? |
//! | [`threads`] | what do more threads bring? |
//! | [`latency`] | how long does the unlucky one wait, while a drain goes on? |
//! | [`fragmentation`] | how much address space does a random live set take, and what does it look like? |
//! | [`machine`] | on what was that measured, and how steady is it? |
//!
//! All sizes are random but repeatable: every run of every design has the same requests. A
//! measurement is bounded by time ([`Budget`]), not by work: a design that gets slow ends early,
//! and says where.

pub mod fragmentation;
pub mod latency;
pub mod live;
pub mod machine;
pub mod threads;

use crate::rng::Rng;
use serde::Serialize;
use std::time::Duration;

/// Pages of the largest area of a random live set; the smallest has one, and all sizes between are
/// equally likely.
pub const MOST_PAGES: u64 = 64;

/// Pages for an area of a random live set.
fn random_pages(rng: &mut Rng) -> u64 {
    rng.between(1, MOST_PAGES)
}

/// How long to measure, and how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Budget {
    /// The most live areas.
    pub live_max: u64,
    /// Time for the pairs of a point.
    pub point: Duration,
    /// Time to make the live set of a point.
    pub fill: Duration,
    /// The most threads.
    pub threads_max: usize,
    /// Time for each number of threads.
    pub threads: Duration,
    /// Time for single calls.
    pub latency: Duration,
    /// Replacements in the random live set.
    pub replacements: u64,
}

impl Budget {
    /// Some 10 to 60 seconds a design.
    pub const FULL: Self = Self {
        live_max: 10_000_000,
        point: Duration::from_millis(300),
        fill: Duration::from_secs(60),
        threads_max: 64,
        threads: Duration::from_millis(250),
        latency: Duration::from_secs(2),
        replacements: 100_000,
    };

    /// Some 2 to 4 seconds a design.
    pub const QUICK: Self = Self {
        live_max: 100_000,
        point: Duration::from_millis(100),
        fill: Duration::from_secs(2),
        threads_max: 16,
        threads: Duration::from_millis(80),
        latency: Duration::from_millis(500),
        replacements: 40_000,
    };
}
