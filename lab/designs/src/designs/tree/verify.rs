//! The invariants, checked one by one.

use super::{Augment, Id, NIL, Side, Tree};

impl<A: Augment, T: Copy + Default> Tree<A, T> {
    /// Checks `I1` to `I4`.
    pub(in crate::designs) fn verify(&self) -> Result<(), String> {
        self.verify_arena()?;
        if self.red(self.root) || self.parent(self.root) != NIL {
            return Err("I2: the root is red or hangs under a node".into());
        }
        let mut ring = self.first();
        self.verify_below(self.root, &mut ring)?;
        if ring == NIL { Ok(()) } else { Err("I1: the ring goes on where the tree ends".into()) }
    }

    /// `I4`.
    fn verify_arena(&self) -> Result<(), String> {
        let (mut unused, mut id) = (0, self.unused);
        while id != NIL && unused < self.nodes.len() {
            unused += 1;
            id = self.next(id);
        }
        let nil = self.node(NIL);
        if nil.red || nil.sum != A::EMPTY || nil.child != [NIL; 2] {
            return Err("I4: nil is not what it was".into());
        }
        let used = self.ids().take(self.nodes.len()).count();
        if used == self.len && used + unused + 1 == self.nodes.len() {
            return Ok(());
        }
        Err(format!("I4: {used} of {} in use, {unused} unused of {}", self.len, self.nodes.len() - 1))
    }

    /// `I1` to `I3` of a subtree, whose lowest node has to be the one that the ring has now; its
    /// black height.
    fn verify_below(&self, node: Id, ring: &mut Id) -> Result<u32, String> {
        if node == NIL {
            return Ok(0);
        }
        let range = self.range(node);
        let wrong = |what: &str| Err(format!("{what} at {range:?}"));
        let [left, right] = self.node(node).child;
        let height = self.verify_below(left, ring)?;
        if *ring != node {
            return wrong("I1: tree and ring differ");
        }
        *ring = self.next(node);
        if *ring != NIL && (self.range(*ring).start() < range.end() || self.prev(*ring) != node) {
            return wrong("I1: the next one is not above");
        }
        if height != self.verify_below(right, ring)? {
            return wrong("I2: more black on one side");
        }
        for side in [Side::Left, Side::Right] {
            let child = self.child(node, side);
            if child != NIL && (self.parent(child) != node || (self.red(node) && self.red(child))) {
                return wrong("I2: a red child of a red node, or one that hangs elsewhere,");
            }
        }
        if self.node(node).sum != self.sum_at(node) {
            return wrong("I3: a wrong sum");
        }
        Ok(height + u32::from(!self.red(node)))
    }
}
