//! A set of pages against a list of booleans, with ranges in part or wholly outside its span.

use vmalloc_map::{FitError, PageRange, PageSet, RequestError};
use vmalloc_model::{Seeded, Source, env};

const SPAN: (u64, u64) = (100, 200);
/// The pages of the list: those of the span, and some before and behind it.
const PAGES: u64 = 300;

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("not empty")
}

/// A set and its model: a boolean for each page.
struct Pair {
    set: PageSet,
    model: Vec<bool>,
}

impl Pair {
    fn new() -> Self {
        let set = PageSet::new(range(SPAN.0, SPAN.1)).expect("room");
        Self { set, model: vec![false; PAGES as usize] }
    }

    fn insert(&mut self, asked: PageRange) {
        let (span, inserted) = (range(SPAN.0, SPAN.1), self.set.insert(asked));
        if span.covers(&asked) {
            inserted.expect("room");
            self.model[asked.start() as usize..asked.end() as usize].fill(true);
        } else {
            let expected = RequestError::OutsideSpace { asked, space: span };
            assert_eq!(inserted, Err(FitError::Request(expected)), "{asked:?}");
        }
    }

    fn remove(&mut self, asked: PageRange) {
        self.set.remove(asked);
        self.model[asked.start() as usize..asked.end() as usize].fill(false);
    }

    /// Compares all that can be asked about `asked`.
    fn compare(&self, asked: PageRange) {
        let pages = || (asked.start()..asked.end()).map(|page| (page, self.model[page as usize]));
        let count = pages().filter(|(_, is_in)| *is_in).count() as u64;
        assert_eq!(self.set.len_in(asked), count, "{asked:?}");
        for wanted in [true, false] {
            let first = pages().find(|(_, is_in)| *is_in == wanted).map(|(page, _)| page);
            assert_eq!(self.set.first(asked, wanted), first, "{asked:?}, {wanted}");
        }
        let all = self.model.iter().filter(|is_in| **is_in).count() as u64;
        assert_eq!((self.set.len(), self.set.is_empty()), (all, all == 0));
        let first = self.model.iter().position(|is_in| *is_in);
        let last = self.model.iter().rposition(|is_in| *is_in);
        let bounds = first.zip(last).map(|(first, last)| range(first as u64, last as u64 + 1));
        assert_eq!(self.set.bounds(), bounds);
        self.set.verify().expect("intact");
    }
}

#[test]
fn pages_beyond_all_others_are_not_in_a_set() {
    let set = PageSet::new(range(SPAN.0, SPAN.1)).expect("room");
    assert_eq!(set.first(range(300, u64::MAX), false), Some(300));
    assert_eq!(set.len_in(range(0, u64::MAX)), 0);
}

#[test]
fn a_set_has_the_pages_that_were_inserted_and_not_removed() {
    let mut random = Seeded::new(env::seed(11));
    let mut pair = Pair::new();
    for _ in 0..5_000 {
        let start = random.between(0, PAGES - 1);
        let asked = range(start, random.between(start + 1, PAGES.min(start + 60)));
        if random.below(3) == 0 {
            pair.remove(asked);
        } else {
            pair.insert(asked);
        }
        let start = random.between(0, PAGES - 1);
        pair.compare(range(start, random.between(start + 1, PAGES)));
    }
}
