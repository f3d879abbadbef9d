//! A0 `busy-list` (before 2018): nothing is known of free space but that it lies between busy
//! areas.
//!
//! ```text
//!    ┌──┐      ┌───┐┌─┐  ┌────┐ ┌──┐                 ┌──┐
//!    │░░│      │░░░││░│  │░░░░│ │░░│                 │░░│     busy or lazy areas, in a list and a tree
//!    └──┘      └───┘└─┘  └────┘ └──┘                 └──┘
//!        └─ 6 ─┘      └─2─┘    └1┘  ↑ the cache: the last area made. Below it no hole of its limits and alignment
//!                                     has more than 6 pages: `skipped`
//! ```
//!
//! * `Z1` A lazy area stays where it was, in the way of all, until it is purged.
//! * `Z2` The cache says: no request at its lower limit or a higher one, with its alignment or a greater one and more pages than
//!   `skipped`, fits below the end of its area. Any other request starts from the lowest area: first fit is the lowest
//!   fit, whatever the cache says.
//!
//! Areas that come make holes smaller, so `Z2` holds. One that goes from below the cache, or is the
//! cache, makes a hole that is not known: the cache moves down to the area below it. A search that
//! finds nothing leaves the cache as it was.
//!
//! The request may not have exactly `skipped` pages, for a hole that was skipped for its alignment
//! or limits may take that.
//!
//! The walk is O(n) in areas. A lower limit is found in the tree, without a walk. Source: the
//! design as the postings of 2018 and 2019 describe it, and measured as their "before".

use super::areas::{Areas, Group, Want, range};
use super::stack::Stack;
use super::tree::{Id, NIL, Plain, Tree};
use crate::design::{Segment, State};
use vmalloc::PageRange;

/// The state of an area in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Use {
    #[default]
    Busy,
    Lazy,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct BusyList {
    areas: Tree<Plain, Use>,
    span: PageRange,
    cache: Cache,
}

/// Where the next search may start: `Z2`. Nowhere while `area` is nil.
#[derive(Clone, Copy, Debug)]
struct Cache {
    area: Id,
    skipped: u64,
    low: u64,
    align: u64,
}

/// A hole that fits, above an area.
#[derive(Clone, Copy, Debug)]
struct Found {
    below: Id,
    start: u64,
    skipped: u64,
}

impl Areas for BusyList {
    type Freed = Id;

    fn new(span: PageRange) -> Self {
        let cache = Cache { area: NIL, skipped: 0, low: 0, align: 1 };
        Self { areas: Tree::new(), span, cache }
    }

    fn take(&mut self, want: &Want) -> Option<u64> {
        let found = self.walk(want)?;
        let area = self.record(found.below, range(found.start, found.start + want.pages));
        self.cache = Cache { area, skipped: found.skipped, low: want.within.start(), align: want.align };
        Some(found.start)
    }

    fn take_congruent(&mut self, group: &Group<'_>) -> Option<u64> {
        let base = group.highest_base(self.span, |start, pages| self.fit_down(start, pages))?;
        for part in group.parts(base) {
            self.record(self.areas.floor(part.start()), part);
        }
        Some(base)
    }

    fn busy_at(&self, start: u64) -> Option<u64> {
        self.find_busy(start).map(|area| self.areas.range(area).len())
    }

    fn retire(&mut self, start: u64) -> Option<(Id, u64)> {
        let area = self.find_busy(start)?;
        *self.areas.tag_mut(area) = Use::Lazy;
        Some((area, self.areas.range(area).len()))
    }

    fn give(&mut self, freed: Id) -> u64 {
        let start = self.areas.range(freed).start();
        if self.cache.area != NIL && start <= self.areas.range(self.cache.area).start() {
            self.cache.area = self.areas.prev(freed);
        }
        self.areas.remove(freed).len()
    }

    fn holds(&self, want: &Want) -> bool {
        self.holes().any(|hole| want.place(hole).is_some())
    }

    fn segments(&self, _lazy: &Stack<Id>) -> Vec<Segment> {
        let area = |id| {
            let state = if self.areas.tag(id) == Use::Busy { State::Busy } else { State::Lazy };
            Segment { range: self.areas.range(id), state }
        };
        let free = |range| Segment { range, state: State::Free };
        let mut segments: Vec<_> = self.areas.ids().map(area).chain(self.holes().map(free)).collect();
        segments.sort_unstable_by_key(|segment| segment.range.start());
        segments
    }

    fn looked(&self) -> u64 {
        self.areas.looked()
    }

    fn bytes(&self) -> usize {
        self.areas.bytes()
    }

    fn verify(&self) -> Result<(), String> {
        self.areas.verify()?;
        self.verify_cache()
    }
}

impl BusyList {
    /// The lowest fit, from the cache on if that can be.
    fn walk(&self, want: &Want) -> Option<Found> {
        let (mut below, mut skipped) = self.start(want);
        loop {
            self.areas.look();
            let above = self.areas.next(below);
            let start = want.first_in(self.end_of(below))?;
            let end = start.checked_add(want.pages)?;
            if end > want.within.end() {
                return None;
            }
            let hole_end = self.start_of(above);
            if end <= hole_end {
                return Some(Found { below, start, skipped });
            }
            skipped = skipped.max(hole_end.saturating_sub(start));
            below = above;
        }
    }

    /// The area after which to begin, and the largest hole below its end.
    fn start(&self, want: &Want) -> (Id, u64) {
        let (cache, low) = (self.cache, want.within.start());
        let good = cache.area != NIL
            && want.pages > cache.skipped
            && low >= cache.low
            && want.align >= cache.align
            && low <= self.end_of(cache.area);
        if good { (cache.area, cache.skipped) } else { (self.areas.floor(low), 0) }
    }

    fn record(&mut self, below: Id, area: PageRange) -> Id {
        self.areas.insert_between(below, self.areas.next(below), area, Use::Busy)
    }

    fn find_busy(&self, start: u64) -> Option<Id> {
        self.areas.at(start).filter(|&area| self.areas.tag(area) == Use::Busy)
    }

    /// Where the hole above an area, or above nil the lowest, begins.
    fn end_of(&self, area: Id) -> u64 {
        if area == NIL { self.span.start() } else { self.areas.range(area).end() }
    }

    /// Where the hole below an area, or below nil the highest, ends.
    fn start_of(&self, area: Id) -> u64 {
        if area == NIL { self.span.end() } else { self.areas.range(area).start() }
    }

    fn hole_above(&self, area: Id) -> Option<PageRange> {
        PageRange::new(self.end_of(area), self.start_of(self.areas.next(area)))
    }

    /// All, in address order.
    fn holes(&self) -> impl Iterator<Item = PageRange> + '_ {
        std::iter::once(NIL).chain(self.areas.ids()).filter_map(|area| self.hole_above(area))
    }

    /// The highest place for so many pages that starts at a page or below it: down the list from
    /// there.
    fn fit_down(&self, start: u64, pages: u64) -> Option<u64> {
        let mut below = self.areas.floor(start);
        loop {
            let place = |hole: PageRange| Some(start.min(hole.end().checked_sub(pages)?));
            let fits = |hole: PageRange| place(hole).filter(|&place| place >= hole.start());
            match self.hole_above(below).and_then(fits) {
                Some(place) => return Some(place),
                None if below == NIL => return None,
                None => below = self.areas.prev(below),
            }
        }
    }

    /// Checks `Z2`: the smallest request that it is for does not fit below.
    fn verify_cache(&self) -> Result<(), String> {
        let cache = self.cache;
        let below = if cache.area == NIL { self.span.start() } else { self.start_of(cache.area) };
        let Some(within) = PageRange::new(cache.low, below) else { return Ok(()) };
        let want = Want { pages: cache.skipped + 1, align: cache.align, within };
        match self.holes().find(|&hole| want.place(hole).is_some()) {
            Some(hole) => Err(format!("Z2: {want:?} fits into {hole:?}, below the cache")),
            None => Ok(()),
        }
    }
}
