//! The two references against each other: the generator reaches what it should, and they agree
//! everywhere.

use vmalloc_model::{BitMap, Checks, NaiveMap, Profile, Runner, Tally, env};

fn run(profile: Profile, count: usize) -> Tally {
    let runner = Runner::new(|| NaiveMap::new(profile.span()), Checks::default());
    runner.seeded(profile, env::seed(1), count).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn list_and_bitmap_agree_on_small_spaces() {
    for (profile, count) in [(Profile::TINY, 15_000), (Profile::CROWDED, 2_000)] {
        let runner = Runner::new(|| BitMap::new(profile.span()), Checks::default());
        for seed in 0..3 {
            let result = runner.seeded(profile, env::seed(seed), env::ops(count));
            result.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn every_profile_claims_fails_and_misuses() {
    for profile in Profile::ALL.into_iter().chain([Profile::ENDLESS]) {
        let tally = run(profile, 5_000);
        println!("{:12} {tally:?}", profile.name);
        assert!(tally.granted > 800, "{}: {tally:?}", profile.name);
        assert!(tally.refused > 50, "{}: {tally:?}", profile.name);
        assert!((20..600).contains(&tally.peak_segments), "{}: {tally:?}", profile.name);
    }
}

#[test]
fn a_crowded_space_is_refused_often() {
    let tally = run(Profile::CROWDED, 5_000);
    assert!(tally.no_space > 500, "{tally:?}");
}

#[test]
fn a_plain_load_still_claims() {
    let tally = run(Profile::MIXED.plain(), 5_000);
    assert!(tally.granted > 1_000, "{tally:?}");
}
