//! Programs of all kinds with every strategy that the kernel has, against the oracle.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose other programs and their length.

use std::sync::Arc;
use vmalloc::{Config, Platform, Space};
use vmalloc_harness::not_run;
use vmalloc_linux::{BatchAdvise, Guards, Linux, Options, ReserveError};
use vmalloc_programs::{Below, Faulty, Narrow, Nofault, Program};

const MIB: usize = 1 << 20;

fn program() -> Program<Faulty<Linux>> {
    let program = Program::new(Below).frames().protect().memory().resize();
    program.discard().read_nofault().translate()
}

/// Returns a platform; `None` where the kernel lacks what it asks for.
fn reserve(options: Options) -> Option<Faulty<Linux>> {
    match Linux::reserve(options) {
        Ok(linux) => Some(Faulty::new(linux, Arc::new(Nofault), Narrow::default())),
        Err(ReserveError::Unsupported { .. }) => None,
        Err(error) => panic!("{options:?}: {error}"),
    }
}

fn play(seed: u64, options: Options) {
    let Some(platform) = reserve(options) else { return not_run("programs", format!("no {options:?}")) };
    let make = |config: Config| Some(Space::new(reserve(options)?, config).expect("an empty space"));
    // The second is played on areas of several chunks.
    program().seeds(seed, 3, 1_000, &platform.geometry(), make);
    program().live(12).most_pages(6_000).seeds(seed + 4, 1, 800, &platform.geometry(), make);
}

#[test]
fn programs_hold_with_every_strategy() {
    for (nth, guards) in (0..).zip(Guards::all()) {
        for (other, batch) in (0..).zip(BatchAdvise::all()) {
            let options = Options::new().exactly(112 * MIB).frame_bytes(512 * MIB).guards(guards);
            play(40 * nth + 10 * other, options.batch_advise(batch));
        }
    }
}

#[test]
fn programs_hold_with_frees_that_trap() {
    for (seed, stash) in [(300, 64 * MIB), (310, 0)] {
        let options = Options::new().exactly(112 * MIB).frame_bytes(512 * MIB).trap_frees();
        play(seed, options.stash_bytes(stash));
    }
}

#[test]
fn programs_hold_where_memory_is_put_behind_new_areas_at_once() {
    play(320, Options::new().exactly(16 * MIB).frame_bytes(512 * MIB).populate().dont_dump());
}
