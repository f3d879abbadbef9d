//! The tree over the leaves: a B+tree without keys, with the [`Room`] of each child beside it.
//!
//! ```text
//!                  ┌ room ┬ room ┬ room ┐                     room = what the free ranges that
//!                  └──┬───┴──┬───┴──┬───┘                            start below here can take
//!          ┌──────────┘      │      └───────────┐
//!    ┌ room ┬ room ┐   ┌ room ┬ … ┐       ┌ room ┬ … ┐
//!    └──┬───┴──┬───┘   └──┬───┴───┘       └──┬───┴───┘
//!     leaf   leaf       leaf   …           leaf   …          in address order
//! ```
//!
//! Nobody searches here by address (the directory does that), so there are no separators to keep right:
//! children are ordered, each knows its place (`up`), and that is all.
//!
//! Invariants:
//! - T1 children are in address order, and `up` of each names its node and slot.
//! - T2 the room beside a child is exactly the room of what lies below it; empty slots have none.
//! - T3 no node but the root is empty, and two neighbours under one parent hold more than twelve children
//!   together once either has lost one: the height is logarithmic in the number of leaves.
//!
//! A change sets the room of one child and walks up until a room comes out as it was. Growth
//! ([`Tree::raise`]) needs one maximum a level; anything else ([`Tree::set`]) the maximum of sixteen.

use super::Steps;
use super::leaf::Leaf;
use super::room::{Lanes, Query, Room, eclipses};
use super::storage::{Linked, OutOfMemory, Pool, Storage};
use bytemuck::{Pod, Zeroable};
use wide::{i8x16, i16x8};

const FAN_SHIFT: u32 = 4;
/// Children of a node. Eight take as many instructions, but a tenth more time and memory: the maximum over a node
/// grows with it, the height shrinks.
pub(super) const FAN: usize = 1 << FAN_SHIFT;
/// Two neighbours with this many children or fewer become one.
const MERGE_AT: u32 = 12;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Node {
    /// The near lanes of all children, then the far ones: most walks need only the near.
    lanes: [[i16x8; FAN]; 2],
    excess: [u64; FAN],
    child: [u32; FAN],
    /// Where the parent holds this node, as in a leaf; 0 for the root.
    up: u32,
    len: u32,
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

/// A place in the tree: node and slot in one word.
#[inline]
fn place(node: u32, slot: usize) -> u32 {
    node << FAN_SHIFT | slot as u32
}

#[inline]
fn node_of(up: u32) -> u32 {
    up >> FAN_SHIFT
}

#[inline]
fn slot_of(up: u32) -> usize {
    up as usize & (FAN - 1)
}

/// One comparison of all bytes.
#[inline]
fn same(a: i16x8, b: i16x8) -> bool {
    let (a, b): (i8x16, i8x16) = (bytemuck::cast(a), bytemuck::cast(b));
    a.simd_eq(b).all()
}

impl Node {
    #[inline]
    fn room(&self, slot: usize) -> Room {
        Room { lanes: Lanes::new(self.lanes[0][slot], self.lanes[1][slot]), excess: self.excess[slot] }
    }

    #[inline]
    fn set_room(&mut self, slot: usize, room: &Room) {
        self.lanes[0][slot] = room.lanes.near();
        self.lanes[1][slot] = room.lanes.far();
        self.excess[slot] = room.excess;
    }

    /// The room of all children together.
    #[inline]
    fn summary(&self) -> Room {
        let lanes = Lanes::new(self.most(0), self.most(1));
        if lanes.may_be_huge() { self.huge_summary() } else { Room { lanes, excess: 0 } }
    }

    /// The maximum of the near (0) or far (1) lanes of all children.
    #[inline]
    fn most(&self, half: usize) -> i16x8 {
        let lanes = &self.lanes[half];
        lanes[1..].iter().fold(lanes[0], |most, &lanes| most.max(lanes))
    }

    #[cold]
    fn huge_summary(&self) -> Room {
        (1..FAN).fold(self.room(0), |sum, slot| sum.max(self.room(slot)))
    }

    /// The first child from slot `from` on whose room answers the query with yes.
    #[inline]
    fn first_match(&self, from: usize, query: &Query) -> Option<usize> {
        match query.direct() {
            Some(need) => self.first_direct(from, query.lane, need),
            None => (from..FAN).find(|&slot| query.matches(&self.room(slot))),
        }
    }

    /// The same where one lane decides.
    #[inline]
    fn first_direct(&self, from: usize, lane: usize, need: i16) -> Option<usize> {
        let halves: &[[[i16; 8]; FAN]; 2] = bytemuck::cast_ref(&self.lanes);
        let half = &halves[(lane / 8) & 1];
        (from..FAN).find(|&slot| half[slot][lane & 7] >= need)
    }

    fn insert(&mut self, slot: usize, child: u32, room: &Room) {
        let len = self.len as usize;
        self.lanes.iter_mut().for_each(|half| half.copy_within(slot..len, slot + 1));
        self.excess.copy_within(slot..len, slot + 1);
        self.child.copy_within(slot..len, slot + 1);
        self.child[slot] = child;
        self.set_room(slot, room);
        self.len += 1;
    }

    fn remove(&mut self, slot: usize) {
        let len = self.len as usize;
        self.lanes.iter_mut().for_each(|half| half.copy_within(slot + 1..len, slot));
        self.excess.copy_within(slot + 1..len, slot);
        self.child.copy_within(slot + 1..len, slot);
        self.truncate(len - 1);
    }

    /// Moves the children from `from` on to the end of `to`.
    fn move_tail(&mut self, from: usize, to: &mut Self) {
        for slot in from..self.len as usize {
            to.insert(to.len as usize, self.child[slot], &self.room(slot));
        }
        self.truncate(from);
    }

    fn truncate(&mut self, len: usize) {
        for slot in len..FAN {
            self.set_room(slot, &Room::NONE);
            self.child[slot] = 0;
        }
        self.len = len as u32;
    }
}

/// How a full node makes place.
#[derive(Clone, Copy)]
enum Split {
    /// Half of the children move: an insertion somewhere.
    Half,
    /// None move: an insertion behind the last leaf of all, so that a growing space fills its nodes.
    Append,
}

pub(super) struct Tree<S: Storage> {
    nodes: Pool<Node, S>,
    root: u32,
    /// Levels of nodes: 1 when the root's children are leaves.
    height: u32,
}

impl<S: Storage> Tree<S> {
    /// A tree with one leaf.
    pub(super) fn new(
        nodes: S::Items<Node>,
        leaf: u32,
        leaves: &mut Pool<Leaf, S>,
    ) -> Result<Self, OutOfMemory> {
        let mut nodes = Pool::new(nodes)?;
        nodes.ensure(1)?;
        let root = nodes.take();
        let mut tree = Self { nodes, root, height: 1 };
        tree.nodes[root].insert(0, leaf, &Room::NONE);
        tree.relink(root, 0, 1, leaves);
        Ok(tree)
    }

    /// The room of everything.
    pub(super) fn room(&self) -> Room {
        self.nodes[self.root].summary()
    }

    /// The first leaf that the query says yes to.
    #[inline]
    pub(super) fn first(&self, query: &Query, steps: &Steps) -> Option<u32> {
        match query.direct() {
            Some(need) => self.first_direct(query.lane, need, steps),
            None => self.descend(self.root, self.height, query, steps),
        }
    }

    /// The same where one lane decides: the first leaf that has at least `need` in it.
    #[inline]
    pub(super) fn first_direct(&self, lane: usize, need: i16, steps: &Steps) -> Option<u32> {
        let mut child = self.root;
        for _ in 0..self.height {
            steps.tick();
            let node = &self.nodes[child];
            child = node.child[node.first_direct(0, lane, need)? & (FAN - 1)];
        }
        Some(child)
    }

    /// The first leaf behind the one at `up` that the query says yes to.
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

    /// Adds a range without far lanes to the leaf at `up`: one maximum a level. A huge range hides it, as it must.
    #[inline]
    pub(super) fn raise_near(&mut self, mut up: u32, near: i16x8) {
        loop {
            let node = &mut self.nodes[node_of(up)];
            let lanes = &mut node.lanes[0][slot_of(up)];
            let most = lanes.max(near);
            if same(most, *lanes) {
                return;
            }
            *lanes = most;
            up = node.up;
            if up == 0 {
                return;
            }
        }
    }

    /// Adds `room` to the leaf at `up`.
    #[inline(never)]
    pub(super) fn raise(&mut self, mut up: u32, room: Room) {
        if room.lanes.may_be_huge() {
            return self.raise_huge(up, room);
        }
        // Where there is a huge range it hides the room, as it must.
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            let far = node.lanes[1][slot].max(room.lanes.far());
            if same(far, node.lanes[1][slot]) {
                return self.raise_near(up, room.lanes.near());
            }
            node.lanes[1][slot] = far;
            node.lanes[0][slot] = node.lanes[0][slot].max(room.lanes.near());
            up = node.up;
        }
    }

    #[inline(never)]
    fn raise_huge(&mut self, mut up: u32, room: Room) {
        let (mut below, mut raised) = (Room::NONE, room);
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            let old = node.room(slot);
            // Where a huge range hides all others, the rooms on the way up are the same.
            if !old.equals(below) {
                raised = old.max(room);
            }
            if raised.equals(old) {
                return;
            }
            node.set_room(slot, &raised);
            below = old;
            up = node.up;
        }
    }

    /// Makes `near` the near lanes of the leaf at `up`; of no lane, old or new, may a huge range be the reason.
    #[inline]
    pub(super) fn set_near(&mut self, mut up: u32, mut near: i16x8) {
        loop {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            // A huge range under another child says it all.
            if same(node.lanes[0][slot], near) || node.excess[slot] != 0 {
                return;
            }
            node.lanes[0][slot] = near;
            up = node.up;
            if up == 0 {
                return;
            }
            near = node.most(0);
        }
    }

    /// Makes `room` the room of the leaf (or node) at `up`.
    #[inline(never)]
    pub(super) fn set(&mut self, mut up: u32, room: Room) {
        if room.lanes.may_be_huge() || self.nodes[node_of(up)].room(slot_of(up)).lanes.may_be_huge() {
            return self.set_huge(up, room);
        }
        let (mut near, mut far) = (room.lanes.near(), room.lanes.far());
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            if same(node.lanes[1][slot], far) {
                return self.set_near(up, near);
            }
            if node.excess[slot] != 0 {
                return;
            }
            (node.lanes[0][slot], node.lanes[1][slot]) = (near, far);
            (near, far) = (node.most(0), node.most(1));
            up = node.up;
        }
    }

    #[inline(never)]
    fn set_huge(&mut self, mut up: u32, mut room: Room) {
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            if node.room(slot).equals(room) {
                return;
            }
            node.set_room(slot, &Room::NONE);
            let alone = node.excess.iter().fold(0, |all, excess| all | excess) == 0;
            node.set_room(slot, &room);
            // The only huge range hides all others.
            if !(alone && eclipses(room.excess)) {
                room = node.summary();
            }
            up = node.up;
        }
    }

    /// Makes sure that the next `leaves` calls of [`insert_after`](Self::insert_after) find the nodes they need:
    /// a split at every level and a new root.
    pub(super) fn ensure(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.nodes.ensure(leaves * (self.height as usize + 2))
    }

    /// Enters `leaf` behind the leaf `before`; its room is none so far.
    pub(super) fn insert_after(&mut self, before: u32, leaf: u32, leaves: &mut Pool<Leaf, S>) {
        let split = if leaves[leaf].next == 0 { Split::Append } else { Split::Half };
        self.insert(leaves[before].up, leaf, &Room::NONE, 0, split, leaves);
    }

    /// Enters `child` behind the place `after`, `level` levels above the leaves.
    fn insert(
        &mut self,
        after: u32,
        child: u32,
        room: &Room,
        level: u32,
        split: Split,
        leaves: &mut Pool<Leaf, S>,
    ) {
        let (mut node, mut slot) = (node_of(after), slot_of(after) + 1);
        if self.nodes[node].len as usize == FAN {
            let kept = match split {
                Split::Append if slot == FAN => FAN,
                _ => FAN / 2,
            };
            let twin = self.split(node, kept, level, split, leaves);
            if slot > kept || kept == FAN {
                (node, slot) = (twin, slot - kept);
            }
        }
        self.nodes[node].insert(slot, child, room);
        self.relink(node, slot, level + 1, leaves);
        self.refresh(node);
    }

    /// Moves the children from `kept` on into a new node behind `node`.
    fn split(&mut self, node: u32, kept: usize, level: u32, split: Split, leaves: &mut Pool<Leaf, S>) -> u32 {
        let twin = self.nodes.take();
        let mut moved = self.nodes[twin];
        self.nodes[node].move_tail(kept, &mut moved);
        self.nodes[twin] = moved;
        self.relink(twin, 0, level + 1, leaves);
        if node == self.root {
            self.grow_root();
        }
        self.refresh(node);
        let room = self.nodes[twin].summary();
        self.insert(self.nodes[node].up, twin, &room, level + 1, split, leaves);
        twin
    }

    /// Puts a new root above the old one.
    fn grow_root(&mut self) {
        let old = self.root;
        self.root = self.nodes.take();
        self.height += 1;
        let room = self.nodes[old].summary();
        let root = self.root;
        self.nodes[root].insert(0, old, &room);
        self.nodes[old].up = place(root, 0);
    }

    /// Takes the leaf at `up` out.
    pub(super) fn remove(&mut self, up: u32, leaves: &mut Pool<Leaf, S>) {
        self.remove_at(up, 0, leaves);
        while self.height > 1 && self.nodes[self.root].len == 1 {
            let old = self.root;
            self.root = self.nodes[old].child[0];
            let root = self.root;
            self.nodes[root].up = 0;
            self.height -= 1;
            self.nodes.put(old);
        }
    }

    fn remove_at(&mut self, up: u32, level: u32, leaves: &mut Pool<Leaf, S>) {
        let (node, slot) = (node_of(up), slot_of(up));
        self.nodes[node].remove(slot);
        self.relink(node, slot, level + 1, leaves);
        if node == self.root {
            return;
        }
        let node_up = self.nodes[node].up;
        if self.nodes[node].len == 0 {
            self.nodes.put(node);
            return self.remove_at(node_up, level + 1, leaves);
        }
        self.refresh(node);
        let (parent, slot) = (node_of(node_up), slot_of(node_up));
        if !self.merge_with_next(parent, slot, level, leaves) && slot > 0 {
            self.merge_with_next(parent, slot - 1, level, leaves);
        }
    }

    /// Makes the children `slot` and `slot + 1` of `parent` one, if they are small.
    fn merge_with_next(&mut self, parent: u32, slot: usize, level: u32, leaves: &mut Pool<Leaf, S>) -> bool {
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
        self.relink(left, kept as usize, level + 1, leaves);
        self.nodes.put(right);
        // First out, then up: while both stand, no room above is smaller than it should be.
        self.remove_at(place(parent, slot + 1), level + 1, leaves);
        self.refresh(left);
        true
    }

    /// Tells the children of `node` from `slot` on where they are; `level` is the node's, 1 above leaves.
    fn relink(&mut self, node: u32, slot: usize, level: u32, leaves: &mut Pool<Leaf, S>) {
        for slot in slot..self.nodes[node].len as usize {
            let child = self.nodes[node].child[slot];
            let up = place(node, slot);
            if level == 1 {
                leaves[child].up = up;
            } else {
                self.nodes[child].up = up;
            }
        }
    }

    /// Brings the rooms above `node` up to date.
    fn refresh(&mut self, node: u32) {
        let up = self.nodes[node].up;
        if up != 0 {
            let room = self.nodes[node].summary();
            self.set(up, room);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    pub(super) fn height(&self) -> u32 {
        self.height
    }

    /// Checks T1–T3 and calls `leaf` for each leaf in order; the first complaint ends it.
    pub(super) fn check(
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
