//! Programs of all kinds with every strategy that the kernel has, against the oracle.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose other programs and their length.

use crate::common::can_write;
use std::sync::Arc;
use vmalloc::{Platform, Space, SpaceOptions};
use vmalloc_harness::not_run;
use vmalloc_linux::{BatchAdvise, GuardMeans, Linux, LinuxOptions, ReserveError};
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

/// Returns a platform; `None` where the kernel lacks what it asks for.
fn reserve(options: LinuxOptions) -> Option<Faulty<Linux>> {
    match Linux::reserve(options) {
        Ok(linux) => Some(Faulty::new(linux, Arc::new(Kernel), Narrow::default())),
        Err(ReserveError::Unsupported { .. }) => None,
        Err(error) => panic!("{options:?}: {error}"),
    }
}

/// Plays some programs with random settings, on areas of up to so many pages.
fn play(program: &Program<Faulty<Linux>>, seed: u64, count: u64, options: LinuxOptions) {
    let Some(platform) = reserve(options) else { return not_run("programs", format!("no {options:?}")) };
    let make = |space_options: SpaceOptions| {
        Some(Space::new(reserve(options)?, space_options).expect("an empty space"))
    };
    program.seeds(seed, count, 1_000, &platform.geometry(), make);
}

/// Options of a space of some chunks, and of one of many.
fn sizes() -> [LinuxOptions; 2] {
    [112, 1024].map(|mib| LinuxOptions::new().exactly(mib * MIB).frame_bytes(4096 * MIB))
}

#[test]
fn programs_hold_with_every_strategy() {
    let [some, many] = sizes();
    for (nth, guards) in (0..).zip(GuardMeans::all()) {
        for (other, batch) in (0..).zip(BatchAdvise::all()) {
            let (seed, with) =
                (40 * nth + 10 * other, |it: LinuxOptions| it.guard_means(guards).batch_advise(batch));
            play(&program(), seed, 3, with(some));
            // Areas of so many chunks are closed when they are purged.
            play(&program().live(12).most_pages(40_000), seed + 4, 2, with(many));
        }
    }
}

#[test]
fn programs_hold_with_frees_that_trap() {
    for (seed, stash) in [(300, 64 * MIB), (310, 0)] {
        let [some, many] =
            sizes().map(|it| it.for_space(&SpaceOptions::default().trap_on_free(true)).stash_bytes(stash));
        play(&program(), seed, 3, some);
        play(&program().live(12).most_pages(6_000), seed + 4, 1, many);
    }
}

#[test]
fn programs_hold_where_memory_is_put_behind_new_areas_at_once() {
    play(&program(), 320, 3, sizes()[0].populate(true).dump(false));
}
