//! Programs of all kinds with every strategy that the kernel has, against the oracle.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose other programs and their length.

use crate::common::{Batches, can_write};
use std::sync::Arc;
use vmalloc::{Platform, Space, SpaceOptions};
use vmalloc_harness::env::addresses;
use vmalloc_harness::not_run;
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, ReserveError};
use vmalloc_programs::{Below, Faulty, Look, Narrow, Nofault, Program, Seen};

const MIB: usize = 1 << 20;

/// Sees whether pages can be written as well: the kernel tries.
#[derive(Debug)]
struct Kernel;

impl Look<Linux> for Kernel {
    fn fill(&self, linux: &Linux, cpu: usize, page: u64, word: u64) {
        Nofault.fill(linux, cpu, page, word);
    }

    fn read(&self, linux: &Linux, cpu: usize, page: u64) -> Seen {
        Nofault.read(linux, cpu, page)
    }

    fn leads(&self, linux: &Linux, cpu: usize, page: u64) -> Option<bool> {
        Nofault.leads(linux, cpu, page)
    }

    fn can_write(&self, linux: &Linux, _: usize, page: u64) -> Option<bool> {
        Some(can_write(linux, page))
    }
}

fn program() -> Program<Faulty<Linux>> {
    let program = Program::new(Below).frames().protect().memory().resize();
    program.discard().read_nofault().translate()
}

/// The options of the platforms of some programs. Those of the space only choose the means.
#[derive(Clone, Copy, Debug)]
struct With {
    options: LinuxOptions,
    space_options: SpaceOptions,
    batches: Batches,
}

impl With {
    fn new(options: LinuxOptions) -> Self {
        Self { options, space_options: SpaceOptions::default(), batches: Batches::Taken }
    }
}

/// Returns a platform; `None` where the kernel lacks what it asks for.
fn reserve(with: &With) -> Option<Faulty<Linux>> {
    match with.batches.opening(|| Linux::reserve(with.options, &with.space_options)) {
        Ok(linux) => Some(Faulty::new(linux, Arc::new(Kernel), Narrow::default())),
        Err(ReserveError::Unsupported { .. }) => None,
        Err(error) => panic!("{with:?}: {error}"),
    }
}

/// Plays some programs with random settings, on areas of up to so many pages.
fn play(program: &Program<Faulty<Linux>>, seed: u64, count: u64, with: &With) {
    let Some(platform) = reserve(with) else { return not_run("programs", format!("no {with:?}")) };
    let make = |space_options: SpaceOptions| {
        Some(Space::new(reserve(with)?, space_options).expect("an empty space"))
    };
    program.seeds(seed, count, 1_000, &platform.geometry(), make);
}

/// Options of a space of some chunks, and of one of many.
fn sizes() -> [LinuxOptions; 2] {
    [112, 1024].map(|mib| LinuxOptions::new().max_bytes(mib * MIB).frame_bytes(addresses(2048 * MIB)))
}

#[test]
fn programs_hold_with_every_strategy() {
    let [some, many] = sizes();
    for (nth, guards) in (0..).zip(GuardMeans::all()) {
        for (other, batches) in (0..).zip(Batches::ALL) {
            let seed = 40 * nth + 10 * other;
            let with = |it: LinuxOptions| With { batches, ..With::new(it.guard_means(guards)) };
            play(&program(), seed, 3, &with(some));
            // Areas of so many chunks are closed when they are purged.
            play(&program().live(12).most_pages(40_000), seed + 4, 2, &with(many));
        }
    }
}

#[test]
fn programs_hold_with_frees_that_trap() {
    for (seed, stash) in [(300, 64 * MIB), (310, 0)] {
        let space_options = SpaceOptions::default().trap_on_free(true).cache_bytes(stash);
        let [some, many] = sizes().map(|options| With { space_options, ..With::new(options) });
        play(&program(), seed, 3, &some);
        play(&program().live(12).most_pages(6_000), seed + 4, 1, &many);
    }
}

#[test]
fn programs_hold_where_memory_is_put_behind_new_areas_at_once() {
    play(&program(), 320, 3, &With::new(sizes()[0].populate(true).dump(false)));
}
