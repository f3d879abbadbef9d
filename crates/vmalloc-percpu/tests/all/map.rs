//! Congruent areas against the reference, which tries every base from the top.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::Cell;
use vmalloc::area_map::{Segment, State};
use vmalloc::{AreaMap, Fit, PageRange, RequestError};
use vmalloc_model::{MetadataLimit, NaiveMap, Profile, Seeded, Session, Source, env, highest_base};
use vmalloc_percpu::{CongruentError, alloc_in_map};

/// Offsets and sizes of parts that don't overlap, in any order.
#[derive(Clone, Debug)]
struct Parts {
    offsets: Vec<u64>,
    sizes: Vec<u64>,
    align: u64,
    within: Option<PageRange>,
}

/// Returns a part each for `(gap, pages)`, shuffled by `order`.
fn parts(gaps: &[(u64, u64)], order: u64, align: u64, within: Option<PageRange>) -> Parts {
    let mut end = 0;
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &(gap, pages) in gaps {
        parts.push((end + gap, pages));
        end += gap + pages;
    }
    let mut source = Seeded::new(order);
    for last in (1..parts.len()).rev() {
        parts.swap(last, source.below(last as u64 + 1) as usize);
    }
    let (offsets, sizes) = parts.into_iter().unzip();
    Parts { offsets, sizes, align, within }
}

fn alloc(map: &mut AreaMap<'_>, parts: &Parts) -> Result<u64, CongruentError> {
    alloc_in_map(map, &parts.offsets, &parts.sizes, parts.align, parts.within)
}

fn segments(map: &AreaMap<'_>) -> Vec<Segment> {
    map.segments().collect()
}

/// Makes the areas in `map`, compares with the reference, and takes them back.
fn agrees(map: &mut AreaMap<'_>, model: &NaiveMap, parts: &Parts) -> Result<bool, String> {
    let before = segments(map);
    let within = parts.within.unwrap_or(map.span());
    let want = highest_base(model, &parts.offsets, &parts.sizes, parts.align, within);
    let got = alloc(map, parts);
    map.verify().map_err(|violation| violation.to_string())?;
    if got.ok() != want {
        return Err(format!("{parts:?}: {got:?}, not {want:?}"));
    }
    match got {
        Ok(base) => {
            for (offset, pages) in parts.offsets.iter().zip(&parts.sizes) {
                let area = PageRange::from_len(base + offset, *pages);
                if map.find(base + offset) != area || map.free(base + offset).ok() != area {
                    return Err(format!("{parts:?} at {base}: no area {area:?}"));
                }
            }
        }
        Err(CongruentError::NoSpace(refusal)) if refusal.within == within => {}
        Err(error) => return Err(format!("{parts:?}: {error}")),
    }
    if segments(map) != before { Err(format!("{parts:?}: something is lost")) } else { Ok(want.is_some()) }
}

fn any_parts(span: PageRange) -> impl Strategy<Value = Parts> {
    let gaps = prop::collection::vec((prop_oneof![Just(0), 0..40u64, 0..400u64], 1..8u64), 1..6);
    let limits = prop::option::weighted(0.3, (span.start()..span.end(), span.start()..=span.end()));
    (gaps, any::<u64>(), 0..7u32, limits).prop_map(|(gaps, order, align, limits)| {
        let within = limits.and_then(|(a, b)| PageRange::new(a.min(b), a.max(b)));
        parts(&gaps, order, 1 << align, within)
    })
}

#[test]
fn the_highest_base_is_found_in_any_state() {
    let config = ProptestConfig {
        cases: 60 * env::effort() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(env::seed(1)),
        ..ProptestConfig::default()
    };
    let scenes = prop::sample::select(&[Profile::TINY, Profile::SMALL, Profile::CROWDED][..])
        .prop_flat_map(|profile| (Just(profile), prop::collection::vec(any_parts(profile.span()), 1..40)));
    let answers = [Cell::new(0), Cell::new(0)];
    let played = TestRunner::new(config).run(
        &(scenes, any::<u64>(), 0..1500usize),
        |((profile, many), seed, steps)| {
            let map = AreaMap::new(profile.span()).expect("the heap has room");
            let mut session = Session::new(map, MetadataLimit::None);
            session.play(&profile, &mut Seeded::new(seed), steps);
            let (model, mut map) = (session.model(), session.map().clone());
            for parts in many {
                match agrees(&mut map, model, &parts) {
                    Ok(is_found) => answers[usize::from(is_found)].update(|count| count + 1),
                    Err(complaint) => {
                        prop_assert!(false, "{}, seed {seed}, {steps} steps: {complaint}", profile.name);
                    }
                }
            }
            Ok(())
        },
    );
    played.unwrap_or_else(|error| panic!("{error}"));
    let [refused, found] = answers.map(Cell::into_inner);
    assert!(found > 50 && refused > 50, "{found} found, {refused} refused");
}

#[test]
fn wrong_requests_are_typed_errors_and_change_nothing() {
    use CongruentError::{AlignNotPowerOfTwo, LengthsDiffer, NoAreas, Overflow, Overlap, ZeroSize};
    let span = PageRange::new(1000, 2000).expect("not empty");
    let mut map = AreaMap::new(span).expect("room");
    let mut refused = |offsets: &[u64], sizes: &[u64], align, want: CongruentError| {
        assert_eq!(alloc_in_map(&mut map, offsets, sizes, align, None), Err(want));
        assert!(map.is_whole());
    };
    refused(&[], &[], 1, NoAreas);
    refused(&[0], &[1, 2], 1, LengthsDiffer { offsets: 1, sizes: 2 });
    refused(&[0, 5], &[1, 0], 1, ZeroSize { index: 1 });
    refused(&[0, u64::MAX], &[1, 1], 1, Overflow { index: 1 });
    refused(&[9, 0, 4], &[1, 5, 2], 1, Overlap { first: 1, second: 2 });
    refused(&[5, 5], &[1, 1], 1, Overlap { first: 0, second: 1 });
    for align in [0, 3, u64::MAX] {
        refused(&[0], &[1], align, AlignNotPowerOfTwo { align });
    }
    let outside = PageRange::new(500, 1500).expect("not empty");
    let error = RequestError::OutsideSpace { asked: outside, space: span };
    assert_eq!(alloc_in_map(&mut map, &[0], &[1], 1, Some(outside)), Err(error.into()));
    let error = alloc_in_map(&mut map, &[0, 3000], &[1, 2], 4, None).unwrap_err();
    let CongruentError::NoSpace(facts) = error else { panic!("{error}") };
    assert_eq!((facts.areas, facts.size, facts.extent, facts.align, facts.largest), (2, 3, 3002, 4, 1000));
    let wanted = "no base aligned to 4 from which 2 areas of 3 pages in all, 3002 from end to end, are free within \
                  0x3e8..0x7d0; the largest free range anywhere has 1000";
    assert_eq!(facts.to_string(), wanted);
}

#[test]
fn a_base_below_the_span_serves_parts_inside_it() {
    let span = PageRange::new(1000, 1010).expect("not empty");
    let mut map = AreaMap::new(span).expect("room");
    // Multiples of 512: from 512 on, only offsets of 488 to 497 are inside.
    assert_eq!(alloc_in_map(&mut map, &[490, 488], &[2, 1], 512, None), Ok(512));
    assert_eq!(map.find(1003), PageRange::new(1002, 1004));
    assert_eq!(alloc_in_map(&mut map, &[1009], &[1], 1 << 63, None), Ok(0));
    assert!(alloc_in_map(&mut map, &[1020], &[1], 1, None).is_err(), "no base is below zero");
}

#[test]
fn neighbours_in_any_order_are_areas_of_their_own() {
    for offsets in [[0, 4, 8], [8, 0, 4], [4, 8, 0], [8, 4, 0]] {
        let mut map = AreaMap::new(PageRange::new(0, 100).expect("not empty")).expect("room");
        assert_eq!(alloc_in_map(&mut map, &offsets, &[4; 3], 1, None), Ok(88), "{offsets:?}");
        assert_eq!((map.find(91), map.find(92)), (PageRange::new(88, 92), PageRange::new(92, 96)));
    }
}

#[test]
fn nothing_is_lost_when_memory_for_records_runs_out_in_the_middle() {
    let span = PageRange::new(1, 1 << 30).expect("not empty");
    let offsets: Vec<u64> = (0..12).map(|index| index * 100_003).collect();
    let (mut made, mut refused) = (0, 0);
    for bytes in (14_000..38_000).step_by(1000 / env::effort().min(10)) {
        let mut memory = vec![0; bytes];
        let Ok(mut map) = AreaMap::in_buffer(span, &mut memory) else { continue };
        map.alloc(&Fit::new(5)).expect("room for one");
        let before = segments(&map);
        loop {
            let before = segments(&map);
            match alloc_in_map(&mut map, &offsets, &[3; 12], 1, None) {
                Ok(_) => made += 1,
                Err(error) => {
                    assert_eq!(error, CongruentError::Metadata);
                    assert_eq!(segments(&map), before, "{bytes} bytes");
                    refused += 1;
                    break;
                }
            }
            map.verify().expect("intact");
        }
        map.verify().expect("intact");
        let areas: Vec<_> = segments(&map).into_iter().filter(|area| !before.contains(area)).collect();
        for area in areas.iter().filter(|area| area.state == State::Busy) {
            map.free(area.range.start()).expect("busy");
        }
        assert_eq!(segments(&map), before);
        map.alloc(&Fit::new(5)).expect("room as before");
    }
    assert!(made > 100 && refused >= 16, "{made} made, {refused} refused");
}
