//! From a page to its leaf, wherever that is: a radix tree that stores no idle levels.
//!
//! Where areas are dense the leaf is where its group says ([`Bitmaps`]), and this is not asked.
//!
//! Pages are counted in *groups* of 256, what a leaf covers, from the group that the span starts
//! in.
//!
//! ```text
//!   root                      ┌ shift 21: 0 … 0xff_ffff ┐        8 steps of 2^21 groups
//!                 ┌───────────┘            │            └─── leaf 0xf5_1234   alone in its step
//!      ┌ shift 3: 0 … 0x3f ┐               └─── leaf 0x71_0000
//!      │                   └────────────┐
//!   ┌ shift 0: 0 … 7 ┐       ┌ shift 0: 0x30 … 0x37 ┐
//!   leaf  leaf  …   leaf     leaf   …            leaf
//! ```
//!
//! A node covers 8 aligned *steps* of 2^shift groups each. What hangs below a step starts where its
//! leaves part: a step with one leaf holds that leaf, whatever its size, and a node says which
//! groups it is for. So memory follows the leaves and not the span, and no way down has more than
//! 19 nodes, for 2^64 pages.
//!
//! Invariants:
//! - DIR-1 every node but the root has two children at least, so there are never more nodes than
//!   leaves; where leaves are dense, there is one for 7. The root is for the whole span and stays.
//! - DIR-2 all leaves below a child lie in its step; a node is in a smaller step than its parent.
//!
//! Entering a leaf takes one node at most, where its way parts from another's; taking it out gives
//! that back. The way down for a group without a leaf may end at another leaf, so the one found is
//! asked where it lies.

use super::bitmap::LEAF_SHIFT;
use super::bitmaps::Bitmaps;
use super::metadata::{Linked, OutOfMemory, Pool};
use crate::addr::PageRange;
use bytemuck::{Pod, Zeroable};

const FAN_SHIFT: u32 = 3;
/// Children of a node. With 8, 16 and 32, areas of 1 GiB at random places cost 474, 521 and 602
/// bytes each (the bound is 512), areas of 1…64 pages 29.2, 29.0 and 28.8 (`cargo test -p
/// vmalloc-model memory::`).
const FAN: usize = 1 << FAN_SHIFT;

/// How far back the leaf before another is looked for by its group.
const CLOSE: u64 = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Fan {
    /// The first group that it covers, a multiple of 8 steps.
    first: u64,
    /// log2 of the groups in a step, a multiple of 3.
    shift: u32,
    /// A bit for each step that has a child.
    present: u16,
    /// A bit for each child that is a node.
    nodes: u16,
    child: [u32; FAN],
}

/// The child below a step.
#[derive(Clone, Copy)]
enum Child {
    None,
    Leaf(u32),
    Node(u32),
}

impl Linked for Fan {
    fn link(&self) -> u32 {
        self.child[0]
    }
    fn set_link(&mut self, next: u32) {
        self.child[0] = next;
    }
}

impl Fan {
    /// Returns an empty node for `group` and what is around it.
    fn around(group: u64, shift: u32) -> Self {
        let first = group & (u64::MAX << shift << FAN_SHIFT);
        Self { first, shift, ..Self::zeroed() }
    }

    /// Returns the smallest one that covers two different groups.
    fn over(a: u64, b: u64) -> Self {
        Self::around(a, (a ^ b).ilog2() / FAN_SHIFT * FAN_SHIFT)
    }

    /// Returns the root for `span`.
    fn for_span(span: PageRange) -> Self {
        let last = ((span.end() - 1) >> LEAF_SHIFT) - (span.start() >> LEAF_SHIFT);
        Self::over(0, last | 1)
    }

    fn covers(&self, group: u64) -> bool {
        (group ^ self.first) >> self.shift >> FAN_SHIFT == 0
    }

    /// Returns the step that `group` lies in, if it is covered.
    #[inline]
    fn slot(&self, group: u64) -> usize {
        (group >> self.shift) as usize % FAN
    }

    #[inline]
    fn get(&self, slot: usize) -> Child {
        match (self.present >> slot & 1, self.nodes >> slot & 1) {
            (0, _) => Child::None,
            (_, 0) => Child::Leaf(self.child[slot]),
            _ => Child::Node(self.child[slot]),
        }
    }

    fn set(&mut self, slot: usize, child: Child) {
        let (present, node, index) = match child {
            Child::None => (0, 0, 0),
            Child::Leaf(leaf) => (1, 0, leaf),
            Child::Node(node) => (1, 1, node),
        };
        self.present = self.present & !(1 << slot) | present << slot;
        self.nodes = self.nodes & !(1 << slot) | node << slot;
        self.child[slot] = index;
    }

    /// Returns the last child in the first `slots` steps.
    fn last_of(&self, slots: usize) -> Child {
        let present = u32::from(self.present) & ((1 << slots) - 1);
        if present == 0 { Child::None } else { self.get(present.ilog2() as usize) }
    }
}

pub(super) struct Directory<'m> {
    fans: Pool<'m, Fan>,
    root: u32,
}

impl<'m> Directory<'m> {
    pub(super) fn new(span: PageRange, mut fans: Pool<'m, Fan>) -> Result<Self, OutOfMemory> {
        fans.ensure(1)?;
        let root = fans.take();
        fans[root] = Fan::for_span(span);
        Ok(Self { fans, root })
    }

    /// Makes sure that the root covers `span`, which starts where the span did before.
    pub(super) fn cover(&mut self, span: PageRange) -> Result<(), OutOfMemory> {
        let mut root = Fan::for_span(span);
        let old = self.fans[self.root];
        if root.shift <= old.shift {
            return Ok(());
        }
        // All that the old root covers lies in the first step of the new one. DIR-1: a node has two
        // children.
        if old.present & (old.present.wrapping_sub(1)) == 0 {
            root.set(0, old.last_of(FAN));
            self.fans[self.root] = root;
        } else {
            self.fans.ensure(1)?;
            root.set(0, Child::Node(self.root));
            self.root = self.fans.take();
            self.fans[self.root] = root;
        }
        Ok(())
    }

    /// Returns the leaf that holds `page`, or 0. Any page may be asked for.
    #[inline(never)]
    pub(super) fn leaf_of(&self, page: u64, bitmaps: &Bitmaps<'_>) -> u32 {
        self.leaf_at(bitmaps.group(page), bitmaps)
    }

    #[inline]
    fn leaf_at(&self, group: u64, bitmaps: &Bitmaps<'_>) -> u32 {
        let mut at = self.root;
        loop {
            let fan = &self.fans[at];
            match fan.get(fan.slot(group)) {
                Child::Node(node) => at = node,
                Child::Leaf(leaf) if group_of(leaf, bitmaps) == group => return leaf,
                _ => return 0,
            }
        }
    }

    /// Returns the last leaf that lies wholly before the leaf of `page`, a page of the span.
    pub(super) fn leaf_before(&self, page: u64, bitmaps: &Bitmaps<'_>) -> Option<u32> {
        let group = bitmaps.group(page);
        // Where leaves are dense, it is close by, and none lies between that is elsewhere.
        let close =
            (group.saturating_sub(CLOSE)..group).rev().map_while(|group| bitmaps.leaf_of_group(group)).next();
        close.or_else(|| self.leaf_before_group(group, bitmaps))
    }

    fn leaf_before_group(&self, group: u64, bitmaps: &Bitmaps<'_>) -> Option<u32> {
        let (mut before, mut at) = (Child::None, Child::Node(self.root));
        while let Child::Node(node) = at {
            let fan = &self.fans[node];
            // All steps, if the node lies before the group; none, if behind.
            let slots = (group.saturating_sub(fan.first) >> fan.shift).min(FAN as u64) as usize;
            match fan.last_of(slots) {
                Child::None => {}
                nearer => before = nearer,
            }
            at = if slots < FAN { fan.get(slots) } else { Child::None };
        }
        match at {
            Child::Leaf(leaf) if group_of(leaf, bitmaps) < group => Some(leaf),
            _ => self.last_below(before),
        }
    }

    fn last_below(&self, mut child: Child) -> Option<u32> {
        loop {
            match child {
                Child::None => return None,
                Child::Leaf(leaf) => return Some(leaf),
                Child::Node(node) => child = self.fans[node].last_of(FAN),
            }
        }
    }

    /// Makes sure that the next `leaves` calls of [`insert`](Self::insert) find the nodes they
    /// need.
    pub(super) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.fans.ensure(leaves)
    }

    /// Enters `leaf`, whose base is set. [`ensure`](Self::ensure) has been called for it.
    pub(super) fn insert(&mut self, leaf: u32, bitmaps: &Bitmaps<'_>) {
        self.enter(group_of(leaf, bitmaps), leaf, bitmaps);
    }

    fn enter(&mut self, group: u64, leaf: u32, bitmaps: &Bitmaps<'_>) {
        let (at, slot, child) = self.path_end(group);
        let first = match child {
            Child::None => return self.fans[at].set(slot, Child::Leaf(leaf)),
            Child::Leaf(other) => group_of(other, bitmaps),
            Child::Node(node) => self.fans[node].first,
        };
        let mut fork = Fan::over(first, group);
        fork.set(fork.slot(first), child);
        fork.set(fork.slot(group), Child::Leaf(leaf));
        let node = self.fans.take();
        self.fans[node] = fork;
        self.fans[at].set(slot, Child::Node(node));
    }

    /// Returns the last node that covers `group`, the step there, and what it holds.
    fn path_end(&self, group: u64) -> (u32, usize, Child) {
        let mut at = self.root;
        loop {
            let slot = self.fans[at].slot(group);
            match self.fans[at].get(slot) {
                Child::Node(node) if self.fans[node].covers(group) => at = node,
                child => return (at, slot, child),
            }
        }
    }

    /// Takes the leaf of `page` out, and with it the node that DIR-1 asks for no longer.
    pub(super) fn remove(&mut self, page: u64, bitmaps: &Bitmaps<'_>) {
        let group = bitmaps.group(page);
        let (mut above, mut at) = (self.root, self.root);
        while let Child::Node(node) = self.fans[at].get(self.fans[at].slot(group)) {
            (above, at) = (at, node);
        }
        let fan = &mut self.fans[at];
        fan.set(fan.slot(group), Child::None);
        if at != self.root && fan.present.is_power_of_two() {
            let left = fan.last_of(FAN);
            self.fans.put(at);
            let above = &mut self.fans[above];
            above.set(above.slot(group), left);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.fans.bytes()
    }
}

fn group_of(leaf: u32, bitmaps: &Bitmaps<'_>) -> u64 {
    bitmaps.group(bitmaps.leaf(leaf).base())
}

#[cfg(test)]
mod tests;
