//! The generator reaches what it should.

use vmalloc_model::{Checks, NaiveMap, Profile, Runner, Tally, env};

fn run(profile: Profile, count: usize) -> Tally {
    let runner = Runner::new(|| NaiveMap::new(profile.span()), Checks::default());
    runner.seeded(profile, env::seed(1), count).unwrap_or_else(|failure| panic!("{failure}"))
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
