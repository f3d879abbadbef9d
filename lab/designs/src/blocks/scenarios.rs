//! The sequences of calls whose counts of blocks were published in 2015, or measured since.
//!
//! | scenario | a thousand times |
//! |---|---|
//! | 1 | 16 pages once, then as often 8 as leaves room for one more in a block |
//! | 2 | ten times 1 + x % 64 pages, x from xorshift32 (13, 17, 5) that begins at 1 |
//! | 3 | for each order 0…6 as many of 2^order pages as leave room for one more; then one of each order |
//!
//! One CPU; each mapping is returned before the next is made. The counts repeat exactly. The times
//! are those of single calls, the reading of the clock included, as a function profiler has them.

use super::{Counts, Flush, Variant};
use crate::design::Setup;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Turns of scenarios 1 and 3; scenario 2 has ten times as many, of one mapping.
const TURNS: usize = 1000;
/// Orders of the sizes: 1 to 64 pages.
const ORDERS: u32 = 7;

/// The calls of a function, as a function profiler prints them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FunctionProfile {
    /// How many.
    pub hit: u64,
    /// The time of all, in µs.
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
    /// The blocks.
    pub blocks: Counts,
    /// The function that obtains slots.
    pub map: FunctionProfile,
    /// The function that returns them.
    pub unmap: FunctionProfile,
}

/// Plays scenario 1, 2 or 3 with blocks of so many slots.
///
/// # Panics
/// When there is no such scenario, or no such block.
#[must_use]
pub fn run(scenario: u8, slots: u64, variant: Variant) -> Outcome {
    let blocks = variant.build(&setup(), slots);
    let (mut map, mut unmap) = (Times::default(), Times::default());
    play(scenario, slots, |pages| {
        let before = Instant::now();
        let start = blocks.map(pages).expect("room for a moment");
        let between = Instant::now();
        blocks.unmap(start, pages).expect("it is mapped");
        let after = Instant::now();
        map.add(between - before);
        unmap.add(after - between);
    });
    Outcome { variant, blocks: blocks.counts(), map: map.profile(), unmap: unmap.profile() }
}

/// Returns the work of a flush of a block of so many slots, every other one of which was returned;
/// `None` where a flush asks no block.
///
/// # Panics
/// When there is no such block.
#[must_use]
pub fn flush(slots: u64, variant: Variant) -> Option<Flush> {
    let blocks = variant.build(&setup(), slots);
    let mapped: Vec<_> = (0..slots).map(|_| blocks.map(1).expect("room for a page")).collect();
    mapped.iter().step_by(2).for_each(|&start| blocks.unmap(start, 1).expect("it is mapped"));
    blocks.flush()
}

/// Plays scenario 2 with sizes drawn from a seed, which is not 0. Returns the blocks.
///
/// # Panics
/// When there is no such block.
#[must_use]
pub fn drawn(seed: u32, slots: u64, variant: Variant) -> Counts {
    let blocks = variant.build(&setup(), slots);
    for pages in random_sizes(seed).take(10 * TURNS) {
        let start = blocks.map(pages).expect("room for a moment");
        blocks.unmap(start, pages).expect("it is mapped");
    }
    blocks.counts()
}

/// One CPU, so that the counts repeat wherever this runs; the threshold of four, as the machines of
/// the postings had.
fn setup() -> Setup {
    Setup::with_cpus(1).lazy_max(Setup::with_cpus(4).lazy_max_pages)
}

/// Calls `pair` with the pages of each mapping of a scenario, in order.
fn play(scenario: u8, slots: u64, mut pair: impl FnMut(u64)) {
    match scenario {
        1 => (0..TURNS).for_each(|_| {
            pair(16);
            (0..(slots - 16) / 8 - 1).for_each(|_| pair(8));
        }),
        2 => random_sizes(1).take(10 * TURNS).for_each(pair),
        3 => (0..TURNS).for_each(|_| {
            for order in 0..ORDERS {
                (0..(slots >> order) - 1).for_each(|_| pair(1 << order));
            }
            (0..ORDERS).for_each(|order| pair(1 << order));
        }),
        other => panic!("there is no scenario {other}"),
    }
}

fn random_sizes(seed: u32) -> impl Iterator<Item = u64> {
    let mut x = seed;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        u64::from(1 + x % 64)
    })
}

/// Sums over single calls, in nanoseconds.
#[derive(Default)]
struct Times {
    hit: u64,
    sum: u128,
    squares: u128,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.hit += 1;
        self.sum += time.as_nanos();
        self.squares += time.as_nanos() * time.as_nanos();
    }

    /// Returns the numbers that a function profiler would print.
    fn profile(&self) -> FunctionProfile {
        let (hit, time_us) = (self.hit as f64, self.sum as f64 / 1e3);
        let avg_us = time_us / hit;
        let s2_us2 = self.squares as f64 / hit / 1e6 - avg_us * avg_us;
        FunctionProfile { hit: self.hit, time_us, avg_us, s2_us2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(slots: u64, variant: Variant) -> [(u64, u64); 3] {
        [1, 2, 3].map(|scenario| {
            let outcome = run(scenario, slots, variant);
            assert_eq!(outcome.map.hit, outcome.unmap.hit);
            (outcome.blocks.made, outcome.blocks.freed)
        })
    }

    /// The pages of all blocks over the live ones, where each block's worth of mappings has one
    /// that stays.
    fn one_long_lived_page_a_block(slots: u64, variant: Variant, live: u64) -> f64 {
        let blocks = variant.build(&setup(), slots);
        let pair = |pages| blocks.unmap(blocks.map(pages).expect("room"), pages).expect("it is mapped");
        for _ in 0..live {
            blocks.map(1).expect("room for a page");
            (0..7).for_each(|_| pair(1));
            (0..slots / 8 - 1).for_each(|_| pair(8));
        }
        let Counts { made, freed, .. } = blocks.counts();
        ((made - freed) * slots) as f64 / live as f64
    }

    #[test]
    fn a_long_lived_page_pins_itself_and_classically_a_block() {
        assert!(one_long_lived_page_a_block(256, Variant::Tail, 100) > 250.0);
        assert!(one_long_lived_page_a_block(256, Variant::Ours, 20_000) < 2.0);
    }

    #[test]
    fn ours_makes_a_few_blocks_and_hands_them_out_again() {
        for slots in [256, 1024] {
            // All lazy slots at a time, and one block of each order.
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

    /// The worst case that the author names is one block for each order.
    #[test]
    fn at_the_tail_seven_blocks_are_walked_and_at_the_head_nearly_all() {
        let walked = |scenario, variant| run(scenario, 1024, variant).blocks.walked;
        assert_eq!([1, 2, 3].map(|scenario| walked(scenario, Variant::Tail)), [1, 5, 7]);
        assert_eq!([1, 3].map(|scenario| walked(scenario, Variant::Head)), [999, 7]);
    }

    #[test]
    fn a_bitmap_is_searched_and_a_range_is_told() {
        let work = |searches, ranges, pages| Some(Flush { searches, ranges, pages });
        assert_eq!(flush(1024, Variant::Tail), work(1025, 512, 512));
        assert_eq!(flush(1024, Variant::Range), work(0, 1, 1023));
        assert_eq!(flush(256, Variant::Range), work(0, 1, 255));
        assert_eq!(flush(256, Variant::Ours), None);
    }

    #[test]
    fn profile_has_sum_mean_and_variance() {
        let mut times = Times::default();
        [1, 2, 3].into_iter().for_each(|us| times.add(Duration::from_micros(us)));
        let profile = times.profile();
        assert_eq!((profile.hit, profile.time_us, profile.avg_us), (3, 6.0, 2.0));
        assert!((profile.s2_us2 - 2.0 / 3.0).abs() < 1e-9);
    }
}
