//! The invariants TREE-1–TREE-4, checked.

use super::Tree;
use super::tree_node::{FAN, place};
use crate::summary::Summary;

impl Tree<'_> {
    /// Checks TREE-1–TREE-4, but for the first pages of leaves, and calls `leaf` for each leaf in
    /// order; the first complaint ends it.
    pub(crate) fn check(
        &self,
        leaf: &mut dyn FnMut(u32, u32, &Summary) -> Option<&'static str>,
    ) -> Result<(), &'static str> {
        let mut nodes = 0;
        self.check_node(self.root, 0, self.height, &mut nodes, leaf)?;
        if nodes != self.nodes.in_use() { Err("TREE-1: a node is lost") } else { Ok(()) }
    }

    fn check_node(
        &self,
        id: u32,
        up: u32,
        level: u32,
        nodes: &mut usize,
        leaf: &mut dyn FnMut(u32, u32, &Summary) -> Option<&'static str>,
    ) -> Result<(), &'static str> {
        let node = &self.nodes[id];
        *nodes += 1;
        if node.up != up {
            return Err("TREE-1: a node does not know its place");
        }
        if node.len == 0 {
            return Err("TREE-3: an empty node");
        }
        for slot in 0..FAN {
            if slot >= node.len as usize {
                if !node.summary(slot).equals(Summary::NONE) {
                    return Err("TREE-2: summary beside an empty slot");
                }
            } else if level > 1 {
                if !self.nodes[node.child[slot]].total().equals(node.summary(slot)) {
                    return Err("TREE-2: summary beside a node differs from the node's");
                }
                if self.nodes[node.child[slot]].first[0] != node.first[slot] {
                    return Err("TREE-4: the first page beside a node differs from the node's");
                }
                self.check_node(node.child[slot], place(id, slot), level - 1, nodes, leaf)?;
            } else if let Some(complaint) = leaf(node.child[slot], place(id, slot), &node.summary(slot)) {
                return Err(complaint);
            }
        }
        Ok(())
    }
}
