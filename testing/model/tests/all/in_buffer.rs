//! The area map in memory that the caller lent: the same answers, and a clean refusal when it is
//! used up.

use vmalloc_map::{AreaMap, FitError, PageRange};
use vmalloc_model::{MetadataLimit, Profile, Session, Tally};

/// Runs `profile` in `buffer`; every refusal is compared with the model, which did not change
/// either.
fn agrees(
    profile: Profile,
    seed: u64,
    buffer: &mut [u8],
    metadata: MetadataLimit,
    count: usize,
) -> Option<Tally> {
    let map = match AreaMap::in_buffer(profile.span(), buffer) {
        Ok(map) => map,
        Err(FitError::Metadata) => return None,
        Err(error) => panic!("{error}"),
    };
    Some(Session::seeded(map, metadata, &profile, seed, count))
}

#[test]
fn ample_memory_never_runs_out() {
    for profile in [Profile::SMALL, Profile::CONSTRAINED, Profile::SPARSE] {
        let tally = agrees(profile, 1, &mut vec![0; 1 << 20], MetadataLimit::None, 4_000).expect("it begins");
        assert_eq!(tally.no_metadata, 0);
    }
}

#[test]
fn running_out_changes_nothing_and_loses_nothing() {
    let mut refusals = 0;
    for kib in [1, 8, 13, 14, 15, 17, 21, 25] {
        for profile in [Profile::SMALL, Profile::MIXED, Profile::CROWDED, Profile::SPARSE] {
            let mut buffer = vec![0; kib << 10];
            let tally = agrees(profile, kib as u64, &mut buffer, MetadataLimit::MayRunOut, 3_000);
            refusals += tally.map_or(0, |tally| tally.no_metadata);
        }
    }
    assert!(refusals > 1_000, "only {refusals} refusals: the buffers are too large to test anything");
}

#[test]
fn memory_that_held_garbage_will_do() {
    for fill in [0xff, 0x55] {
        agrees(Profile::MIXED, 3, &mut vec![fill; 1 << 18], MetadataLimit::None, 3_000).expect("it begins");
    }
}

#[test]
fn a_buffer_too_small_for_anything_is_a_typed_error() {
    let span = PageRange::new(1, 1 << 20).expect("not empty");
    for bytes in 0..64 {
        match AreaMap::in_buffer(span, &mut vec![0; bytes]) {
            Ok(map) => assert!(map.is_whole()),
            Err(error) => assert_eq!(error, FitError::Metadata),
        }
    }
}

#[test]
fn a_buffer_may_begin_at_any_byte() {
    let mut buffer = vec![0; (1 << 16) + 64];
    for offset in 0..64 {
        agrees(Profile::SMALL, 5, &mut buffer[offset..], MetadataLimit::MayRunOut, 200).expect("it begins");
    }
}

/// A full buffer serves the refused request once something was freed: slots go back to the buffer.
#[test]
fn freed_slots_are_used_again() {
    let span = PageRange::new(0, 1 << 30).expect("not empty");
    let mut buffer = vec![0; 64 << 10];
    let mut map = AreaMap::in_buffer(span, &mut buffer).expect("64 KiB are enough to begin");
    let mut rounds = Vec::new();
    for _ in 0..20 {
        // Far apart, so that nothing about one helps with the next.
        let claims = (0..).map(|n| PageRange::from_len(n << 12, 1).expect("inside"));
        let taken: Vec<_> = claims.take_while(|&range| map.alloc_at(range).is_ok()).collect();
        rounds.push(taken.len());
        for range in taken {
            map.free(range.start()).expect("it was granted");
        }
        assert!(map.is_whole());
    }
    assert!(rounds[0] > 4, "{rounds:?}");
    assert!(rounds.iter().all(|&round| round == rounds[0]), "{rounds:?}");
}
