//! The sequences of calls whose counts of blocks were published in 2015, or measured since.
//!
//! | scenario | a thousand times |
//! |---|---|
//! | 1 | 16 pages once, then as often 8 as leaves room for one more in a block |
//! | 2 | ten times 1 + x % 64 pages, x from xorshift32 (13, 17, 5) that begins at 1 |
//! | 3 | for each order 0…6 as many of 2^order pages as leave room for one more; then one of each order |
//!
//! One CPU; each mapping is returned before the next is made. The counts repeat exactly. The times are those of single calls, the
//! reading of the clock included, as a function profiler has them.

use super::{Blocks, Variant};
use crate::design::Setup;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Turns of scenarios 1 and 3; scenario 2 has ten times as many, of one mapping.
const TURNS: u64 = 1000;
/// Orders of the sizes: 1 to 64 pages.
const ORDERS: u32 = 7;

/// The calls of a function, as a function profiler prints them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FunctionProfile {
    /// How many.
    pub hit: u64,
    /// What all took, in µs.
    pub time_us: f64,
    /// One, in µs.
    pub avg_us: f64,
    /// The variance of one, in µs².
    pub s2_us2: f64,
}

/// A scenario, played once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// With which blocks.
    pub variant: Variant,
    /// Blocks made.
    pub made: u64,
    /// Blocks freed.
    pub freed: u64,
    /// What obtains slots.
    pub map: FunctionProfile,
    /// What returns them.
    pub unmap: FunctionProfile,
}

/// Plays scenario 1, 2 or 3 with blocks of so many slots.
///
/// # Panics
/// When there is no such scenario, or no such block.
#[must_use]
pub fn run(scenario: u8, slots: u64, variant: Variant) -> Outcome {
    let blocks = variant.build(&setup(), slots);
    let mut player = Player { blocks, slots, map: Times::default(), unmap: Times::default() };
    match scenario {
        1 => player.large_and_small(),
        2 => player.random(),
        3 => player.orders(),
        other => panic!("there is no scenario {other}"),
    }
    let (made, freed) = player.blocks.counts();
    Outcome { variant, made, freed, map: player.map.profile(), unmap: player.unmap.profile() }
}

/// One CPU, so that the counts repeat wherever this runs; the threshold of four, as the machines of the postings had.
fn setup() -> Setup {
    Setup::with_cpus(1).lazy_max(Setup::with_cpus(4).lazy_max_pages)
}

struct Player {
    blocks: Box<dyn Blocks>,
    slots: u64,
    map: Times,
    unmap: Times,
}

impl Player {
    fn large_and_small(&mut self) {
        for _ in 0..TURNS {
            self.pair(16);
            (0..(self.slots - 16) / 8 - 1).for_each(|_| self.pair(8));
        }
    }

    fn random(&mut self) {
        let mut x = 1u32;
        for _ in 0..10 * TURNS {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            self.pair(u64::from(1 + x % 64));
        }
    }

    fn orders(&mut self) {
        for _ in 0..TURNS {
            for order in 0..ORDERS {
                (0..(self.slots >> order) - 1).for_each(|_| self.pair(1 << order));
            }
            (0..ORDERS).for_each(|order| self.pair(1 << order));
        }
    }

    fn pair(&mut self, pages: u64) {
        let before = Instant::now();
        let start = self.blocks.map(pages).expect("room for a moment");
        let between = Instant::now();
        self.blocks.unmap(start, pages).expect("it is mapped");
        let after = Instant::now();
        self.map.add(between - before);
        self.unmap.add(after - between);
    }
}

/// Sums over single calls.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    hit: u64,
    ns: u128,
    squares: u128,
}

impl Times {
    fn add(&mut self, took: Duration) {
        let ns = took.as_nanos();
        self.hit += 1;
        self.ns += ns;
        self.squares += ns * ns;
    }

    fn profile(&self) -> FunctionProfile {
        let (hit, time_us) = (self.hit as f64, self.ns as f64 / 1e3);
        let avg_us = time_us / hit;
        FunctionProfile {
            hit: self.hit,
            time_us,
            avg_us,
            s2_us2: self.squares as f64 / 1e6 / hit - avg_us * avg_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(slots: u64, variant: Variant) -> [(u64, u64); 3] {
        [1, 2, 3].map(|scenario| {
            let outcome = run(scenario, slots, variant);
            assert_eq!(outcome.map.hit, outcome.unmap.hit);
            (outcome.made, outcome.freed)
        })
    }

    #[test]
    fn new_blocks_at_the_head_have_the_published_counts() {
        assert_eq!(counts(1024, Variant::Head), [(1000, 0), (423, 51), (7001, 6993)]);
        assert_eq!(counts(256, Variant::Head), [(1000, 0), (1735, 762), (7001, 6993)]);
    }

    #[test]
    fn new_blocks_at_the_tail_have_the_published_counts() {
        assert_eq!(counts(1024, Variant::Tail), [(993, 992), (417, 414), (7000, 7000)]);
        assert_eq!(counts(256, Variant::Tail), [(969, 968), (1667, 1663), (7000, 7000)]);
    }

    #[test]
    fn ours_makes_a_few_blocks_and_hands_them_out_again() {
        for slots in [256, 1024] {
            // What is lazy at a time, and one of each order.
            let most = setup().lazy_max_pages / slots + 9;
            for (made, _) in counts(slots, Variant::Ours) {
                assert!(made <= most, "{made} blocks of {slots} slots, not {most}");
            }
        }
    }

    #[test]
    fn calls_are_those_of_the_published_runs() {
        let calls = |scenario, slots| run(scenario, slots, Variant::Tail).map.hit;
        assert_eq!([1, 2, 3].map(|scenario| calls(scenario, 1024)), [126_000, 10_000, 2_032_000]);
        assert_eq!([1, 2, 3].map(|scenario| calls(scenario, 256)), [30_000, 10_000, 508_000]);
    }

    #[test]
    fn a_profile_is_sum_mean_and_variance() {
        let mut times = Times::default();
        [1000, 2000, 3000].into_iter().for_each(|ns| times.add(Duration::from_nanos(ns)));
        let profile = times.profile();
        assert_eq!((profile.hit, profile.time_us, profile.avg_us), (3, 6.0, 2.0));
        assert!((profile.s2_us2 - 2.0 / 3.0).abs() < 1e-9);
    }
}
