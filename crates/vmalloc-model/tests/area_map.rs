//! The area map against the reference: long seeded runs of every kind of load, a million operations in all.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose another program and its length.

use proptest::prelude::*;
use vmalloc::{AreaMap, PageRange};
use vmalloc_model::{Ask, Checks, Generator, Op, Profile, Runner, Seeded, Session, Words, env, run};

fn agrees(profile: Profile, seed: u64, count: usize) {
    let make = || AreaMap::new(profile.span()).expect("the heap has room");
    let result = Runner::new(make, Checks::default()).seeded(profile, env::seed(seed), env::ops(count));
    let tally = result.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{}: {tally:?}", profile.name);
}

#[test]
fn tiny_spaces() {
    for seed in 0..4 {
        agrees(Profile::TINY, seed, 50_000);
    }
}

#[test]
fn small_areas() {
    agrees(Profile::SMALL, 10, 130_000);
}

#[test]
fn mixed_sizes() {
    agrees(Profile::MIXED, 20, 130_000);
}

#[test]
fn huge_areas() {
    agrees(Profile::HUGE, 30, 120_000);
}

#[test]
fn large_alignments() {
    agrees(Profile::ALIGNED, 40, 120_000);
}

#[test]
fn nearly_full_spaces() {
    agrees(Profile::CROWDED, 50, 110_000);
}

#[test]
fn every_constraint_at_once() {
    agrees(Profile::CONSTRAINED, 60, 120_000);
}

#[test]
fn exact_claims_in_64_tib() {
    agrees(Profile::SPARSE, 70, 120_000);
}

#[test]
fn the_first_pages_of_all() {
    agrees(Profile::ORIGIN, 80, 40_000);
}

#[test]
fn the_last_pages_of_all() {
    agrees(Profile::EXTREME, 90, 50_000);
}

/// Found by fuzzing: the first congruent page was the last number of all, and the boundary behind it no number.
#[test]
fn a_boundary_behind_the_last_page_is_no_room() {
    let span = PageRange::new(u64::MAX - (1 << 20), u64::MAX).expect("not empty");
    let ask = Ask { align: 1 << 21, phase: (1 << 21) - 1, no_cross: 2, ..Ask::new(2) };
    let map = AreaMap::new(span).expect("the heap has room");
    run(map, &[Op::Alloc(ask)], Checks::default()).unwrap_or_else(|(_, mismatch)| panic!("{mismatch}"));
}

/// A leak that hides in the slack of one round shows in many: the same program again and again on one map.
#[test]
fn metadata_stops_growing() {
    let profile = Profile::MIXED;
    let mut map = AreaMap::new(profile.span()).expect("the heap has room");
    let mut after_first = None;
    for _ in 0..5 {
        let mut session = Session::new(map, Checks::default());
        let mut generator = Generator::new(profile, Seeded::new(env::seed(90)));
        for _ in 0..5_000 {
            let op = generator.next(session.live()).expect("a seed never ends");
            session.step(&op).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        }
        map = session.finish().unwrap_or_else(|mismatch| panic!("{mismatch}")).0;
        let bytes = map.metadata_bytes();
        assert!(bytes <= *after_first.get_or_insert(bytes), "{bytes} bytes, more than after the first round");
    }
}

/// One operation from its own numbers, so that a shrinker can work on each by itself.
fn op(profile: Profile) -> impl Strategy<Value = Op> {
    any::<([u64; 12], bool)>().prop_map(move |(words, grows)| {
        let live = if grows { 0 } else { usize::MAX };
        Generator::new(profile, Words::new(&words)).next(live).expect("there are words")
    })
}

fn profile_and_ops() -> impl Strategy<Value = (Profile, Vec<Op>)> {
    prop::sample::select(&Profile::ALL[..]).prop_flat_map(|profile| {
        let ops = prop::collection::vec(op(profile), 1..120);
        (Just(profile), ops)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_operations_agrees((profile, ops) in profile_and_ops()) {
        let map = AreaMap::new(profile.span()).expect("the heap has room");
        if let Err((index, mismatch)) = run(map, &ops, Checks::default()) {
            prop_assert!(false, "{}, operation {index}: {mismatch}", profile.name);
        }
    }
}
