//! Free space as the set of its ranges, cut and merged: what the designs of 2018 and 2019 share.
//!
//! ```text
//!    full fit     left edge    right edge    no edge
//!    ┌──────┐     ┌───┬──┐     ┌──┬───┐     ┌─┬───┬─┐       ▓ taken
//!    │▓▓▓▓▓▓│     │▓▓▓│  │     │  │▓▓▓│     │ │▓▓▓│ │       one node goes away, shrinks, shrinks,
//!    └──────┘     └───┴──┘     └──┴───┘     └─┴───┴─┘       shrinks and gets a new neighbour
//! ```
//!
//! * `F1` The ranges are disjoint and inside the span, and no two touch: a range that is given back is merged with both neighbours.
//! * `F2` `pages` is the sum of all.
//!
//! A new remainder hangs right below the node that was split: no descent. What a kernel preloads
//! for it, so that the cut cannot fail half-way, is the arena's chain of unused nodes here. Giving
//! back descends once, to the node under which the range would hang; that node is one of the
//! neighbours, and the list knows the other.
//!
//! Source: the RFC of 2018. What differs between 2018 and 2019 is the [`Augment`] and the search.

use super::areas::{Group, Want, range};
use super::tree::{Augment, Id, NIL, Tree};
use vmalloc::PageRange;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct FreeRanges<A: Augment> {
    tree: Tree<A>,
    span: PageRange,
    pages: u64,
}

impl<A: Augment> FreeRanges<A> {
    /// One range.
    pub(super) fn full(span: PageRange) -> Self {
        let mut tree = Tree::new();
        tree.insert_between(NIL, NIL, span, ());
        Self { tree, span, pages: span.len() }
    }

    /// To search in.
    #[inline]
    pub(super) fn tree(&self) -> &Tree<A> {
        &self.tree
    }

    /// Takes a part of a free range. The lowest node with what is left of it; if there is none, the
    /// node below, or nil.
    pub(super) fn cut(&mut self, node: Id, part: PageRange) -> Id {
        let whole = self.tree.range(node);
        self.pages -= part.len();
        let below = PageRange::new(whole.start(), part.start());
        let above = PageRange::new(part.end(), whole.end());
        match (below, above) {
            (None, None) => {
                let before = self.tree.prev(node);
                self.tree.remove(node);
                return before;
            }
            (Some(rest), None) | (None, Some(rest)) => self.tree.reshape(node, rest),
            (Some(below), Some(above)) => {
                self.tree.reshape(node, above);
                return self.tree.insert_between(self.tree.prev(node), node, below, ());
            }
        }
        node
    }

    /// Makes a range free; the node that it is in then.
    pub(super) fn give(&mut self, part: PageRange) -> Id {
        self.pages += part.len();
        let spot = self.tree.spot(part.start());
        let (below, above) = self.tree.around(spot);
        let touches_below = below != NIL && self.tree.range(below).end() == part.start();
        let touches_above = above != NIL && self.tree.range(above).start() == part.end();
        match (touches_below, touches_above) {
            (true, true) => {
                let end = self.tree.remove(above).end();
                self.tree.reshape(below, range(self.tree.range(below).start(), end));
                below
            }
            (true, false) => {
                self.tree.reshape(below, range(self.tree.range(below).start(), part.end()));
                below
            }
            (false, true) => {
                self.tree.reshape(above, range(part.start(), self.tree.range(above).end()));
                above
            }
            (false, false) => self.tree.insert(spot, part, ()),
        }
    }

    /// The highest base for a group.
    pub(super) fn highest_base(&self, group: &Group<'_>) -> Option<u64> {
        group.highest_base(self.span, |start, pages| self.fit_down(start, pages))
    }

    /// The highest place for so many pages that starts at a page or below it: down the list from
    /// there.
    fn fit_down(&self, start: u64, pages: u64) -> Option<u64> {
        let mut node = self.tree.floor(start);
        while node != NIL {
            let free = self.tree.range(node);
            if free.len() >= pages {
                return Some(start.min(free.end() - pages));
            }
            node = self.tree.prev(node);
        }
        None
    }

    /// Returns true if some range has a place for the request: all are looked at.
    pub(super) fn holds(&self, want: &Want) -> bool {
        self.tree.ranges().any(|free| want.place(free).is_some())
    }

    /// Pages of all ranges: `F2`.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn bytes(&self) -> usize {
        self.tree.bytes()
    }

    /// Checks `F1` and `F2`, and the tree.
    pub(super) fn verify(&self) -> Result<(), String> {
        self.tree.verify()?;
        let mut end = None;
        for free in self.tree.ranges() {
            if end == Some(free.start()) || !self.span.covers(&free) {
                return Err(format!(
                    "F1: the free range {free:?} touches the one below, or is not in the span"
                ));
            }
            end = Some(free.end());
        }
        let sum: u64 = self.tree.ranges().map(|free| free.len()).sum();
        if sum == self.pages { Ok(()) } else { Err(format!("F2: {sum} free pages, not {}", self.pages)) }
    }
}
