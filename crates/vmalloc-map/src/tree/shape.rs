//! Leaves that come and go: splitting, merging, and the height.

use super::Tree;
use super::tree_node::{FAN, MERGE_AT, node_of, place, slot_of};
use crate::bitmaps::Bitmaps;
use crate::metadata::OutOfMemory;
use crate::summary::Summary;

/// How a full node makes place.
#[derive(Clone, Copy)]
enum Split {
    /// Half of the children move: an insertion somewhere.
    Half,
    /// None move: an insertion behind the last leaf of all, so that a growing space fills its
    /// nodes.
    Append,
}

impl Tree<'_> {
    /// Makes sure that the next `leaves` calls of [`insert_after`](Self::insert_after) find the
    /// nodes they need: a split at every level and a new root.
    pub(crate) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.nodes.ensure(leaves * (self.height as usize + 2))
    }

    /// Enters `leaf` behind the leaf `before`; its summary is none so high.
    pub(crate) fn insert_after(&mut self, before: u32, leaf: u32, bitmaps: &Bitmaps<'_>) {
        let split = if bitmaps.leaf(leaf).next.get() == 0 { Split::Append } else { Split::Half };
        let first = bitmaps.leaf(leaf).base();
        self.insert(bitmaps.leaf(before).up.get(), (leaf, first), &Summary::NONE, 0, split, bitmaps);
    }

    /// Enters a child, with its first page, behind the place `after`, `level` levels above the
    /// leaves. Where no node splits, what lies below the nodes on the way stays the same, and so do
    /// the summaries above them.
    fn insert(
        &mut self,
        after: u32,
        (child, first): (u32, u64),
        summary: &Summary,
        level: u32,
        split: Split,
        bitmaps: &Bitmaps<'_>,
    ) {
        let (mut node, mut slot) = (node_of(after), slot_of(after) + 1);
        let is_full = self.nodes[node].len as usize == FAN;
        if is_full {
            let kept = match split {
                Split::Append if slot == FAN => FAN,
                _ => FAN / 2,
            };
            let twin = self.split(node, kept, level, split, bitmaps);
            if slot > kept || kept == FAN {
                (node, slot) = (twin, slot - kept);
            }
        }
        self.nodes[node].insert(slot, child, first, summary);
        self.relink(node, slot, level + 1, bitmaps);
        if is_full {
            self.restate_first(node);
            // Nodes above may have split while this child was in neither half.
            self.refresh(node);
        }
    }

    /// Moves the children from `kept` on into a new node behind `node`.
    fn split(&mut self, node: u32, kept: usize, level: u32, split: Split, bitmaps: &Bitmaps<'_>) -> u32 {
        let twin = self.nodes.take();
        let mut moved = self.nodes[twin];
        self.nodes[node].move_tail(kept, &mut moved);
        self.nodes[twin] = moved;
        self.relink(twin, 0, level + 1, bitmaps);
        if node == self.root {
            self.grow_root();
        }
        self.restate(node);
        // A twin that is empty yet has no first page: TREE-4 holds once its child is in.
        let (first, summary) = (moved.first[0], moved.total());
        self.insert(self.nodes[node].up, (twin, first), &summary, level + 1, split, bitmaps);
        twin
    }

    /// Puts a new root above the old one.
    fn grow_root(&mut self) {
        let old = self.root;
        self.root = self.nodes.take();
        self.height += 1;
        let (root, first, summary) = (self.root, self.nodes[old].first[0], self.nodes[old].total());
        self.nodes[root].insert(0, old, first, &summary);
        self.nodes[old].up = place(root, 0);
    }

    /// Takes the leaf at `up` out.
    pub(crate) fn remove(&mut self, up: u32, bitmaps: &Bitmaps<'_>) {
        self.remove_at(up, 0, bitmaps);
        while self.height > 1 && self.nodes[self.root].len == 1 {
            let old = self.root;
            self.root = self.nodes[old].child[0];
            let root = self.root;
            self.nodes[root].up = 0;
            self.height -= 1;
            self.nodes.put(old);
        }
    }

    fn remove_at(&mut self, up: u32, level: u32, bitmaps: &Bitmaps<'_>) {
        let (node, slot) = (node_of(up), slot_of(up));
        self.nodes[node].remove(slot);
        self.relink(node, slot, level + 1, bitmaps);
        if node == self.root {
            return;
        }
        let node_up = self.nodes[node].up;
        if self.nodes[node].len == 0 {
            self.nodes.put(node);
            return self.remove_at(node_up, level + 1, bitmaps);
        }
        if slot == 0 {
            self.restate_first(node);
        }
        self.refresh(node);
        self.merge(node, level, bitmaps);
    }

    /// Makes `node`, which is not the root, and a neighbour one, if they are small.
    fn merge(&mut self, node: u32, level: u32, bitmaps: &Bitmaps<'_>) {
        let up = self.nodes[node].up;
        let (parent, slot) = (node_of(up), slot_of(up));
        if !self.merge_with_next(parent, slot, level, bitmaps) && slot > 0 {
            self.merge_with_next(parent, slot - 1, level, bitmaps);
        }
    }

    /// Makes the children `slot` and `slot + 1` of `parent` one, if they are small.
    fn merge_with_next(&mut self, parent: u32, slot: usize, level: u32, bitmaps: &Bitmaps<'_>) -> bool {
        if slot + 1 >= self.nodes[parent].len as usize {
            return false;
        }
        let (left, right) = (self.nodes[parent].child[slot], self.nodes[parent].child[slot + 1]);
        let kept = self.nodes[left].len;
        if kept + self.nodes[right].len > MERGE_AT {
            return false;
        }
        let mut merged = self.nodes[left];
        self.nodes[right].move_tail(0, &mut merged);
        self.nodes[left] = merged;
        self.relink(left, kept as usize, level + 1, bitmaps);
        self.nodes.put(right);
        self.restate(left);
        self.nodes[parent].remove(slot + 1);
        self.relink(parent, slot + 1, level + 2, bitmaps);
        if parent != self.root {
            self.merge(parent, level + 1, bitmaps);
        }
        true
    }

    /// Tells the children of `node` from `slot` on where they are; `level` is the node's, 1 above
    /// leaves.
    pub(super) fn relink(&mut self, node: u32, slot: usize, level: u32, bitmaps: &Bitmaps<'_>) {
        for slot in slot..self.nodes[node].len as usize {
            let child = self.nodes[node].child[slot];
            let up = place(node, slot);
            if level == 1 {
                bitmaps.leaf(child).up.set(up);
            } else {
                self.nodes[child].up = up;
            }
        }
    }

    /// Brings the summary beside `node` up to date, where those above stay as they are.
    fn restate(&mut self, node: u32) {
        let up = self.nodes[node].up;
        if up != 0 {
            let summary = self.nodes[node].total();
            self.nodes[node_of(up)].set_summary(slot_of(up), &summary);
        }
    }

    /// Brings the first page beside `node`, and beside each node that begins with it, up to date.
    fn restate_first(&mut self, mut node: u32) {
        while self.nodes[node].up != 0 {
            let (first, up) = (self.nodes[node].first[0], self.nodes[node].up);
            node = node_of(up);
            self.nodes[node].first[slot_of(up)] = first;
            if slot_of(up) != 0 {
                return;
            }
        }
    }

    /// Brings the summaries above `node` up to date.
    fn refresh(&mut self, node: u32) {
        let up = self.nodes[node].up;
        if up != 0 {
            let summary = self.nodes[node].total();
            self.set(up, summary);
        }
    }
}
