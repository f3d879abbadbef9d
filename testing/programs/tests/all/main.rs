//! Programs on the account that keeps to the contract, and on simulated machines of every kind.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose other programs and their length.

use vmalloc::{Config, Platform, Space};
use vmalloc_model::space::NullPlatform;
use vmalloc_programs::machines::{devices, direct, machine, null, on_direct, on_machine};
use vmalloc_programs::{NullLook, Program};

/// Plays some programs with random settings.
fn play<P: Platform>(program: &Program<P>, seed: u64, count: u64, ops: usize, make: impl Fn() -> P) {
    let geometry = make().geometry();
    let make = |config: Config| Some(Space::new(make(), config).expect("an empty space"));
    program.seeds(seed, count, ops, &geometry, make);
}

#[test]
fn programs_hold_on_the_account() {
    let program = Program::new(NullLook).frames();
    play(&program, 1, 8, 3_000, || null(1 << 18, 4));
    play(&program, 100, 12, 3_000, || null(1 << 10, 4));
    play(&program.live(400), 200, 8, 3_000, || null(1 << 12, 4));
    play(&Program::<NullPlatform>::new(NullLook).without_failures(), 300, 4, 3_000, || null(1 << 7, 1));
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
fn each_call_of_a_program_may_fail() {
    let make = || Space::new(null(1 << 12, 2), Config::default()).expect("an empty space");
    let failed = Program::new(NullLook).frames().walk(1, 150, make);
    assert!(failed > 30, "{failed} calls failed");
}
