//! What a map is beside its placement: copied, compared, printed, written out, extended, and its
//! quarantine.

use vmalloc_map::{AreaMap, Fit, FitError, NoArea, PageRange};
use vmalloc_map::{Quarantined, ResizeError, State};
use vmalloc_model::{MetadataLimit, Profile, Seeded, Session, Source, env};

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("not empty")
}

/// Returns a map after `steps` random operations of `profile`.
fn some_map(profile: Profile, steps: usize) -> AreaMap<'static> {
    let mut map = AreaMap::new(profile.span()).expect("room");
    let mut random = Seeded::new(env::seed(7));
    for _ in 0..steps {
        if let Ok(area) = map.alloc(&Fit::new(random.between(1, 40))) {
            match random.below(4) {
                0 => _ = map.free(area.start()).expect("busy"),
                1 => _ = map.quarantine(area.start()).expect("busy"),
                _ => {}
            }
        }
    }
    map
}

#[test]
fn copies_are_equal_and_independent() {
    for profile in Profile::ALL {
        let map = some_map(profile, 300);
        let mut copy = map.clone();
        copy.verify().expect("intact");
        assert_eq!(copy, map);
        let Ok(area) = copy.alloc(&Fit::new(1)) else { continue };
        assert_ne!(copy, map);
        assert_eq!(map.segment(area.start()).map(|segment| segment.state), Some(State::Free));
        copy.free(area.start()).expect("busy");
        assert_eq!(copy, map);
    }
}

#[test]
fn maps_in_a_buffer_and_on_the_heap_are_equal() {
    let mut memory = vec![0; 1 << 16];
    let mut lent = AreaMap::in_buffer(range(3, 5000), &mut memory).expect("room");
    lent.alloc(&Fit::new(7)).expect("room");
    let copy = lent.try_clone().expect("room");
    assert_eq!(copy, lent);
    drop(lent);
    assert_eq!(copy.find(5), Some(range(3, 10)));
}

#[test]
fn a_map_is_printed_in_short() {
    let mut map = AreaMap::new(range(0, 0x100)).expect("room");
    map.alloc(&Fit::new(16)).expect("room");
    let printed = format!("{map:?}");
    assert_eq!(printed, "AreaMap { span: 0x0..0x100, areas: 1, free_pages: 240, largest_free: 240, .. }");
}

#[test]
fn a_map_is_read_back_as_it_was_written() {
    for profile in Profile::ALL {
        let map = some_map(profile, 200);
        let text = serde_json::to_string(&map).expect("it can be written");
        let back: AreaMap<'_> = serde_json::from_str(&text).expect("it can be read");
        back.verify().expect("intact");
        assert_eq!(back, map);
    }
}

#[test]
fn a_map_is_written_in_formats_that_need_the_length_of_a_sequence() {
    for profile in Profile::ALL {
        let map = some_map(profile, 200);
        let bytes = postcard::to_allocvec(&map).expect("the length of every sequence is known");
        let back: AreaMap<'_> = postcard::from_bytes(&bytes).expect("it can be read");
        back.verify().expect("intact");
        assert_eq!(back, map);
    }
}

#[test]
fn maps_that_are_wrong_are_not_read() {
    let read = |span: (u64, u64), segments: &[(u64, u64, &str)]| {
        let one = |(start, end, state): &(u64, u64, &str)| {
            format!(r#"{{"range":{{"start":{start},"end":{end}}},"state":"{state}"}}"#)
        };
        let list: Vec<_> = segments.iter().map(one).collect();
        let (start, end) = span;
        let text = format!(r#"{{"span":{{"start":{start},"end":{end}}},"segments":[{}]}}"#, list.join(","));
        serde_json::from_str::<AreaMap<'_>>(&text).is_ok()
    };
    assert!(read((0, 9), &[(0, 4, "Free"), (4, 9, "Busy")]));
    assert!(!read((0, 9), &[(0, 4, "Free"), (4, 9, "Free")]), "not coalesced");
    assert!(!read((0, 9), &[(0, 4, "Busy"), (5, 9, "Busy")]), "a gap");
    assert!(!read((0, 9), &[(0, 5, "Busy"), (4, 9, "Busy")]), "an overlap");
    assert!(!read((0, 9), &[(0, 4, "Free")]), "too short");
    assert!(!read((0, 9), &[]), "nothing");
    assert!(!read((9, 9), &[]), "an empty span");
    assert!(!read((0, 9), &[(0, 12, "Busy")]), "too long");
}

#[test]
fn pages_in_quarantine_come_back_for_their_token_alone() {
    let mut map = AreaMap::new(range(0, 50)).expect("room");
    map.alloc(&Fit::new(50)).expect("room");
    let token = map.quarantine(0).expect("busy");
    assert_eq!((token.area(), map.find(0)), (range(0, 50), None));
    assert_eq!(map.free(0), Err(NoArea::Retired { page: 0 }));
    assert_eq!(map.quarantine(0), Err(NoArea::Retired { page: 0 }));
    assert!(matches!(map.alloc(&Fit::new(1)), Err(FitError::NoSpace(_))));

    let mut other = AreaMap::new(range(0, 50)).expect("room");
    other.alloc(&Fit::new(20)).expect("room");
    let foreign = other.quarantine(0).expect("busy");
    assert_eq!(map.free_quarantined(foreign), Err(NoArea::Nothing { page: 0 }));
    assert_eq!(map.free_quarantined(token), Ok(range(0, 50)));
    assert!(map.is_whole());
}

/// Returns a map whose pages 0 to 9 are in quarantine, and their token.
fn map_in_quarantine() -> (AreaMap<'static>, Quarantined) {
    let mut map = AreaMap::new(range(0, 50)).expect("room");
    map.alloc(&Fit::new(10)).expect("room");
    let token = map.quarantine(0).expect("busy");
    (map, token)
}

#[test]
fn a_quarantine_token_of_another_map_is_refused_though_an_equal_area_is_in_quarantine() {
    let (mut map, token) = map_in_quarantine();
    let (_, foreign) = map_in_quarantine();
    assert_eq!(map.free_quarantined(foreign), Err(NoArea::Nothing { page: 0 }), "its map is gone");
    let (mut other, foreign) = map_in_quarantine();
    assert_eq!(map.free_quarantined(foreign), Err(NoArea::Nothing { page: 0 }));
    assert_eq!(other.free_quarantined(token), Err(NoArea::Nothing { page: 0 }), "nor the other way");
    assert_eq!((map.free_pages(), map.find(0)), (40, None), "nothing is changed");

    // Maps that change places keep their tokens, and so does one that moves.
    let (mut map, token) = map_in_quarantine();
    core::mem::swap(&mut map, &mut other);
    let mut moved = Box::new(other);
    assert_eq!(moved.free_quarantined(token), Ok(range(0, 10)));
}

#[test]
fn a_copy_of_a_map_takes_no_quarantine_token_of_the_original() {
    let (mut map, mut token) = map_in_quarantine();
    let text = serde_json::to_string(&map).expect("it can be written");
    let read: AreaMap<'_> = serde_json::from_str(&text).expect("it can be read");
    for mut copy in [map.clone(), map.try_clone().expect("room"), read] {
        let page = token.area().start();
        assert_eq!(copy.free_quarantined(token), Err(NoArea::Nothing { page }));
        assert_eq!(copy.release(0), Err(NoArea::Busy { page: 0 }));
        assert_eq!(copy.alloc(&Fit::new(41)).ok(), None, "the pages stay out of use");
        map = copy.clone();
        map.alloc_at(range(10, 20)).expect("free");
        token = map.quarantine(10).expect("busy");
    }
    assert_eq!(map.free_quarantined(token), Ok(range(10, 20)), "its own is taken");
}

#[test]
fn nothing_but_its_token_ends_a_quarantine() {
    let (mut map, token) = map_in_quarantine();
    map.alloc_at(range(10, 20)).expect("free");
    type End = fn(&mut AreaMap<'static>) -> bool;
    let ends: [(&str, End); 12] = [
        ("release", |map| map.release(0).is_ok()),
        ("revive", |map| map.revive(0).is_ok()),
        ("retire", |map| map.retire(0).is_ok()),
        ("free", |map| map.free(0).is_ok()),
        ("free_part", |map| map.free_part(range(2, 4)).is_ok()),
        ("split", |map| map.split(0, 5).is_ok()),
        ("grow_in_place", |map| map.grow_in_place(0, 10).is_ok()),
        ("shrink_in_place", |map| map.shrink_in_place(0, 5).is_ok()),
        ("quarantine", |map| map.quarantine(0).is_ok()),
        ("alloc_at", |map| map.alloc_at(range(0, 10)).is_ok()),
        ("release inside", |map| map.release(5).is_ok()),
        ("alloc_congruent", |map| {
            vmalloc_percpu::alloc_in_map(map, &[0], &[1], 1, PageRange::new(0, 20)).is_ok()
        }),
    ];
    for (name, end) in ends {
        let before = map.clone();
        assert!(!end(&mut map), "{name}");
        assert_eq!(map, before, "{name}");
    }
    map.extend(100).expect("room");
    map.free(10).expect("busy");
    assert_eq!(map.largest_free(), 90, "the pages in quarantine are not coalesced");
    assert_eq!(map.free_quarantined(token), Ok(range(0, 10)));
    assert!(map.is_whole());
    // A token that is dropped or forgotten ends nothing.
    for drop in [std::mem::drop, std::mem::forget] {
        let (mut map, token) = map_in_quarantine();
        drop(token);
        assert_eq!((map.release(0), map.free_pages()), (Err(NoArea::Busy { page: 0 }), 40));
    }
}

#[test]
fn a_span_grows_at_its_end_whatever_is_there() {
    for (profile, seed) in
        [(Profile::SMALL, 1), (Profile::MIXED, 2), (Profile::SPARSE, 3), (Profile::TINY, 4)]
    {
        let map = AreaMap::new(profile.span()).expect("room");
        let mut session = Session::new(map, MetadataLimit::None);
        let [mut source, mut random] = [seed, seed + 10].map(|seed| Seeded::new(env::seed(seed)));
        for round in 0..30 {
            session.play(&profile, &mut source, 200);
            let end = session.model().span().end();
            // The last page is taken every other time.
            session.does(|it| it.alloc_at(end - 1, round % 2));
            let more = random.magnitude(0, 30).min(u64::MAX / 2 - end.min(u64::MAX / 2));
            session.does(|it| it.extend(more));
        }
        session.finish();
    }
}

#[test]
fn a_span_grows_to_the_last_page_of_all() {
    let mut session = Session::new(AreaMap::new(range(0, 1)).expect("room"), MetadataLimit::None);
    for order in 0..64 {
        let last = (1 << order) - 1;
        session.does(|it| it.alloc_at(last, 1));
        session.does(|it| it.extend(last));
        session.does(|_| last);
    }
    session.finish();
    let mut map = AreaMap::new(range(0, 1)).expect("room");
    assert!(map.extend(0).is_err(), "it can't shrink");
    assert_eq!(map.extend(1), Ok(range(0, 1)));
    assert_eq!(map.extend(u64::MAX), Ok(range(0, u64::MAX)));
}

#[test]
fn changes_in_place_that_lack_memory_change_nothing() {
    let (mut refused, span) = (0, range(0, 1 << 30));
    for bytes in (14_000..24_000).step_by(500) {
        let mut memory = vec![0; bytes];
        let Ok(mut map) = AreaMap::in_buffer(span, &mut memory) else { continue };
        map.alloc(&Fit::new(1 << 28)).expect("it takes no second leaf");
        for n in 1.. {
            let before = map.try_clone().expect("the heap has room");
            match map.free_part(range(n << 12, (n << 12) + 700)) {
                Ok(()) => map.verify().expect("intact"),
                Err(error) => {
                    assert_eq!(error, ResizeError::Alloc(FitError::Metadata));
                    map.verify().expect("intact");
                    assert_eq!(map, before);
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn growth_to_the_size_that_an_area_has_changes_nothing_and_to_less_is_refused() {
    let mut map = AreaMap::new(range(0, 100)).expect("room");
    let area = map.alloc(&Fit::new(10)).expect("room");
    assert_eq!(map.grow_in_place(0, 10), Ok(area));
    for pages in [0, 1, 9] {
        assert_eq!(map.grow_in_place(0, pages), Err(ResizeError::WrongSize { pages, area }));
    }
    assert_eq!((map.find(9), map.free_pages()), (Some(area), 90));
    map.alloc_at(range(10, 11)).expect("the page behind it is free");
    assert_eq!(map.grow_in_place(0, 10), Ok(area), "whatever is behind it");
}

#[test]
fn an_area_of_more_pages_than_a_word_counts_is_handed_out_whole() {
    for more in [0, 1, 5] {
        let mut map = AreaMap::new(range(0, 1 << 40)).expect("room");
        let asked = range(64, 64 + (1 << 32) + more);
        assert_eq!(map.alloc_at(asked), Ok(()));
        assert_eq!(map.find(asked.end() - 1), Some(asked));
    }
}
