//! Flush protocols that are wrong on purpose: each stops a random program under a space.

use std::panic::{AssertUnwindSafe, catch_unwind};
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_model::{Seeded, env};
use vmalloc_programs::machines::on_machine;
use vmalloc_sim::{InjectedBug, Options, Sim};

/// Plays a program. Returns whether it came to its end.
fn is_played(choose: impl FnOnce(Options) -> Options) -> bool {
    let span = PageRange::new(0x100, 0x180).expect("not empty");
    let sim = choose(Options::new(span).cpus(4)).build();
    let space = Space::new(sim, SpaceOptions::default().unmap_on_free()).expect("an empty space");
    let program = on_machine::<Sim>([]).without_failures();
    let run = AssertUnwindSafe(|| program.play(space, &mut Seeded::new(env::seed(1)), 2_000));
    catch_unwind(run).is_ok()
}

#[test]
fn every_injected_bug_stops_a_random_program() {
    assert!(is_played(|options| options));
    for bug in [
        InjectedBug::ForgottenCpu,
        InjectedBug::EarlyRecycling,
        InjectedBug::UnflushedProtection,
        InjectedBug::DroppedFlush,
        InjectedBug::LowestFlushedOnly,
        InjectedBug::DelayedFlush,
    ] {
        assert!(!is_played(|options| options.injected_bug(bug)), "{bug:?} was not caught");
    }
}
