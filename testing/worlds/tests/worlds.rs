//! A few worlds of each kind, without forks and with them.

use std::time::{Duration, Instant};
use vmalloc_worlds::{Forks, Kind};

/// Runs worlds from the seed on for so many seconds.
fn run_some(kind: Kind, seconds: u64, default: u64, forks: Forks) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let seeds = (vmalloc_model::env::seed(default)..).take_while(|_| Instant::now() < end);
    let steps: Vec<u64> = seeds.map(|seed| kind.run(seed, Duration::from_millis(700), forks)).collect();
    println!("{} worlds, {} steps", steps.len(), steps.iter().sum::<u64>());
    assert!(steps.iter().any(|steps| *steps > 0), "no world was opened");
}

#[test]
fn random_worlds_hold() {
    run_some(Kind::Api, 25, 1000, Forks::None);
}

#[test]
fn random_worlds_hold_around_forks() {
    run_some(Kind::Api, 25, 2000, Forks::Some);
}

#[test]
fn slots_are_zero_and_keep_no_more_than_is_allowed() {
    run_some(Kind::Slots, 7, 3000, Forks::None);
    run_some(Kind::Slots, 7, 4000, Forks::Some);
}

#[test]
fn stacks_keep_their_content_and_their_guards() {
    run_some(Kind::Stacks, 6, 5000, Forks::None);
    run_some(Kind::Stacks, 6, 6000, Forks::Some);
}

#[test]
fn blocks_of_allocators_keep_their_content() {
    run_some(Kind::Heap, 7, 7000, Forks::None);
    run_some(Kind::Heap, 7, 8000, Forks::Some);
}
