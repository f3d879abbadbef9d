//! Programs on simulated machines of every kind.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose other programs and their length.

use std::path::Path;
use vmalloc::{Platform, Policy, Request, Space, SpaceOptions};
use vmalloc_model::env;
use vmalloc_model::script::{Script, play_random, replay};
use vmalloc_programs::machines::{devices, direct, machine, on_direct, on_machine, play_direct, play_sim};
use vmalloc_programs::{Blind, Program, SimLook};
use vmalloc_sim::Sim;
use vmalloc_subspaces::{Root, Subspace};

/// Plays some programs with random settings.
fn play<P: Platform>(program: &Program<P>, seed: u64, count: u64, ops: usize, make: impl Fn() -> P) {
    let geometry = make().geometry();
    let make = |options: SpaceOptions| Some(Space::new(make(), options).expect("an empty space"));
    program.seeds(seed, count, ops, &geometry, make);
}

#[test]
fn long_programs_hold_on_large_and_small_spans() {
    play(&on_machine([]), 1, 8, 3_000, || machine(1 << 18, 0).build());
    play(&on_machine([]).live(400), 200, 8, 3_000, || machine(1 << 12, 17).build());
    play(&Program::<Sim>::new(SimLook(Blind)).without_failures(), 300, 4, 3_000, || {
        machine(1 << 7, 0).build()
    });
}

/// Large areas wait where all CPUs find them, and a request takes a part.
#[test]
fn programs_of_large_areas_hold() {
    let program = on_machine([]).most_pages(700).often("alloc", 100).often("purge", 1);
    let make = || machine(1 << 16, 17).build();
    program.seeds(600, 40, 4_000, &make().geometry(), |options| {
        let options = options.guard(true).trap_on_free(false).cache_bytes(1 << 24);
        Some(Space::new(make(), options).expect("an empty space"))
    });
}

#[test]
fn short_mappings_hold() {
    let program = on_machine([]).live(250);
    let program = program.often("map for a short while", 150).often("reserve slots", 150);
    play(&program, 400, 8, 3_000, || machine(1 << 14, 2).build());
    play(&program, 500, 8, 3_000, || machine(1 << 10, 5).build());
}

#[test]
fn programs_hold_on_machines_of_every_kind() {
    for powers in 0..128 {
        let program = on_machine(devices(&machine(64, powers).build()));
        play(&program, 1000 + 8 * powers, 2, 700, || machine(1 << 10, powers).build());
    }
}

#[test]
fn programs_hold_on_memory() {
    for powers in 0..4 {
        play(&on_direct(), 10 * powers, 10, 1_000, || direct(1 << 10, powers));
    }
}

#[test]
fn programs_hold_on_parts_of_machines() {
    for powers in [0, 3, 9, 17, 33] {
        let sim = machine(1 << 12, powers).build();
        let (program, geometry) = (on_machine::<Subspace<Sim>>(devices(&sim)), sim.geometry());
        program.seeds(5000 + powers, 3, 700, &geometry, |options| {
            let root = Root::new(machine(1 << 12, powers).build()).expect("a root");
            Some(
                root.subspace("all", &Request::new(1 << 22).policy(Policy::Highest), None, options)
                    .expect("room"),
            )
        });
    }
}

fn replays(name: &str, script: Script) {
    replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name), script);
    play_random(script, 100, env::seed(1));
}

#[test]
fn bytes_are_programs() {
    replays("sim", play_sim);
    replays("direct", play_direct);
}
