//! The invariants T1–T3, checked.

use super::Tree;
use super::node::{FAN, place};
use crate::area_map::room::Room;

impl Tree<'_> {
    /// Checks T1–T3 and calls `leaf` for each leaf in order; the first complaint ends it.
    pub(in crate::area_map) fn check(
        &self,
        leaf: &mut dyn FnMut(u32, u32, &Room) -> Option<&'static str>,
    ) -> Result<(), &'static str> {
        let mut nodes = 0;
        self.check_node(self.root, 0, self.height, &mut nodes, leaf)?;
        if nodes != self.nodes.in_use() { Err("T1: a node is lost") } else { Ok(()) }
    }

    fn check_node(
        &self,
        id: u32,
        up: u32,
        level: u32,
        nodes: &mut usize,
        leaf: &mut dyn FnMut(u32, u32, &Room) -> Option<&'static str>,
    ) -> Result<(), &'static str> {
        let node = &self.nodes[id];
        *nodes += 1;
        if node.up != up {
            return Err("T1: a node does not know its place");
        }
        if node.len == 0 {
            return Err("T3: an empty node");
        }
        for slot in 0..FAN {
            if slot >= node.len as usize {
                if !node.room(slot).equals(Room::NONE) {
                    return Err("T2: room beside an empty slot");
                }
            } else if level > 1 {
                if !self.nodes[node.child[slot]].summary().equals(node.room(slot)) {
                    return Err("T2: room beside a node differs from the node's");
                }
                self.check_node(node.child[slot], place(id, slot), level - 1, nodes, leaf)?;
            } else if let Some(complaint) = leaf(node.child[slot], place(id, slot), &node.room(slot)) {
                return Err(complaint);
            }
        }
        Ok(())
    }
}
