//! A minute of worlds: a few each of plain ones and of those that fork.

use std::time::{Duration, Instant};
use vmalloc_worlds::{Forks, run};

/// Runs worlds from the seed on for half a minute.
fn run_some(default: u64, forks: Forks) {
    let end = Instant::now() + Duration::from_secs(25);
    let seeds = (vmalloc_model::env::seed(default)..).take_while(|_| Instant::now() < end);
    let steps: Vec<u64> = seeds.map(|seed| run(seed, Duration::from_millis(700), forks)).collect();
    println!("{} worlds, {} steps", steps.len(), steps.iter().sum::<u64>());
    assert!(steps.iter().any(|steps| *steps > 0), "no world was opened");
}

#[test]
fn random_worlds_hold() {
    run_some(1000, Forks::None);
}

#[test]
fn random_worlds_hold_around_forks() {
    run_some(2000, Forks::Some);
}
