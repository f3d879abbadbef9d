//! From a page to its leaf: a radix tree that stores no idle levels, and a window in front of it.
//!
//! Pages are counted in *groups* of 256, what a leaf covers, from the group that the span starts in.
//!
//! ```text
//!   group      0                          w
//!   window   │ leaf │ leaf │ 0 │ leaf │ … │                      one load, if the group lies here
//!   root                      ┌ shift 21: 0 … 0xff_ffff ┐        8 steps of 2^21 groups
//!                 ┌───────────┘            │            └─── leaf 0xf5_1234   alone in its step
//!      ┌ shift 3: 0 … 0x3f ┐               └─── leaf 0x71_0000
//!      │                   └────────────┐
//!   ┌ shift 0: 0 … 7 ┐       ┌ shift 0: 0x30 … 0x37 ┐
//!   leaf  leaf  …   leaf     leaf   …            leaf
//! ```
//!
//! A node covers 8 aligned *steps* of 2^shift groups each. What hangs below a step starts where its leaves part:
//! a step with one leaf holds that leaf, whatever its size, and a node says which groups it is for. So
//! memory follows the leaves and not the span, and no way down has more than 19 nodes, for 2^64 pages.
//!
//! Invariants:
//! - D1 every node but the root has two children at least, so there are never more nodes than leaves; where
//!   leaves are dense, there is one for 7. The root is for the whole span and stays.
//! - D2 all leaves below a child lie in its step; a node is in a smaller step than its parent.
//! - D3 the window holds what the tree says about groups 0 … its length.
//!
//! Entering a leaf takes one node at most, where its way parts from another's; taking it out gives that back.
//! The way down for a group without a leaf may end at another leaf, so the one found is asked where it lies.
//!
//! Placement is lowest-first, so most leaves are where the window is. A leaf entered behind its end lets it grow by
//! [`WIDEN`] entries, if there are [`WINDOW_PER_LEAF`] for each leaf as far as that one; isolated leaves cost it
//! nothing. Its array, like all, is copied when it must grow. It is a cache: without memory it stays as it is.

use super::leaf::{LEAF_SHIFT, Leaf};
use super::storage::{Items, Linked, OutOfMemory, Pool, Storage};
use crate::addr::PageRange;
use bytemuck::{Pod, Zeroable};

const FAN_SHIFT: u32 = 3;
/// Children of a node. With 8, 16 and 32, areas of 1 GiB at random places cost 474, 521 and 602 bytes each (the bound
/// is 512), areas of 1…64 pages 29.2, 29.0 and 28.8 (`cargo test -p vmalloc-model --test memory`).
const FAN: usize = 1 << FAN_SHIFT;

/// Window entries for each leaf, at most. Dense leaves take one; this many reach over areas of some 1,000 pages.
pub(super) const WINDOW_PER_LEAF: usize = 4;
/// Entries that the window grows by: more than a leaf's share, so that it catches up.
const WIDEN: usize = 8;

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

/// What hangs below a step.
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
    /// An empty node for `group` and what is around it.
    fn around(group: u64, shift: u32) -> Self {
        let first = group & (u64::MAX << shift << FAN_SHIFT);
        Self { first, shift, ..Self::zeroed() }
    }

    /// The smallest one that covers two different groups.
    fn over(a: u64, b: u64) -> Self {
        Self::around(a, (a ^ b).ilog2() / FAN_SHIFT * FAN_SHIFT)
    }

    fn covers(&self, group: u64) -> bool {
        (group ^ self.first) >> self.shift >> FAN_SHIFT == 0
    }

    /// The step that `group` lies in, if it is covered.
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

    /// The last child in the first `slots` steps.
    fn last_of(&self, slots: usize) -> Child {
        let present = u32::from(self.present) & ((1 << slots) - 1);
        if present == 0 { Child::None } else { self.get(present.ilog2() as usize) }
    }
}

pub(super) struct Directory<S: Storage> {
    fans: Pool<Fan, S>,
    root: u32,
    /// The first page of group 0.
    base: u64,
    /// The leaves of the first groups; 0 where there is none.
    window: S::Items<u32>,
}

impl<S: Storage> Directory<S> {
    pub(super) fn new(
        span: PageRange,
        fans: S::Items<Fan>,
        window: S::Items<u32>,
    ) -> Result<Self, OutOfMemory> {
        let mut fans = Pool::new(fans)?;
        fans.ensure(1)?;
        let root = fans.take();
        let base = span.start() >> LEAF_SHIFT << LEAF_SHIFT;
        fans[root] = Fan::over(0, (span.end() - 1 - base) >> LEAF_SHIFT | 1);
        Ok(Self { fans, root, base, window })
    }

    /// The group of a page; pages before the span come out behind it.
    #[inline]
    fn group(&self, page: u64) -> u64 {
        page.wrapping_sub(self.base) >> LEAF_SHIFT
    }

    /// The leaf that holds `page`, or 0, if the page lies in the window.
    #[inline]
    pub(super) fn leaf_near(&self, page: u64) -> Option<u32> {
        let group = self.group(page);
        if group < self.window.len() as u64 { Some(self.window[group as usize]) } else { None }
    }

    /// The same without the window, for any page.
    #[inline(never)]
    pub(super) fn leaf_beyond(&self, page: u64, leaves: &Pool<Leaf, S>) -> u32 {
        self.leaf_at(self.group(page), leaves)
    }

    #[inline]
    fn leaf_at(&self, group: u64, leaves: &Pool<Leaf, S>) -> u32 {
        let mut at = self.root;
        loop {
            let fan = &self.fans[at];
            match fan.get(fan.slot(group)) {
                Child::Node(node) => at = node,
                Child::Leaf(leaf) if self.group(leaves[leaf].base) == group => return leaf,
                _ => return 0,
            }
        }
    }

    /// The last leaf that lies wholly before the leaf of `page`, a page of the span.
    pub(super) fn leaf_before(&self, page: u64, leaves: &Pool<Leaf, S>) -> Option<u32> {
        let group = self.group(page);
        // Where leaves are dense, it is close by in the window.
        let seen = if group <= self.window.len() as u64 { group as usize } else { 0 };
        let near = self.window[..seen].iter().rev().take(WIDEN).find(|&&leaf| leaf != 0);
        near.copied().or_else(|| self.leaf_before_group(group, leaves))
    }

    fn leaf_before_group(&self, group: u64, leaves: &Pool<Leaf, S>) -> Option<u32> {
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
            Child::Leaf(leaf) if self.group(leaves[leaf].base) < group => Some(leaf),
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

    /// Makes sure that the next `leaves` calls of [`insert`](Self::insert) find the nodes they need.
    pub(super) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.fans.ensure(leaves)
    }

    /// Enters `leaf`, one of `leaves` with its base set. [`ensure`](Self::ensure) has been called for it.
    pub(super) fn insert(&mut self, leaf: u32, leaves: &Pool<Leaf, S>) {
        let group = self.group(leaves[leaf].base);
        self.enter(group, leaf, leaves);
        if group < self.window.len() as u64 {
            self.window[group as usize] = leaf;
        } else if group < (leaves.in_use() * WINDOW_PER_LEAF) as u64 {
            self.widen(leaves);
        }
    }

    fn enter(&mut self, group: u64, leaf: u32, leaves: &Pool<Leaf, S>) {
        let (at, slot, child) = self.way_end(group);
        let first = match child {
            Child::None => return self.fans[at].set(slot, Child::Leaf(leaf)),
            Child::Leaf(other) => self.group(leaves[other].base),
            Child::Node(node) => self.fans[node].first,
        };
        let mut fork = Fan::over(first, group);
        fork.set(fork.slot(first), child);
        fork.set(fork.slot(group), Child::Leaf(leaf));
        let node = self.fans.take();
        self.fans[node] = fork;
        self.fans[at].set(slot, Child::Node(node));
    }

    /// The last node that covers `group`, the step there, and what it holds.
    fn way_end(&self, group: u64) -> (u32, usize, Child) {
        let mut at = self.root;
        loop {
            let slot = self.fans[at].slot(group);
            match self.fans[at].get(slot) {
                Child::Node(node) if self.fans[node].covers(group) => at = node,
                child => return (at, slot, child),
            }
        }
    }

    /// Lets the window grow by the leaves of the next groups.
    fn widen(&mut self, leaves: &Pool<Leaf, S>) {
        let len = self.window.len();
        if self.window.extend_zeroed(WIDEN).is_ok() {
            for index in len..len + WIDEN {
                self.window[index] = self.leaf_at(index as u64, leaves);
            }
        }
    }

    /// Takes the leaf of `page` out, and with it the node that D1 asks for no longer.
    pub(super) fn remove(&mut self, page: u64) {
        let group = self.group(page);
        if group < self.window.len() as u64 {
            self.window[group as usize] = 0;
        }
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
        self.fans.bytes() + self.window.bytes()
    }
}

#[cfg(test)]
mod tests;
