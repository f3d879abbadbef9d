//! The tree over the leaves: a B+tree with the first page and the [`Summary`] of each child beside
//! it.
//!
//! ```text
//!                  ┌ summary ┬ summary ┬ summary ┐                     summary = what the free ranges that
//!                  └──┬───┴──┬───┴──┬───┘                            start below here can take
//!          ┌──────────┘      │      └───────────┐
//!    ┌ summary ┬ summary ┐   ┌ summary ┬ … ┐       ┌ summary ┬ … ┐
//!    └──┬───┴──┬───┘   └──┬───┴───┘       └──┬───┴───┘
//!     leaf   leaf       leaf   …           leaf   …          in address order
//! ```
//!
//! A search is by what fits, or, where leaves are sparse, by page. Each child knows its place
//! (`up`), so a change begins at its leaf.
//!
//! Invariants:
//! - TREE-1 children are in address order, and `up` of each names its node and slot.
//! - TREE-2 the summary beside a child is exactly the summary of what lies below it; empty slots
//!   have none.
//! - TREE-3 no node but the root is empty. A node that loses a child joins a neighbour under the
//!   same parent if both hold twelve or fewer together. That keeps the height logarithmic in the
//!   number of leaves.
//! - TREE-4 the first page beside a child is that of the first leaf below it.
//!
//! A change sets the summary of one child and walks up until a summary comes out as it was. Growth
//! ([`Tree::raise`]) needs one maximum a level; anything else ([`Tree::set`]) the maximum of
//! sixteen.
//!
//! [`tree_node`]: a node. [`update`]: changes of summaries. [`shape`]: leaves that come and go.
//! [`tree_check`]: the invariants. The search is here.

mod shape;
mod tree_check;
mod tree_node;
mod update;

pub(super) use tree_node::Node;

use super::bitmaps::Bitmaps;
use super::metadata::{OutOfMemory, Pool};
use super::summary::{Query, Summary};
use crate::map::Steps;
use tree_node::{FAN, node_of, slot_of};

pub(super) struct Tree<'m> {
    nodes: Pool<'m, Node>,
    root: u32,
    /// Levels of nodes: 1 when the root's children are leaves.
    height: u32,
}

impl<'m> Tree<'m> {
    /// Returns a tree with one leaf.
    pub(super) fn new(
        mut nodes: Pool<'m, Node>,
        leaf: u32,
        bitmaps: &Bitmaps<'_>,
    ) -> Result<Self, OutOfMemory> {
        nodes.ensure(1)?;
        let root = nodes.take();
        let mut tree = Self { nodes, root, height: 1 };
        tree.nodes[root].insert(0, leaf, bitmaps.leaf(leaf).base(), &Summary::NONE);
        tree.relink(root, 0, 1, bitmaps);
        Ok(tree)
    }

    /// Returns the summary of everything.
    pub(super) fn total(&self) -> Summary {
        self.nodes[self.root].total()
    }

    /// Returns the last leaf that begins at or before `page`, or 0.
    #[inline(never)]
    pub(super) fn leaf_before(&self, page: u64) -> u32 {
        let mut child = self.root;
        for _ in 0..self.height {
            let node = &self.nodes[child];
            let Some(slot) = node.last_from(page) else { return 0 };
            child = node.child[slot & (FAN - 1)];
        }
        child
    }

    /// Returns the first leaf that the query says yes to.
    #[inline]
    pub(super) fn first(&self, query: &Query, steps: &Steps) -> Option<u32> {
        match query.direct() {
            Some(need) => self.first_direct(query.lane, need, steps),
            None => self.descend(self.root, self.height, query, steps),
        }
    }

    /// Returns the first leaf that has at least `need` in the one lane that decides.
    #[inline(always)]
    pub(super) fn first_direct(&self, lane: usize, need: i16, steps: &Steps) -> Option<u32> {
        let mut child = self.root;
        for _ in 0..self.height {
            steps.tick();
            let node = &self.nodes[child];
            child = node.child[node.first_direct(0, lane, need)? & (FAN - 1)];
        }
        Some(child)
    }

    /// Returns the first leaf behind the one at `up` that the query says yes to.
    #[inline]
    pub(super) fn next(&self, mut up: u32, query: &Query, steps: &Steps) -> Option<u32> {
        let mut level = 0;
        while up != 0 {
            steps.tick();
            let node = &self.nodes[node_of(up)];
            if let Some(slot) = node.first_match(slot_of(up) + 1, query) {
                return self.descend(node.child[slot], level, query, steps);
            }
            up = node.up;
            level += 1;
        }
        None
    }

    #[inline]
    fn descend(&self, mut child: u32, levels: u32, query: &Query, steps: &Steps) -> Option<u32> {
        for _ in 0..levels {
            steps.tick();
            let node = &self.nodes[child];
            child = node.child[node.first_match(0, query)? & (FAN - 1)];
        }
        Some(child)
    }

    /// Returns the last leaf that the query says yes to.
    pub(super) fn last(&self, query: &Query, steps: &Steps) -> Option<u32> {
        self.descend_last(self.root, self.height, query, steps)
    }

    /// Returns the last leaf before the one at `up` that the query says yes to.
    pub(super) fn prev(&self, mut up: u32, query: &Query, steps: &Steps) -> Option<u32> {
        let mut level = 0;
        while up != 0 {
            steps.tick();
            let node = &self.nodes[node_of(up)];
            if let Some(slot) = node.last_match(slot_of(up), query) {
                return self.descend_last(node.child[slot], level, query, steps);
            }
            up = node.up;
            level += 1;
        }
        None
    }

    fn descend_last(&self, mut child: u32, levels: u32, query: &Query, steps: &Steps) -> Option<u32> {
        for _ in 0..levels {
            steps.tick();
            let node = &self.nodes[child];
            child = node.child[node.last_match(FAN, query)? & (FAN - 1)];
        }
        Some(child)
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    #[cfg(feature = "count-steps")]
    pub(super) fn height(&self) -> u32 {
        self.height
    }
}
