use super::super::policy::{Allowance, third};
use super::*;
use crate::wait::Apart;
use alloc::vec;
use core::cell::{Cell, RefCell};

fn area(start: u64, len: u64) -> PageRange {
    PageRange::of(start, start + len)
}

/// Notes what is cut and joined, and refuses a cut where memory is short.
#[derive(Default)]
struct Noted {
    cuts: RefCell<Vec<[PageRange; 2]>>,
    joins: RefCell<Vec<u64>>,
    is_short: Cell<bool>,
}

impl Borders for Noted {
    fn cut(&self, whole: PageRange, part: PageRange) -> bool {
        assert!(whole.covers(&part) && whole != part, "{part:?} of {whole:?}");
        self.cuts.borrow_mut().push([whole, part]);
        !self.is_short.get()
    }

    fn join(&self, page: u64) {
        self.joins.borrow_mut().push(page);
    }
}

/// A stock, and a budget that nothing else uses.
struct Play {
    stock: Stock,
    budget: Apart<Budget>,
    borders: Noted,
}

impl Play {
    /// Areas without guard pages.
    fn new(pages: u64) -> Self {
        let allowance =
            Allowance { lazy: 1, absent: 1, least: pages, most: pages, is_dear: true, beside: third };
        Self {
            stock: Stock::with_room(0),
            budget: Budget::new(allowance, 1).unwrap(),
            borders: Noted::default(),
        }
    }

    /// Areas that end with a guard page each.
    fn guarded(pages: u64) -> Self {
        Self { stock: Stock::with_room(1), ..Self::new(pages) }
    }

    fn put(&mut self, area: PageRange) -> ((bool, u64), Vec<PageRange>) {
        let mut evicted = Vec::new();
        let put = self.stock.put(&self.budget, area, area.len(), 32, &mut evicted, &self.borders);
        (put, evicted)
    }

    fn take(&mut self, pages: u64, most: u64, align: u64) -> Option<PageRange> {
        let fit = Fit::new(pages).align(align);
        let (area, lacks_guard) = self.stock.take(&self.budget, &fit, most, 0, &self.borders)?;
        assert!(!lacks_guard, "that takes a call");
        Some(area)
    }

    /// Takes what may need calls. Returns whether a guard page is to be made.
    fn take_with_calls(&mut self, pages: u64, most: u64) -> Option<(PageRange, bool)> {
        self.stock.take(&self.budget, &Fit::new(pages), most, BATCH, &self.borders)
    }

    fn evict(&mut self, pages: u64, most: usize) -> (u64, Vec<PageRange>) {
        let mut out = Vec::new();
        let gone = self.stock.evict(pages, most, &mut out, &self.borders);
        self.budget.put(gone);
        (gone, out)
    }

    fn areas(&self) -> Vec<PageRange> {
        self.stock.iter().collect()
    }

    /// Checks that the sums are those of the areas, and that the budget has the rest.
    fn check(&self, most: u64) {
        let pages: u64 = self.stock.iter().map(|area| area.len()).sum();
        assert_eq!((self.stock.pages, self.stock.memory), (pages, most - self.budget.free()));
        let areas = self.areas();
        let are_apart = |two: &[PageRange]| two[0].end() + 1 - self.stock.guard_pages <= two[1].start();
        assert!(areas.windows(2).all(are_apart), "{areas:?}");
    }
}

const REFUSED: (bool, u64) = (false, 0);

fn kept(evicted: u64) -> (bool, u64) {
    (true, evicted)
}

#[test]
fn the_smallest_whole_area_that_fits_is_taken() {
    let mut play = Play::guarded(10_000);
    for (start, len) in [(0x1000, 400), (0x2000, 300), (0x3001, 310), (0x4000, 310)] {
        assert!(play.put(area(start, len)).0.0);
    }
    assert_eq!(play.take(301, 309, 1), None);
    assert_eq!(play.take(301, 376, 16), Some(area(0x4000, 310)));
    assert_eq!(play.take(301, 376, 1), Some(area(0x3001, 310)));
    assert_eq!(play.take(300, 375, 1), Some(area(0x2000, 300)));
    assert_eq!(play.areas(), [area(0x1000, 400)]);
    play.check(10_000);
}

/// Both locks are held meanwhile, and the list may not ask for memory. What it has already does not
/// count.
#[test]
fn no_more_areas_make_way_than_have_room_or_than_a_batch() {
    for (room, before) in [(3, 0), (1000, 0), (3, 2)] {
        let most = room.min(BATCH - 1);
        let mut play = Play::guarded(50 * 10);
        (0..50).for_each(|nth| assert!(play.put(area(0x1000 * (nth + 1), 10)).0.0));
        let mut list = vec![area(1, 10); before];
        let put =
            play.stock.put(&play.budget, area(0x100_0000, 50 * 10), 50 * 10, room, &mut list, &play.borders);
        assert_eq!((put, list.len()), ((false, 10 * most as u64), before + most));
        assert_eq!(play.areas().len(), 50 - most);
        play.check(50 * 10);
    }
}

/// A request looks at each area, so they are bounded.
#[test]
fn an_area_beyond_the_most_is_refused() {
    let most = LONG_LIST as u64;
    let mut play = Play::guarded(10 * most + 10);
    (0..most).for_each(|nth| assert!(play.put(area(0x1000 * (nth + 1), 10)).0.0));
    assert_eq!(play.put(area(1, 10)), (REFUSED, vec![]));
    assert_eq!(play.areas().len(), LONG_LIST);
    play.check(10 * most + 10);
}

#[test]
fn areas_side_by_side_become_one_and_a_part_of_it_is_taken() {
    let mut play = Play::new(10_000);
    for (start, len) in [(100, 10), (120, 7), (137, 8), (127, 10)] {
        assert!(play.put(area(start, len)).0.0);
    }
    assert_eq!(play.areas(), [area(100, 10), area(120, 25)]);
    assert_eq!(play.take(19, 19, 1), Some(area(120, 19)));
    assert_eq!(play.areas(), [area(100, 10), area(139, 6)]);
    assert_eq!(play.take(6, 6, 1), Some(area(100, 6)), "the lowest place");
    assert_eq!(play.take(6, 6, 1), Some(area(139, 6)));
    assert_eq!(play.take(5, 5, 1), None);
    play.check(10_000);
    let borders = play.borders;
    // 127 joins what is behind it, then what is before.
    assert_eq!(*borders.joins.borrow(), [137, 127]);
    let cuts = [[area(120, 25), area(120, 19)], [area(100, 10), area(100, 6)]];
    assert_eq!(*borders.cuts.borrow(), cuts, "a whole area is not cut");
}

/// Four areas of 10 pages, the last of each a guard page, side by side.
fn four_guarded() -> Play {
    let mut play = Play::guarded(10_000);
    [110, 130, 100, 120].iter().for_each(|&start| assert!(play.put(area(start, 10)).0.0));
    assert_eq!(play.areas(), of_ten([100, 110, 120, 130]));
    play
}

#[test]
fn an_area_of_a_run_is_taken_without_a_call() {
    let mut play = four_guarded();
    assert_eq!(play.take(11, 19, 1), None, "none has so many pages");
    assert_eq!(play.take(9, 9, 1), None, "a cut takes a call");
    assert_eq!(play.take(9, 10, 8), Some(area(120, 10)), "a multiple of 8");
    assert_eq!(play.take(8, 10, 1), Some(area(130, 10)), "of the smallest run");
    assert_eq!(play.take(10, 10, 1), Some(area(100, 10)));
    assert_eq!(play.take(10, 10, 1), Some(area(110, 10)));
    play.check(10_000);
    assert_eq!(*play.borders.joins.borrow(), []);
}

#[test]
fn a_guarded_part_takes_the_fewest_calls() {
    let mut play = four_guarded();
    assert_eq!(play.take_with_calls(18, 20), Some((area(100, 20), false)), "it ends at a guard page");
    assert_eq!(play.take_with_calls(5, 6), Some((area(120, 5), true)), "a cut");
    play.check(10_000);
    assert_eq!(play.areas(), [area(125, 5), area(130, 10)]);
    assert_eq!(play.take_with_calls(4, 4), Some((area(130, 4), true)), "not a guard page alone");
    assert_eq!(play.areas(), [area(125, 5), area(134, 6)]);
    assert_eq!(play.take_with_calls(5, 5), Some((area(125, 5), false)));
    play.check(10_000);
    let mut play = four_guarded();
    assert_eq!(play.take_with_calls(35, 35), Some((area(100, 35), true)));
    assert_eq!((play.areas(), play.stock.pages), (vec![area(135, 5)], 5));
    play.check(10_000);
    assert_eq!(*play.borders.cuts.borrow(), [[area(130, 10), area(130, 5)]], "the last area alone");
}

/// The purger is held meanwhile.
#[test]
fn a_part_takes_no_more_calls_than_a_batch() {
    let mut play = Play::guarded(10_000);
    let all = BATCH as u64 + 2;
    (0..all).for_each(|nth| assert!(play.put(area(1000 + 10 * nth, 10)).0.0));
    assert_eq!(play.take_with_calls(10 * all, 10 * all), None, "a guard page too many is inside");
    let most = area(1000, 10 * (all - 1));
    assert_eq!(play.take_with_calls(most.len(), most.len()), Some((most, false)));
    play.check(10_000);
}

/// It gives its addresses back in one piece.
#[test]
fn a_guarded_run_is_evicted_as_a_whole() {
    let mut play = four_guarded();
    assert!(play.put(area(200, 10)).0.0);
    assert_eq!(play.evict(1, 32), (40, of_ten([100, 110, 120, 130])));
    play.check(10_000);
    assert_eq!(play.areas(), [area(200, 10)]);
    let mut play = four_guarded();
    assert_eq!(play.evict(1, 3), (30, of_ten([100, 110, 120])), "as far as there is room");
    let mut play = four_guarded();
    // Under Miri one put makes no more than one go.
    if !cfg!(miri) {
        assert!(play.put(area(140, 9_990)).0.0, "all of the run makes room");
        assert_eq!(play.areas(), [area(140, 9_990)]);
    }
}

/// Returns areas of 10 pages.
fn of_ten<const N: usize>(starts: [u64; N]) -> Vec<PageRange> {
    starts.map(|start| area(start, 10)).into()
}

#[test]
fn without_memory_for_a_cut_a_guarded_run_stays() {
    let mut play = four_guarded();
    play.borders.is_short.set(true);
    assert_eq!(play.take_with_calls(9, 9), None);
    assert_eq!(play.areas(), of_ten([100, 110, 120, 130]));
    play.check(10_000);
}

#[test]
fn an_aligned_part_leaves_a_rest_on_either_side() {
    let mut play = Play::new(10_000);
    assert!(play.put(area(100, 100)).0.0);
    assert_eq!(play.take(20, 20, 64), Some(area(128, 20)));
    assert_eq!(play.areas(), [area(100, 28), area(148, 52)]);
    assert_eq!(play.take(20, 20, 64), None);
    play.check(10_000);
    assert!(play.put(area(128, 20)).0.0);
    assert_eq!(play.areas(), [area(100, 100)]);
    play.check(10_000);
}

#[test]
fn without_memory_for_a_cut_nothing_is_lost() {
    let mut play = Play::new(10_000);
    assert!(play.put(area(100, 100)).0.0);
    play.borders.is_short.set(true);
    assert_eq!(play.take(20, 25, 1), None);
    assert_eq!(play.areas(), [area(100, 100)]);
    play.check(10_000);
    assert_eq!(play.evict(30, 32), (100, vec![area(100, 100)]), "all of it goes");
    play.check(10_000);
}

#[test]
fn memory_that_has_lain_longest_makes_room() {
    let mut play = Play::guarded(1000);
    assert_eq!(play.put(area(0x1000, 500)), (kept(0), vec![]));
    assert_eq!(play.put(area(0x2000, 400)), (kept(0), vec![]));
    assert_eq!(play.put(area(0x3000, 300)), (kept(500), vec![area(0x1000, 500)]));
    assert_eq!(play.put(area(0x4000, 1001)), (REFUSED, vec![]));
    // Under Miri one put makes no more than one go.
    if !cfg!(miri) {
        let (put, evicted) = play.put(area(0x4000, 1000));
        assert_eq!((put, evicted.len()), (kept(700), 2));
    }
    play.check(1000);
    let mut play = Play::new(1000);
    assert_eq!(play.put(area(0x1000, 500)), (kept(0), vec![]));
    assert_eq!(play.put(area(0x2000, 400)), (kept(0), vec![]));
    assert_eq!(play.put(area(0x3000, 300)), (kept(200), vec![area(0x1000, 200)]), "no more than is due");
    play.check(1000);
}

/// Small areas have most of the budget: what the stock has is not enough, so it stays.
#[test]
fn areas_that_would_make_too_little_room_stay() {
    let mut play = Play::guarded(1000);
    assert_eq!(play.budget.take(600, 600), Some(600));
    assert_eq!(play.put(area(0x1000, 300)), (kept(0), vec![]));
    assert_eq!(play.put(area(0x2000, 500)), (REFUSED, vec![]));
    let mut evicted = Vec::new();
    let put = play.stock.put(&play.budget, area(0x3000, 350), 350, 0, &mut evicted, &play.borders);
    assert_eq!(put, REFUSED);
    assert_eq!((play.stock.pages, play.budget.free(), evicted), (300, 100, vec![]));
}

/// Parts of an area that has little memory share it, and together have all of it.
#[test]
fn an_area_counts_by_its_memory() {
    let mut play = Play::new(1000);
    let mut evicted = Vec::new();
    for nth in 0..10 {
        let huge = area(nth << 21, 1 << 20);
        assert!(play.stock.put(&play.budget, huge, 100, 32, &mut evicted, &play.borders).0);
    }
    assert_eq!((evicted.len(), play.budget.free()), (0, 0));
    assert_eq!(play.take(1 << 19, 1 << 19, 1), Some(area(0, 1 << 19)));
    assert_eq!(play.budget.free(), 50);
    assert_eq!(play.take(1 << 19, 1 << 19, 1), Some(area(1 << 19, 1 << 19)));
    assert_eq!((play.budget.free(), play.stock.memory), (100, 900));
    let none = area(1 << 30, 4000);
    assert!(play.stock.put(&play.budget, none, 0, 32, &mut evicted, &play.borders).0);
    let gone = play.evict(u64::MAX, 32);
    assert_eq!((gone.0, gone.1.len(), play.budget.free()), (900, 10, 1000), "also what has no memory");
    assert!(play.areas().is_empty());
}

#[test]
fn a_joined_area_has_lain_as_long_as_its_larger_part() {
    let mut play = Play::new(10_000);
    for (start, len) in [(1000, 300), (2000, 200), (2200, 50), (1300, 10)] {
        assert!(play.put(area(start, len)).0.0);
    }
    assert_eq!(play.evict(310, 32), (310, vec![area(1000, 310)]));
    assert!(play.put(area(3000, 100)).0.0);
    assert!(play.put(area(1900, 100)).0.0, "joins what is older and larger");
    assert_eq!(play.evict(350, 32), (350, vec![area(1900, 350)]));
    assert_eq!(play.areas(), [area(3000, 100)]);
}

#[test]
fn no_more_areas_are_evicted_than_asked_for() {
    let mut play = Play::guarded(10_000);
    let areas = [area(0x1000, 400), area(0x2000, 300), area(0x3000, 900), area(0x4000, 300)];
    areas.iter().for_each(|area| _ = play.put(*area));
    assert_eq!(play.evict(0, 32), (0, vec![]));
    assert_eq!(play.evict(1000, 1), (400, vec![areas[0]]));
    assert_eq!(play.evict(301, 32), (1200, vec![areas[1], areas[2]]));
    assert_eq!(play.evict(1, 0), (0, vec![]));
    play.check(10_000);
}

#[test]
fn decay_reaches_zero_and_spares_what_was_needed() {
    for mut play in [Play::guarded(100_000), Play::new(100_000)] {
        let fill = |play: &mut Play| (0..8).for_each(|nth| _ = play.put(area(nth << 12, 300)));
        fill(&mut play);
        assert_eq!(play.stock.due(Fraction::Idle), 0, "all are new");
        assert_eq!(play.take(300, 300, 1), Some(area(0, 300)));
        assert!(play.put(area(0, 300)).0.0);
        assert_eq!(play.stock.due(Fraction::Idle), 2100, "one was needed");
        assert_eq!(play.evict(2100, 32).0, 2100);
        assert_eq!(play.areas(), [area(0, 300)], "the one freed last");
        assert!(play.put(area(1 << 20, 300)).0.0);
        assert_eq!(play.stock.due(Fraction::Idle), 300, "the other is new");
        assert_eq!(play.evict(300, 32), (300, vec![area(0, 300)]));
        fill(&mut play);
        let mut decays = 0;
        while play.stock.pages > 0 {
            let due = play.stock.due(Fraction::Quarter);
            let _ = play.evict(due, 32);
            decays += 1;
        }
        assert!((5..40).contains(&decays), "{decays}");
        assert!(play.areas().is_empty() && play.stock.memory == 0);
    }
}
