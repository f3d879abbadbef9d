//! Rotations and colours: `I2` of the [tree](super), without a word about ranges or sums.

use super::{Augment, Id, NIL, Side, Spot, Tree};

impl<A: Augment, T: Copy + Default> Tree<A, T> {
    /// A red node was hung under what may be a red node.
    pub(super) fn blacken_after_insert(&mut self, mut node: Id) {
        while self.red(self.parent(node)) {
            let parent = self.parent(node);
            // A red node is not the root.
            let grand = self.parent(parent);
            let side = self.side_of(parent);
            let uncle = self.child(grand, side.other());
            if self.red(uncle) {
                self.paint(parent, false);
                self.paint(uncle, false);
                self.paint(grand, true);
                node = grand;
            } else {
                self.turn_grandparent(node, side);
                break;
            }
        }
        self.paint(self.root, false);
    }

    /// Node and parent are red, the parent on this side of its own, the uncle is black.
    fn turn_grandparent(&mut self, node: Id, side: Side) {
        let mut parent = self.parent(node);
        let grand = self.parent(parent);
        if self.side_of(node) != side {
            self.rotate(parent, side);
            parent = node;
        }
        self.paint(parent, false);
        self.paint(grand, true);
        self.rotate(grand, side.other());
    }

    /// Takes a node out of the tree; it stays in the ring.
    pub(super) fn take_out(&mut self, node: Id) {
        let [left, right] = self.node(node).child;
        if left != NIL && right != NIL {
            self.take_out_by_next(node);
            return;
        }
        let (child, parent) = (if left == NIL { right } else { left }, self.parent(node));
        self.replace(node, child);
        self.refresh(parent);
        if !self.red(node) {
            self.blacken_after_remove(child, parent);
        }
    }

    /// The next node, which has no left child, leaves its place and takes this one's.
    fn take_out_by_next(&mut self, node: Id) {
        let next = self.next(node);
        let (child, was_red) = (self.child(next, Side::Right), self.red(next));
        let mut parent = self.parent(next);
        if parent == node {
            parent = next;
        } else {
            self.replace(next, child);
            self.adopt(next, Side::Right, self.child(node, Side::Right));
        }
        self.replace(node, next);
        self.adopt(next, Side::Left, self.child(node, Side::Left));
        self.node_mut(next).red = self.red(node);
        self.node_mut(next).sum = self.node(node).sum;
        // The first may end below `next`, whose own range is new at this place.
        self.refresh(parent);
        self.refresh(next);
        if !was_red {
            self.blacken_after_remove(child, parent);
        }
    }

    /// The ways through `node`, perhaps nil, under `parent` are one black short.
    fn blacken_after_remove(&mut self, mut node: Id, mut parent: Id) {
        while parent != NIL && !self.red(node) {
            let side = if self.child(parent, Side::Left) == node { Side::Left } else { Side::Right };
            let sibling = self.black_sibling(parent, side);
            if self.node(sibling).child.iter().any(|&nephew| self.red(nephew)) {
                self.turn_parent(parent, side, sibling);
                return;
            }
            self.paint(sibling, true);
            (node, parent) = (parent, self.parent(parent));
        }
        if node != NIL {
            self.paint(node, false);
        }
    }

    /// The other child of `parent`, after a turn that makes it a black one.
    fn black_sibling(&mut self, parent: Id, side: Side) -> Id {
        let sibling = self.child(parent, side.other());
        if !self.red(sibling) {
            return sibling;
        }
        self.paint(sibling, false);
        self.paint(parent, true);
        self.rotate(parent, side);
        self.child(parent, side.other())
    }

    /// The short way gets a black one more; the black sibling has a red child.
    fn turn_parent(&mut self, parent: Id, side: Side, mut sibling: Id) {
        let far = side.other();
        if !self.red(self.child(sibling, far)) {
            self.paint(self.child(sibling, side), false);
            self.paint(sibling, true);
            self.rotate(sibling, far);
            sibling = self.child(parent, far);
        }
        self.node_mut(sibling).red = self.red(parent);
        self.paint(parent, false);
        self.paint(self.child(sibling, far), false);
        self.rotate(parent, side);
    }

    /// A node goes down to a side; its child on the other side comes up and sums up what the node
    /// did.
    fn rotate(&mut self, node: Id, side: Side) {
        let up = self.child(node, side.other());
        let inner = self.child(up, side);
        self.replace(node, up);
        self.adopt(node, side.other(), inner);
        self.adopt(up, side, node);
        self.node_mut(up).sum = self.node(node).sum;
        self.node_mut(node).sum = self.sum_at(node);
    }

    /// Hangs `new`, perhaps nil, where `old` hangs.
    fn replace(&mut self, old: Id, new: Id) {
        let spot = Spot { parent: self.parent(old), side: self.side_of(old) };
        if new != NIL {
            self.hang(new, spot);
        } else if spot.parent == NIL {
            self.root = NIL;
        } else {
            self.node_mut(spot.parent).child[spot.side as usize] = NIL;
        }
    }

    fn adopt(&mut self, parent: Id, side: Side, child: Id) {
        self.node_mut(parent).child[side as usize] = child;
        if child != NIL {
            self.node_mut(child).parent = parent;
        }
    }

    #[inline]
    pub(super) fn red(&self, node: Id) -> bool {
        self.node(node).red
    }

    fn paint(&mut self, node: Id, red: bool) {
        self.node_mut(node).red = red;
    }
}
