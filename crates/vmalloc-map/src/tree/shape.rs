//! Leaves that come and go: splitting, merging, and the height.

use super::tree_node::{FAN, MERGE_AT, node_of, place, slot_of};
use super::{Node, Tree};
use crate::bitmaps::Bitmaps;
use crate::metadata::OutOfMemory;
use crate::summary::Summary;
use alloc::vec::Vec;

impl Tree<'_> {
    /// Makes sure that the next `leaves` calls of [`insert_after`](Self::insert_after) find the
    /// nodes they need: a split at every level and a new root.
    pub(crate) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.nodes.ensure(leaves * (self.height as usize + 2))
    }

    /// Returns as how many nodes the pool has to be made longer before that, if it has to be.
    pub(crate) fn lacks(&self, leaves: usize) -> Option<usize> {
        self.nodes.lacks(leaves * (self.height as usize + 2))
    }

    /// Goes on in a longer pool.
    pub(crate) fn move_to(&mut self, longer: &mut Vec<Node>) {
        self.nodes.move_to(longer);
    }

    /// Enters `leaf` behind the leaf `before`; its summary is none so high. So what lies below each
    /// node above stays the same, split or not, and so do the summaries there.
    pub(crate) fn insert_after(&mut self, before: u32, leaf: u32, bitmaps: &Bitmaps<'_>) {
        let is_last = bitmaps.leaf(leaf).next.get() == 0;
        let (mut after, mut child, mut level) = (bitmaps.leaf(before).up.get(), leaf, 1);
        let (mut first, mut summary) = (bitmaps.leaf(leaf).base(), Summary::NONE);
        loop {
            let (node, slot) = (node_of(after), slot_of(after) + 1);
            let (mut into, mut at, mut twin) = (node, slot, 0);
            if self.nodes[node].len as usize == FAN {
                // Behind the last leaf of all no child moves, so that a growing space fills its
                // nodes.
                let kept = if is_last && slot == FAN { FAN } else { FAN / 2 };
                twin = self.split(node, kept, level, bitmaps);
                if slot > kept || kept == FAN {
                    (into, at) = (twin, slot - kept);
                }
            }
            self.nodes[into].insert(at, child, first, &summary);
            self.relink(into, at, level, bitmaps);
            if twin == 0 {
                return;
            }
            if node == self.root {
                self.grow_root();
            }
            self.restate(node);
            (after, child, level) = (self.nodes[node].up, twin, level + 1);
            (first, summary) = (self.nodes[twin].first[0], self.nodes[twin].total());
        }
    }

    /// Moves the children from `kept` on into a new node, which has no parent yet.
    fn split(&mut self, node: u32, kept: usize, level: u32, bitmaps: &Bitmaps<'_>) -> u32 {
        let twin = self.nodes.take();
        let (old, new) = self.nodes.pair(node, twin);
        old.move_tail(kept, new);
        self.relink(twin, 0, level, bitmaps);
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
    pub(crate) fn remove(&mut self, mut up: u32, bitmaps: &Bitmaps<'_>) {
        for level in 1.. {
            let (node, slot) = (node_of(up), slot_of(up));
            self.nodes[node].remove(slot);
            self.relink(node, slot, level, bitmaps);
            up = self.nodes[node].up;
            if self.nodes[node].len == 0 && node != self.root {
                self.nodes.put(node);
                continue;
            }
            if slot == 0 {
                self.restate_first(node);
            }
            self.refresh(node);
            self.merge(node, level, bitmaps);
            break;
        }
        while self.height > 1 && self.nodes[self.root].len == 1 {
            let old = self.root;
            self.root = self.nodes[old].child[0];
            let root = self.root;
            self.nodes[root].up = 0;
            self.height -= 1;
            self.nodes.put(old);
        }
    }

    /// Makes `node` and a neighbour one, if they are small, and so the nodes above.
    fn merge(&mut self, mut node: u32, level: u32, bitmaps: &Bitmaps<'_>) {
        for level in level.. {
            if node == self.root {
                return;
            }
            let up = self.nodes[node].up;
            let (parent, slot) = (node_of(up), slot_of(up));
            let is_merged = self.merge_with_next(parent, slot, level, bitmaps)
                || slot > 0 && self.merge_with_next(parent, slot - 1, level, bitmaps);
            if !is_merged {
                return;
            }
            node = parent;
        }
    }

    /// Makes the children `slot` and `slot + 1` of `parent` one, if they are small. `level` is
    /// theirs.
    fn merge_with_next(&mut self, parent: u32, slot: usize, level: u32, bitmaps: &Bitmaps<'_>) -> bool {
        if slot + 1 >= self.nodes[parent].len as usize {
            return false;
        }
        let (left, right) = (self.nodes[parent].child[slot], self.nodes[parent].child[slot + 1]);
        let kept = self.nodes[left].len;
        if kept + self.nodes[right].len > MERGE_AT {
            return false;
        }
        let (from, to) = self.nodes.pair(right, left);
        from.move_tail(0, to);
        self.relink(left, kept as usize, level, bitmaps);
        self.nodes.put(right);
        self.restate(left);
        self.nodes[parent].remove(slot + 1);
        self.relink(parent, slot + 1, level + 1, bitmaps);
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
