//! Blocks of short mappings: how many are made for sequences of calls whose counts were published in 2015 (blocks of 1024
//! slots) or measured on Linux 6.1 and 6.12 (256), and what their calls take.
//!
//! The sequences are the [lab's](vmalloc_lab::blocks::scenarios). One thread, on a platform that does nothing: each mapping is returned before
//! the next. Counts repeat exactly.

use crate::adapter::{Caller, FirstCpu, House};
use crate::clock::{tick, ticks_per_ns};
use serde::Serialize;
use vmalloc::Config;
use vmalloc::block::BlockPolicy::{self, ClassicHead, ClassicTail, Recycle};
use vmalloc_lab::blocks::scenarios::{FunctionProfile, Times, play};
use vmalloc_linux::FutexLock;

type Space = Caller<FutexLock, FirstCpu>;

/// The policies, and how tables name them.
pub const POLICIES: [(BlockPolicy, &str); 3] =
    [(ClassicHead, "head"), (ClassicTail, "tail"), (Recycle, "recycle")];

/// The sizes of blocks that there are counts for.
pub const SLOTS: [u64; 2] = [256, 1024];

/// A scenario played once.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its number.
    pub scenario: u8,
    /// Slots of a block.
    pub slots: u64,
    /// The name of the policy.
    pub policy: &'static str,
    /// Pages of all calls.
    pub pages: u64,
    /// Blocks made, and freed.
    pub blocks: (u64, u64),
    /// The same as published or measured, where it was.
    pub known: Option<(u64, u64)>,
    /// What obtains addresses.
    pub map: FunctionProfile,
    /// What returns them.
    pub unmap: FunctionProfile,
}

/// The figures of 2015 (1024 slots, scenario 2 with this generator) and of Linux 6.1 and 6.12 (256 slots).
pub fn known(scenario: u8, slots: u64, policy: BlockPolicy) -> Option<(u64, u64)> {
    Some(match (slots, policy, scenario) {
        (1024, ClassicHead, 1) | (256, ClassicHead, 1) => (1000, 0),
        (1024, ClassicHead, 2) => (423, 51),
        (256, ClassicHead, 2) => (1735, 762),
        (_, ClassicHead, 3) => (7001, 6993),
        (1024, ClassicTail, 1) => (993, 992),
        (256, ClassicTail, 1) => (969, 968),
        (1024, ClassicTail, 2) => (417, 414),
        (256, ClassicTail, 2) => (1667, 1663),
        (_, ClassicTail, 3) => (7000, 7000),
        _ => return None,
    })
}

/// Plays a scenario in a space of its own.
///
/// # Panics
/// When there is no scenario of this number.
pub fn run(scenario: u8, slots: u64, (policy, name): (BlockPolicy, &'static str)) -> Run {
    let mut player = Player::new(slots, policy);
    play(scenario, slots, |pages| player.pair(pages));
    let stats = player.space.stats();
    Run {
        scenario,
        slots,
        policy: name,
        pages: player.pages,
        blocks: (stats.blocks_made, stats.blocks_freed),
        known: known(scenario, slots, policy),
        map: player.map.profile(ticks_per_us()),
        unmap: player.unmap.profile(ticks_per_us()),
    }
}

/// Maps one page for good and a block's worth of others for a moment, `live` times: the pages of all blocks there are then,
/// over the live ones.
///
/// # Panics
/// When addresses run out.
pub fn one_long_lived_page_a_block(slots: u64, policy: BlockPolicy, live: u64) -> f64 {
    let mut player = Player::new(slots, policy);
    for _ in 0..live {
        player.space.block_alloc(1).expect("addresses for a page");
        (0..7).for_each(|_| player.pair(1));
        (0..slots / 8 - 1).for_each(|_| player.pair(8));
    }
    (player.space.stats().blocks * slots) as f64 / live as f64
}

struct Player {
    space: Space,
    pages: u64,
    map: Times,
    unmap: Times,
}

impl Player {
    fn new(slots: u64, policy: BlockPolicy) -> Self {
        let space = Space::open(Config::default().blocks(slots, policy));
        Self { space, pages: 0, map: Times::default(), unmap: Times::default() }
    }

    fn pair(&mut self, pages: u64) {
        let before = tick();
        let addr = self.space.block_alloc(pages).expect("addresses for a moment");
        let between = tick();
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.space.block_free(addr, pages) }.expect("a live mapping");
        let after = tick();
        self.map.add(between.wrapping_sub(before));
        self.unmap.add(after.wrapping_sub(between));
        self.pages += pages;
    }
}

fn ticks_per_us() -> f64 {
    ticks_per_ns() * 1000.0
}

/// What two ticks in a row are apart, in µs: part of every call above.
pub fn clock_us() -> f64 {
    let mut times = Times::default();
    for _ in 0..100_000 {
        let before = tick();
        times.add(tick().wrapping_sub(before));
    }
    times.profile(ticks_per_us()).avg_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_counts_are_the_known_ones() {
        for slots in SLOTS {
            for policy in &POLICIES[..2] {
                for scenario in [1, 2] {
                    let run = run(scenario, slots, *policy);
                    assert_eq!(Some(run.blocks), run.known, "scenario {scenario}, {slots}, {}", policy.1);
                }
            }
        }
    }

    #[test]
    fn calls_and_pages_are_the_known_ones() {
        let counts = |scenario, slots| {
            let run = run(scenario, slots, POLICIES[2]);
            assert_eq!((run.known, run.map.hit), (None, run.unmap.hit));
            (run.map.hit, run.pages)
        };
        assert_eq!(counts(1, 256), (30_000, 248_000));
        assert_eq!(counts(2, 256), (10_000, 325_908));
        assert_eq!(counts(3, 256), (508_000, 1_792_000));
        assert_eq!(counts(1, 1024).0, 126_000);
        assert_eq!(counts(3, 1024).0, 2_032_000);
    }

    #[test]
    fn a_long_lived_page_pins_itself_and_classically_a_block() {
        assert!(one_long_lived_page_a_block(256, ClassicTail, 100) > 250.0);
        assert!(one_long_lived_page_a_block(256, Recycle, 20_000) < 2.0);
    }
}
