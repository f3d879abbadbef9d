//! Looks without the map under weak memory: against frees, against reuse, and against changes of
//! where areas start.

use super::{Bitmaps, Look, Note, Unclear};
use crate::AreaMap;
use crate::Fit;
use crate::PageRange;
use crate::shared::Shared;
use crate::sync::modelled::{holds, needs};
use loom::thread;

const FIRST: u64 = 256;
const NOTE: Note = Note { record: 7, facts: 9 };

/// A map with two areas: three pages at its start, and two behind them.
fn scene() -> (AreaMap<'static>, Shared<'static, Bitmaps<'static>>) {
    let mut map = AreaMap::new(range(FIRST, FIRST + 256)).expect("a map");
    let bitmaps = map.bitmaps().reader_in_test();
    // Once round, so that everything is there before the threads are.
    for pages in [1, 3] {
        alloc(&mut map, pages);
        assert!(bitmaps.look(FIRST).is_ok());
        map.free(FIRST).expect("it is an area");
    }
    assert_eq!(alloc(&mut map, 3).start(), FIRST);
    assert_eq!(alloc(&mut map, 2).start(), FIRST + 3);
    (map, bitmaps)
}

/// The busy area that holds `page`, whether it has an annotation or not.
fn look(bitmaps: &Bitmaps<'_>, page: u64) -> Option<Option<PageRange>> {
    match bitmaps.look(page).ok()? {
        Look::Nothing => Some(None),
        Look::Plain(area) | Look::Noted(area, _) => Some(Some(area)),
    }
}

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("not empty")
}

fn alloc(map: &mut AreaMap<'_>, pages: u64) -> PageRange {
    map.alloc(&Fit::new(pages)).expect("there is room")
}

/// The holder of the map frees two areas that lie across two words of their leaf, and cuts them
/// again at another place, while a reader looks.
fn a_look_while_the_map_changes() {
    let mut map = AreaMap::new(range(FIRST, FIRST + 256)).expect("a map");
    let bitmaps = map.bitmaps().reader_in_test();
    let (first, middle, end) = (FIRST + 60, FIRST + 64, FIRST + 76);
    assert_eq!(alloc(&mut map, 60).end(), first);
    // Once round, so that everything is there before the threads are.
    let new = [range(first, middle), range(middle, end)];
    let old = [range(first, first + 10), range(first + 10, end)];
    for areas in [new, old] {
        areas.iter().for_each(|area| assert_eq!(alloc(&mut map, area.len()), *area));
        assert_eq!(look(&bitmaps, middle).flatten(), map.find(middle));
        if areas == new {
            areas.iter().for_each(|area| _ = map.free(area.start()).expect("it is an area"));
        }
    }
    let shared = bitmaps.reader_in_test();
    // The holder of the map is the first thread: loom goes back from a load to the stores before
    // it, but not from a store to a load that is hidden by the same thread's own load.
    let looker = thread::spawn(move || {
        if let Some(found) = look(&shared, middle) {
            assert!([Some(old[0]), Some(new[1])].contains(&found), "a mixture: {found:?}");
        }
    });
    bitmaps.begin_change();
    old.iter().for_each(|area| _ = map.free(area.start()).expect("it is an area"));
    new.iter().for_each(|area| assert_eq!(alloc(&mut map, area.len()), *area));
    bitmaps.end_change();
    looker.join().expect("the looker ends");
}

#[test]
fn models_of_seqlock_reads_need_every_order() {
    let orders = [
        "Release: fence(Release);",
        "Release: fence(Release);",
        "Acquire: fence(Acquire);",
        "Acquire: fence(Acquire);",
    ];
    needs(&orders, 2, a_look_while_the_map_changes);
}

#[test]
fn models_of_seqlock_reads_hold() {
    holds(2, a_look_while_the_map_changes);
}

/// An owner frees the first area without the map and takes it again, while a reader looks at it and
/// at its neighbour, and the neighbour's owner does the same.
fn looks_while_areas_are_freed_and_reused() {
    let (map, bitmaps) = scene();
    let owners = [FIRST, FIRST + 3].map(|start| {
        let bitmaps = bitmaps.reader_in_test();
        thread::spawn(move || {
            let record = bitmaps.home(start).expect("a leaf");
            let area = bitmaps.retire(record, start).expect("it is busy");
            assert!(bitmaps.retire(record, start).is_none(), "it is retired");
            assert!(bitmaps.revive(record, start), "it is retired");
            area
        })
    });
    for (page, whole) in [(FIRST + 2, range(FIRST, FIRST + 3)), (FIRST + 3, range(FIRST + 3, FIRST + 5))] {
        if let Some(Some(area)) = look(&bitmaps, page) {
            assert_eq!(area, whole);
        }
    }
    let areas = owners.map(|owner| owner.join().expect("the owner ends"));
    assert_eq!(areas, [range(FIRST, FIRST + 3), range(FIRST + 3, FIRST + 5)]);
    assert_eq!(map.find(FIRST), Some(areas[0]));
    assert_eq!(map.find(FIRST + 3), Some(areas[1]));
}

#[test]
fn models_of_busy_bits_hold() {
    holds(2, looks_while_areas_are_freed_and_reused);
}

/// Two threads free one area.
fn two_free_one_area() {
    let (_map, bitmaps) = scene();
    let shared = bitmaps.reader_in_test();
    let free = |bitmaps: &Bitmaps<'_>| bitmaps.retire(bitmaps.home(FIRST).expect("a leaf"), FIRST).is_some();
    let other = thread::spawn(move || free(&shared));
    let here = free(&bitmaps);
    assert!(here != other.join().expect("the other ends"), "one of the two frees it");
}

#[test]
fn models_of_concurrent_double_free_hold() {
    holds(3, two_free_one_area);
}

/// The area that starts at `start` is handed out with a note and freed, while a reader looks: it
/// never seems to have none, or another.
fn an_area_with_a_note_comes_and_goes(
    start: u64,
    (_map, bitmaps): (AreaMap<'static>, Shared<'static, Bitmaps<'static>>),
    finds_wrong: fn(&Bitmaps<'_>) -> bool,
    is_leaf_noted: bool,
) {
    let record = bitmaps.home(start).expect("a leaf");
    record.withhold(start);
    bitmaps.reach_note(start).expect("there is memory");
    if is_leaf_noted {
        assert!(bitmaps.enter_note(record, start, NOTE));
        assert_eq!(bitmaps.take_note(record, start), NOTE);
    }
    let shared = bitmaps.reader_in_test();
    // The owner is the first thread, for the same reason as above.
    let looker = thread::spawn(move || assert!(!finds_wrong(&shared), "an area without its note"));
    assert!(bitmaps.enter_note(record, start, NOTE));
    assert!(record.make_busy(start), "it was not busy");
    bitmaps.retire(record, start).expect("it is busy");
    assert_eq!(bitmaps.take_note(record, start), NOTE);
    looker.join().expect("the looker ends");
}

/// Returns whether a look finds an area without a note, or with half of one.
fn is_wrong(found: Result<Look, Unclear>) -> bool {
    match found {
        Ok(Look::Plain(_)) => true,
        Ok(Look::Noted(_, note)) => note != NOTE,
        Ok(Look::Nothing) | Err(Unclear) => false,
    }
}

fn a_look_while_an_area_with_a_note_comes_and_goes() {
    let finds_wrong = |bitmaps: &Bitmaps<'_>| is_wrong(bitmaps.look(FIRST + 1));
    an_area_with_a_note_comes_and_goes(FIRST, scene(), finds_wrong, false);
}

fn a_look_where_a_leaf_is_noted_already() {
    let finds_wrong = |bitmaps: &Bitmaps<'_>| is_wrong(bitmaps.look(FIRST + 1));
    an_area_with_a_note_comes_and_goes(FIRST, scene(), finds_wrong, true);
}

fn a_near_look_while_an_area_with_a_note_comes_and_goes() {
    let finds_wrong = |bitmaps: &Bitmaps<'_>| bitmaps.look_near(FIRST + 1).is_some();
    an_area_with_a_note_comes_and_goes(FIRST, scene(), finds_wrong, false);
}

/// The page lies in the leaf behind the one that the area starts in.
fn a_look_across_while_an_area_with_a_note_comes_and_goes() {
    let mut map = AreaMap::new(range(FIRST, FIRST + 512)).expect("a map");
    let bitmaps = map.bitmaps().reader_in_test();
    let starts = [200, 100, 10].map(|pages| alloc(&mut map, pages).start());
    let finds_wrong = |bitmaps: &Bitmaps<'_>| is_wrong(bitmaps.look(FIRST + 260));
    assert!(finds_wrong(&bitmaps), "it has none yet");
    an_area_with_a_note_comes_and_goes(starts[1], (map, bitmaps), finds_wrong, false);
}

#[test]
fn models_of_reads_of_notes_need_every_order() {
    let orders = [
        "Release: fence(Release);",
        "Release: fence(Release);",
        "Acquire: fence(Acquire);",
        "Acquire: fence(Acquire);",
    ];
    needs(&orders, 3, a_look_while_an_area_with_a_note_comes_and_goes);
    needs(&orders, 3, a_look_where_a_leaf_is_noted_already);
    // Either of two fences lies between the mark of the leaf and the busy bit there.
    needs(&orders[3..], 3, a_near_look_while_an_area_with_a_note_comes_and_goes);
    needs(&orders[..3], 3, a_look_across_while_an_area_with_a_note_comes_and_goes);
}

/// The holder of the map puts a shorter area without an annotation in the place of one that has one
/// and reaches into the next leaf, while a reader looks there.
fn a_look_across_while_an_area_with_a_note_is_replaced() {
    let mut map = AreaMap::new(range(FIRST, FIRST + 512)).expect("a map");
    let bitmaps = map.bitmaps().reader_in_test();
    let starts = [200, 100, 10].map(|pages| alloc(&mut map, pages).start());
    let old = range(starts[1], starts[2]);
    // Once round, so that everything is there before the threads are.
    for pages in [50, 100] {
        map.free(old.start()).expect("it is an area");
        assert_eq!(alloc(&mut map, pages).start(), old.start());
    }
    assert!(bitmaps.look(FIRST + 260).is_ok());
    let record = bitmaps.home(old.start()).expect("a leaf");
    bitmaps.reach_note(old.start()).expect("there is memory");
    assert!(bitmaps.enter_note(record, old.start(), NOTE));
    let shared = bitmaps.reader_in_test();
    let looker = thread::spawn(move || {
        let found = shared.look(FIRST + 260);
        assert!(!matches!(found, Ok(Look::Plain(area)) if area == old), "an area without its annotation");
    });
    bitmaps.begin_change();
    map.free(old.start()).expect("it is an area");
    assert_eq!(bitmaps.take_note(record, old.start()), NOTE);
    assert_eq!(alloc(&mut map, 50).start(), old.start());
    bitmaps.end_change();
    looker.join().expect("the looker ends");
}

#[test]
fn models_of_looks_across_leaves_hold() {
    holds(3, a_look_across_while_an_area_with_a_note_is_replaced);
}
