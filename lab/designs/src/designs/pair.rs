//! Busy areas by address beside a set of free ranges: the shape of 2018 and 2019.
//!
//! ```text
//!    busy    a tree by address: found by its start, freed by its start
//!    free    the ranges of a FreeSpace, and its search
//!    lazy    in neither: the holder of the lock keeps a list
//! ```
//!
//! * `B1` Each page of the span is in one busy area, one lazy area or one free range.

use super::areas::{Areas, Group, Want};
use super::free_ranges::FreeRanges;
use super::stack::Stack;
use super::tree::{Augment, Plain, Tree};
use crate::design::{Segment, State};
use vmalloc::PageRange;

/// Free ranges and a way to choose among them.
pub(super) trait FreeSpace: Send {
    /// The sums of the nodes.
    type Sum: Augment;

    fn new(span: PageRange) -> Self;

    fn ranges(&self) -> &FreeRanges<Self::Sum>;

    /// Takes a place for a request.
    fn take(&mut self, want: &Want) -> Option<PageRange>;

    /// Takes pages that are known to be free.
    fn take_exactly(&mut self, part: PageRange);

    /// Takes a range back.
    fn give(&mut self, part: PageRange);

    /// Checks the invariants.
    fn verify(&self) -> Result<(), String>;
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pair<F> {
    busy: Tree<Plain>,
    free: F,
}

impl<F: FreeSpace> Pair<F> {
    fn record(&mut self, area: PageRange) -> u64 {
        let spot = self.busy.spot(area.start());
        self.busy.insert(spot, area, ());
        area.start()
    }
}

impl<F: FreeSpace> Areas for Pair<F> {
    type Freed = PageRange;

    fn new(span: PageRange) -> Self {
        Self { busy: Tree::new(), free: F::new(span) }
    }

    fn take(&mut self, want: &Want) -> Option<u64> {
        let area = self.free.take(want)?;
        Some(self.record(area))
    }

    fn take_congruent(&mut self, group: &Group<'_>) -> Option<u64> {
        let base = self.free.ranges().highest_base(group)?;
        for part in group.parts(base) {
            self.free.take_exactly(part);
            self.record(part);
        }
        Some(base)
    }

    fn busy_at(&self, start: u64) -> Option<u64> {
        self.busy.at(start).map(|node| self.busy.range(node).len())
    }

    fn retire(&mut self, start: u64) -> Option<(PageRange, u64)> {
        let node = self.busy.at(start)?;
        let area = self.busy.remove(node);
        Some((area, area.len()))
    }

    fn give(&mut self, freed: PageRange) -> u64 {
        self.free.give(freed);
        freed.len()
    }

    fn holds(&self, want: &Want) -> bool {
        self.free.ranges().holds(want)
    }

    fn segments(&self, lazy: &Stack<PageRange>) -> Vec<Segment> {
        let all = |state| move |range| Segment { range, state };
        let busy = self.busy.ranges().map(all(State::Busy));
        let free = self.free.ranges().tree().ranges().map(all(State::Free));
        let mut segments: Vec<_> =
            busy.chain(free).chain(lazy.iter().copied().map(all(State::Lazy))).collect();
        segments.sort_unstable_by_key(|segment| segment.range.start());
        segments
    }

    fn looked(&self) -> u64 {
        self.free.ranges().tree().looked()
    }

    fn bytes(&self) -> usize {
        self.busy.bytes() + self.free.ranges().bytes()
    }

    fn verify(&self) -> Result<(), String> {
        self.busy.verify()?;
        self.free.verify()
    }
}
