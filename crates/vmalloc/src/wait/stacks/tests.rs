//! Stacks of areas, by themselves.

use super::*;

fn area(start: u64, len: u64) -> PageRange {
    PageRange::of(start, start + len)
}

/// Evicts in batches of at most `most` areas.
fn evict(pools: &mut SizeStacks, fraction: Fraction, most: usize) -> Vec<PageRange> {
    let (mut all, mut cursor) = (Vec::new(), Cursor::default());
    loop {
        let mut batch = Vec::new();
        let more = pools.evict(fraction, &mut cursor, most, &mut batch);
        assert!(batch.len() <= most);
        all.extend(batch);
        if !more {
            return all;
        }
    }
}

#[test]
fn the_area_freed_last_is_taken_first() {
    let mut kept = SizeStacks::default();
    assert_eq!(kept.take(4, 1), None);
    assert!(kept.with_room(4, 1).put(area(16, 4)));
    assert!(kept.with_room(4, 1).put(area(10, 4)));
    assert!(kept.with_room(MAX_PAGES, 1).put(area(1 << 20, MAX_PAGES)));
    assert!(!kept.with_room(MAX_PAGES + 1, 1).put(area(1, MAX_PAGES + 1)), "too large");
    assert_eq!(kept.take(4, 16), Some(16));
    assert_eq!(kept.take(4, 16), None);
    assert_eq!(kept.take(3, 1), None);
    assert_eq!(kept.take(4, 1), Some(10));
    assert_eq!(kept.take(MAX_PAGES, 1), Some(1 << 20));
    assert_eq!((kept.pages(), kept.areas()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "batches are small there, and so few areas are looked at")]
fn aligned_places_are_left_to_aligned_requests() {
    let mut kept = SizeStacks::default();
    for start in [64, 6, 16, 9, 512] {
        assert!(kept.with_room(2, 1).put(area(start, 2)));
    }
    assert_eq!(
        [2, 4, 4, 4, 4].map(|align| kept.take(2, align)),
        [Some(6), Some(16), Some(64), Some(512), None]
    );
    assert_eq!(kept.take(2, 1), Some(9));
}

#[test]
fn of_places_that_are_aligned_alike_the_last_one_is_taken() {
    let mut kept = SizeStacks::default();
    for start in [4, 12, 20, 28] {
        assert!(kept.with_room(2, 1).put(area(start, 2)));
    }
    assert_eq!([2, 4, 2, 1].map(|align| kept.take(2, align)), [28, 20, 12, 4].map(Some));
}

#[test]
fn a_quarter_goes_and_the_oldest_first() {
    let mut kept = SizeStacks::default();
    assert_eq!(evict(&mut kept, Fraction::Quarter, 8), []);
    for start in 1..=8 {
        assert!(kept.with_room(2, 1).put(area(start * 10, 2)));
    }
    assert!(kept.with_room(MAX_PAGES, 1).put(area(500, MAX_PAGES)));
    assert_eq!(evict(&mut kept, Fraction::Quarter, 1), [], "they have just come");
    assert_eq!(evict(&mut kept, Fraction::Quarter, 1), [area(10, 2), area(20, 2)]);
    assert_eq!(kept.areas(), 7);
    assert_eq!(evict(&mut kept, Fraction::All, 3).len(), 7);
    assert_eq!((kept.pages(), kept.areas()), (0, 0));
}

#[test]
fn decay_reaches_zero() {
    for count in (1..40).step_by(if cfg!(miri) { 19 } else { 1 }) {
        let mut kept = SizeStacks::default();
        for start in 1..=count {
            assert!(kept.with_room(3, 1).put(area(start * 10, 3)));
        }
        // A single area takes four; below that a quarter of what is left goes each time.
        let rounds = (0..40).take_while(|_| {
            kept.areas() > 0 && {
                evict(&mut kept, Fraction::Quarter, 2);
                true
            }
        });
        assert!(rounds.count() < 40 && kept.areas() == 0, "{count} areas never drain");
    }
}

#[test]
fn decay_spares_what_was_needed_since_the_last_one() {
    let mut kept = SizeStacks::default();
    for start in 1..=12 {
        assert!(kept.with_room(3, 1).put(area(start * 10, 3)));
    }
    let needed = |kept: &mut SizeStacks, count: u64| {
        let taken: Vec<u64> = (0..count).map(|_| kept.take(3, 1).unwrap()).collect();
        taken.iter().rev().for_each(|&start| assert!(kept.with_room(3, 1).put(area(start, 3))));
    };
    let _ = evict(&mut kept, Fraction::Quarter, 8);
    for (count, gone) in [(12, 0), (11, 1), (6, 2)] {
        needed(&mut kept, count);
        let evicted = evict(&mut kept, Fraction::Quarter, 8);
        assert_eq!(evicted.len(), gone, "{count} were needed");
        assert!(evicted.iter().all(|area| area.start() <= 40), "the oldest go: {evicted:?}");
    }
}

#[test]
fn all_that_was_not_needed_goes() {
    let mut kept = SizeStacks::default();
    for start in 1..=40 {
        assert!(
            kept.with_room(20, 1).put(area(start * 100, 20))
                && kept.with_room(3, 1).put(area(start * 100 + 50, 3))
        );
    }
    assert_eq!(evict(&mut kept, Fraction::Idle, 100), [], "they have just come");
    for _ in 0..8 {
        let taken = kept.take(20, 1).unwrap();
        assert!(kept.with_room(20, 1).put(area(taken, 20)));
    }
    let gone = evict(&mut kept, Fraction::Idle, 100);
    assert_eq!(gone.iter().filter(|area| area.len() == 20).count(), 39, "one was needed");
    assert_eq!(gone.iter().filter(|area| area.len() == 3).count(), 40);
}

#[test]
fn eviction_ends_when_areas_are_taken_meanwhile() {
    for fraction in [Fraction::Quarter, Fraction::Idle, Fraction::All] {
        let mut kept = SizeStacks::default();
        for start in 1..=40 {
            assert!(kept.with_room(20, 1).put(area(start * 100, 20)));
        }
        // Idle are those that were there at the decay before.
        let _ = evict(&mut kept, Fraction::Idle, 100);
        let (mut cursor, mut batch) = (Cursor::default(), Vec::new());
        assert!(kept.evict(fraction, &mut cursor, 2, &mut batch));
        while kept.take(20, 1).is_some() {}
        batch.clear();
        // The first lets the caller drop the memory of the empty stack.
        let is_more = kept.evict(fraction, &mut cursor, 2, &mut batch);
        assert!(!is_more || !kept.evict(fraction, &mut cursor, 2, &mut batch), "{fraction:?}");
        assert!(batch.is_empty());
    }
}

#[test]
fn every_size_is_found() {
    let mut kept = SizeStacks::default();
    for pages in 1..=MAX_PAGES {
        assert!(kept.with_room(pages, 1).put(area(pages << 10, pages)));
    }
    let sizes: Vec<u64> = evict(&mut kept, Fraction::All, 7).iter().map(PageRange::len).collect();
    assert_eq!(sizes, (1..=MAX_PAGES).collect::<Vec<_>>());
}

#[test]
fn sizes_left_behind_make_way_and_those_in_use_stay() {
    let mut kept = SizeStacks::default();
    for start in 1..=10 {
        assert!(
            kept.with_room(30, 1).put(area(start * 1000, 30))
                && kept.with_room(40, 1).put(area(start * 1000 + 500, 40))
        );
    }
    let mut out = Vec::new();
    assert_eq!(SizeStacks::default().make_way(5, 16, TWICE, &mut out), 0, "nothing is there");
    assert_eq!(kept.make_way(70, 16, TWICE, &mut out), 90, "the first round only looks, the next takes");
    assert_eq!(out, [area(1000, 30), area(2000, 30), area(3000, 30)], "those that have lain longest");
    for _ in 0..7 {
        assert!(kept.take(30, 1).is_some());
    }
    (0..7).for_each(|nth| assert!(kept.with_room(30, 1).put(area(90_000 + nth * 100, 30))));
    out.clear();
    assert_eq!(kept.make_way(400, 16, TWICE, &mut out), 400);
    assert!(out.iter().all(|area| area.len() == 40), "not those that were taken meanwhile: {out:?}");
    assert_eq!(kept.make_way(1000, 3, TWICE, &mut out), 90, "no more than was asked for");
    assert!(kept.count(40) == 0 && kept.count(30) != 0 && kept.count(31) == 0);
}

#[test]
fn areas_age_while_the_hand_goes_over_all_sizes() {
    let mut kept = SizeStacks::default();
    for start in 1..=10 {
        assert!(
            kept.with_room(30, 1).put(area(start * 1000, 30))
                && kept.with_room(40, 1).put(area(start * 1000 + 500, 40))
        );
    }
    let mut out = Vec::new();
    let age = |kept: &mut SizeStacks, out: &mut Vec<PageRange>| kept.make_way(90, 16, 1, out);
    assert_eq!(SizeStacks::default().make_way(5, 16, 1, &mut out), 0, "nothing is there");
    assert_eq!([age(&mut kept, &mut out), age(&mut kept, &mut out)], [0, 0], "each size is looked at first");
    for _ in 0..9 {
        assert!(kept.take(30, 1).is_some());
    }
    (0..9).for_each(|nth| assert!(kept.with_room(30, 1).put(area(90_000 + nth * 100, 30))));
    assert_eq!(age(&mut kept, &mut out), 30, "one that was not taken meanwhile");
    assert_eq!(out, [area(1000, 30)]);
    let sizes = [(); 6].map(|()| age(&mut kept, &mut out));
    assert_eq!(sizes, [120, 120, 120, 40, 90, 90], "all of the size that nobody needs, then the other");
    assert_eq!(kept.make_way(1000, 2, 1, &mut out), 60, "no more than was asked for");
}

#[test]
fn more_come_along_each_time_and_fewer_where_they_were_not_needed() {
    let mut kept = SizeStacks::default();
    assert_eq!(kept.along(30), 0, "no such size came so far");
    kept.with_room(30, 4);
    assert_eq!([(); 3].map(|()| kept.along(30)), [0, 1, 3]);
    assert!((1..=4).all(|nth| kept.put(area(nth * 100, 30))));
    let (mut cursor, mut out) = (Cursor::default(), Vec::new());
    kept.evict(Fraction::Idle, &mut cursor, 16, &mut out);
    assert_eq!((out.len(), kept.along(30)), (0, 7), "all were needed: none was there at the last look");
    assert!(kept.put(area(500, 30)));
    kept.evict(Fraction::Idle, &mut Cursor::default(), 16, &mut out);
    assert_eq!((out.len(), kept.along(30)), (4, 7), "half of fifteen");
    assert!((0..9).map(|_| kept.along(30)).all(|along| along <= BATCH));
}
