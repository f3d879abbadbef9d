//! The tests that numpy's package carries, with the data of all arrays in our space, each behind a guard.

use std::io::{Write, stderr};
use vmalloc_client_numpy::{ARITHMETIC, Environment, REST, run};

/// Runs modules on our memory. What fails there must fail without it as well.
fn passes(modules: &[&str], at_least: usize) {
    let environment = match Environment::provide() {
        Ok(environment) => environment,
        // Past the harness, which keeps what a test prints if it passes.
        Err(reason) => return writeln!(stderr(), "NOT RUN: numpy's tests: {reason}").unwrap(),
    };
    let ours = run(&environment, modules, true);
    println!("{}", ours.text);
    let plain =
        if ours.failed.is_empty() { Default::default() } else { run(&environment, modules, false).failed };
    let beyond: Vec<_> = ours.failed.difference(&plain).collect();
    assert!(beyond.is_empty(), "these fail on our memory alone: {beyond:?}");
    assert!(ours.passed >= at_least, "{} tests passed, which is too few", ours.passed);
    // Tests that set a handler of their own put ours back.
    assert_eq!(ours.unmanaged, 0);
    assert!(ours.managed >= ours.passed, "{} tests had our memory", ours.managed);
}

#[test]
fn numpy_s_tests_of_arithmetic_pass_on_our_memory() {
    passes(ARITHMETIC, 9_000);
}

#[test]
#[ignore = "takes minutes: cargo test --release -- --ignored"]
fn numpy_s_tests_of_arrays_and_their_memory_pass_on_our_memory() {
    passes(REST, 10_000);
}
