//! The area map against the reference: long seeded runs of every kind of load, 200,000
//! operations in all.
//!
//! `VMALLOC_SEED`, `VMALLOC_OPS` and `VMALLOC_EFFORT` choose another program and its length.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmalloc_harness::Told;
use vmalloc_map::{AreaMap, Fit, FitError, PageRange};
use vmalloc_model::{Ask, MetadataLimit, Profile, Seeded, Session, Tally, Words, env};

fn new(profile: &Profile) -> AreaMap<'static> {
    AreaMap::new(profile.span()).expect("the heap has room")
}

/// Plays `count` steps. Returns the counts.
fn agrees(profile: Profile, seed: u64, count: usize) -> Tally {
    Session::seeded(new(&profile), MetadataLimit::None, &profile, seed, count)
}

#[test]
fn every_kind_of_load_agrees_with_the_reference() {
    (0..4).for_each(|seed| _ = agrees(Profile::TINY, seed, 10_000));
    let mut refused = 0;
    for (profile, seed, count) in [
        (Profile::SMALL, 10, 26_000),
        (Profile::MIXED, 20, 26_000),
        (Profile::HUGE, 30, 24_000),
        (Profile::ALIGNED, 40, 24_000),
        (Profile::CROWDED, 50, 22_000),
        (Profile::CONSTRAINED, 60, 24_000),
        (Profile::SPARSE, 70, 24_000),
        (Profile::ORIGIN, 80, 8_000),
        (Profile::EXTREME, 90, 10_000),
    ] {
        let tally = agrees(profile, seed, count);
        println!("{}: {tally:?}", profile.name);
        assert!(tally.granted > tally.steps / 8 && tally.refused > 0, "{tally:?}");
        refused += tally.no_space;
    }
    assert!(refused > 0, "there was room for all");
}

/// Found by fuzzing: the first aligned page was near the last number of all, and the boundary
/// behind it no number.
#[test]
fn a_boundary_behind_the_last_page_is_no_room() {
    let span = PageRange::new(u64::MAX - (1 << 20), u64::MAX).expect("not empty");
    let ask = Ask { align: u64::MAX, no_cross: 2, ..Ask::new(2) };
    let map = AreaMap::new(span).expect("the heap has room");
    Session::new(map, MetadataLimit::None).does(|it| it.alloc(&ask));
}

/// The last leaf ends where the numbers do: nothing may be computed behind it.
#[test]
fn a_map_to_the_end_of_all_numbers() {
    const LEAF: u64 = 256;
    for len in [1, 2, LEAF - 1, LEAF, LEAF + 1, 2 * LEAF, 5 * LEAF + 3] {
        let span = PageRange::new(u64::MAX - len, u64::MAX).expect("not empty");
        let last = PageRange::new(u64::MAX - 1, u64::MAX).expect("not empty");
        let mut map = AreaMap::new(span).expect("the heap has room");
        let fit = Fit::new;

        // All of it, as one area, and page by page; then nothing more.
        assert_eq!(map.alloc(&fit(len)), Ok(span));
        assert_eq!(map.find(last.start()), Some(span));
        map.free(span.start()).expect("it was live");
        let pages: Vec<_> = (0..len).map(|_| map.alloc(&fit(1)).expect("room for each")).collect();
        assert_eq!(pages.last(), Some(&last));
        for pages in [1, 2, len + 1, u64::MAX] {
            assert!(matches!(map.alloc(&fit(pages)), Err(FitError::NoSpace(_))), "{pages} of a full map");
        }
        map.verify().expect("an intact map");
        assert_eq!(map.find(u64::MAX), None);
        assert!(map.free(u64::MAX).is_err(), "no page has the last number");
        for page in pages {
            assert_eq!(map.free(page.start()), Ok(page));
        }
        assert!(map.is_whole());

        // Aligned, with a boundary, or at an exact place: what fits is the model's to say.
        let asks = (0..64).flat_map(|order| {
            let align = 1 << order;
            let asks = [1, 2, LEAF].map(|pages| Ask { align, ..Ask::new(pages) });
            let bounded = asks.map(|ask| Ask { no_cross: ask.pages.next_power_of_two(), ..ask });
            [asks, bounded].concat()
        });
        let mut session = Session::new(map, MetadataLimit::None);
        asks.for_each(|ask| session.does(|it| it.alloc(&ask)));
        for (start, pages) in [(last.start(), 1), (last.start(), 2), (u64::MAX, 1), (span.start(), len + 1)] {
            session.does(|it| it.alloc_at(start, pages));
        }
        session.finish();
    }
}

/// A leak that hides in the slack of one round shows in many: the same program again and again on
/// one map.
#[test]
fn metadata_stops_growing() {
    let profile = Profile::MIXED;
    let (mut session, mut after_first) = (Session::new(new(&profile), MetadataLimit::None), None);
    for _ in 0..5 {
        session.play(&profile, &mut Seeded::new(env::seed(90)), 5_000);
        session.finish();
        let bytes = session.map().metadata_bytes();
        assert!(bytes <= *after_first.get_or_insert(bytes), "{bytes} bytes, more than after the first round");
    }
}

/// Each step has its own numbers, so that a shrinker can work on each by itself.
fn profile_and_steps() -> impl Strategy<Value = (Profile, Vec<[u64; 12]>)> {
    (prop::sample::select(&Profile::ALL[..]), prop::collection::vec(any::<[u64; 12]>(), 1..120))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200 * env::effort() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(env::seed(1)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_list_of_steps_agrees((profile, steps) in profile_and_steps()) {
        let _told = Told(|| profile.name.to_owned());
        let mut session = Session::new(new(&profile), MetadataLimit::None);
        steps.iter().for_each(|words| session.play(&profile, &mut Words::new(words), 1));
        session.finish();
    }
}
