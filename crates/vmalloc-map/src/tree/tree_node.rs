//! A node: sixteen children, and the first page and the summary of each.

use crate::metadata::Linked;
use crate::summary::{Lanes, Query, Summary, hides};
use bytemuck::{Pod, Zeroable};
use wide::{CmpEq, i8x16, i16x8};

const FAN_SHIFT: u32 = 4;
/// Children of a node. Eight take as many instructions, but a tenth more time and memory: the
/// maximum over a node grows with it, the height shrinks.
pub(super) const FAN: usize = 1 << FAN_SHIFT;
/// Two neighbours with this many children or fewer become one.
pub(super) const MERGE_AT: u32 = 12;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Node {
    /// The low lanes of all children, then the high ones: most walks need only the low.
    pub(super) lanes: [[i16x8; FAN]; 2],
    pub(super) excess: [u64; FAN],
    /// The first page of the first leaf below each child.
    pub(super) first: [u64; FAN],
    pub(super) child: [u32; FAN],
    /// Where the parent holds this node, as in a leaf; 0 for the root.
    pub(super) up: u32,
    pub(super) len: u32,
    pad: [u32; 2],
}

impl Linked for Node {
    fn link(&self) -> u32 {
        self.up
    }
    fn set_link(&mut self, next: u32) {
        self.up = next;
    }
}

/// Returns a place in the tree: node and slot in one word.
#[inline]
pub(super) fn place(node: u32, slot: usize) -> u32 {
    node << FAN_SHIFT | slot as u32
}

#[inline]
pub(super) fn node_of(up: u32) -> u32 {
    up >> FAN_SHIFT
}

#[inline]
pub(super) fn slot_of(up: u32) -> usize {
    up as usize & (FAN - 1)
}

/// Returns true if all lanes are equal, by one comparison of all bytes.
#[inline]
pub(super) fn same(a: i16x8, b: i16x8) -> bool {
    let (a, b): (i8x16, i8x16) = (bytemuck::cast(a), bytemuck::cast(b));
    a.cmp_eq(b).all()
}

impl Node {
    #[inline]
    pub(super) fn summary(&self, slot: usize) -> Summary {
        Summary { lanes: Lanes::new(self.lanes[0][slot], self.lanes[1][slot]), excess: self.excess[slot] }
    }

    #[inline]
    pub(super) fn set_summary(&mut self, slot: usize, summary: &Summary) {
        self.lanes[0][slot] = summary.lanes.low();
        self.lanes[1][slot] = summary.lanes.high();
        self.excess[slot] = summary.excess;
    }

    /// Returns the summary of all children together.
    #[inline]
    pub(super) fn total(&self) -> Summary {
        let lanes = Lanes::new(self.most(0), self.most(1));
        if lanes.may_be_huge() { self.huge_total(lanes) } else { Summary { lanes, excess: 0 } }
    }

    /// Returns the maximum of the low (0) or high (1) lanes of all children.
    #[inline]
    pub(super) fn most(&self, half: usize) -> i16x8 {
        let lanes = &self.lanes[half];
        lanes[1..].iter().fold(lanes[0], |most, &lanes| most.max(lanes))
    }

    /// Returns the summary of all children; `lanes` are the maxima of theirs.
    #[inline(never)]
    fn huge_total(&self, lanes: Lanes) -> Summary {
        let excess = self.excess.iter().fold(0, |most, excess| most.max(*excess));
        if excess == 0 {
            return Summary { lanes, excess };
        }
        let mut total = Summary { lanes: Lanes::NONE, excess };
        for slot in 0..FAN {
            let summary = self.summary(slot);
            if !hides(excess, &summary) {
                total.lanes = total.lanes.max(summary.lanes.lowered(excess - summary.excess));
            }
        }
        total
    }

    /// Returns the first child from slot `from` on whose summary answers the query with yes.
    #[inline]
    pub(super) fn first_match(&self, from: usize, query: &Query) -> Option<usize> {
        match query.direct() {
            Some(need) => self.first_direct(from, query.lane, need),
            None => (from..FAN).find(|&slot| self.matches(slot, query)),
        }
    }

    /// Returns true if the summary of the child at `slot` answers the query with yes.
    #[inline]
    fn matches(&self, slot: usize, query: &Query) -> bool {
        let half: &[[i16; 8]; FAN] = bytemuck::cast_ref(&self.lanes[(query.lane / 8) & 1]);
        query.is_met(half[slot][query.lane & 7], self.excess[slot])
    }

    /// Returns the first child from slot `from` on that has at least `need` in the one lane that
    /// decides.
    #[inline]
    pub(super) fn first_direct(&self, from: usize, lane: usize, need: i16) -> Option<usize> {
        let half: &[[i16; 8]; FAN] = bytemuck::cast_ref(&self.lanes[(lane / 8) & 1]);
        (from..FAN).find(|&slot| half[slot][lane & 7] >= need)
    }

    /// Returns the last child before slot `before` whose summary answers the query with yes.
    pub(super) fn last_match(&self, before: usize, query: &Query) -> Option<usize> {
        (0..before).rfind(|&slot| self.matches(slot, query))
    }

    /// Returns the last child that begins at or before `page`.
    #[inline]
    pub(super) fn last_from(&self, page: u64) -> Option<usize> {
        // Without a branch for each: compilers make vectors of it.
        let slots = self.first.iter().zip(0..self.len);
        slots.map(|(first, _)| usize::from(*first <= page)).sum::<usize>().checked_sub(1)
    }

    pub(super) fn insert(&mut self, slot: usize, child: u32, first: u64, summary: &Summary) {
        let len = self.len as usize;
        self.lanes.iter_mut().for_each(|half| half.copy_within(slot..len, slot + 1));
        self.excess.copy_within(slot..len, slot + 1);
        self.child.copy_within(slot..len, slot + 1);
        self.first.copy_within(slot..len, slot + 1);
        (self.child[slot], self.first[slot]) = (child, first);
        self.set_summary(slot, summary);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, slot: usize) {
        let len = self.len as usize;
        self.lanes.iter_mut().for_each(|half| half.copy_within(slot + 1..len, slot));
        self.excess.copy_within(slot + 1..len, slot);
        self.child.copy_within(slot + 1..len, slot);
        self.first.copy_within(slot + 1..len, slot);
        self.truncate(len - 1);
    }

    /// Moves the children from `from` on to the end of `to`.
    pub(super) fn move_tail(&mut self, from: usize, to: &mut Self) {
        for slot in from..self.len as usize {
            to.insert(to.len as usize, self.child[slot], self.first[slot], &self.summary(slot));
        }
        self.truncate(from);
    }

    fn truncate(&mut self, len: usize) {
        for slot in len..FAN {
            self.set_summary(slot, &Summary::NONE);
            self.child[slot] = 0;
        }
        self.len = len as u32;
    }
}
