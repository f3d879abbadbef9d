//! Ranges by address: a red-black tree and an address-ordered ring over the same nodes, in an
//! arena.
//!
//! ```text
//!              ┌────── [40,48) ──────┐                 tree: where a page belongs, in O(log n)
//!         [10,20)                 [90,95)
//!              └──[30,33)     ┌──[60,70)
//!
//!    ─nil─[10,20)─[30,33)─[40,48)─[60,70)─[90,95)─nil─ ring: the neighbours, in O(1)
//! ```
//!
//! * `I1` In the tree as in the ring, ranges ascend and do not overlap.
//! * `I2` A red node has black children, the root is black, and each way from a node down to a nil crosses the same number
//!   of black nodes: n nodes are at most 2 log₂(n + 1) deep.
//! * `I3` What an [`Augment`] sums up is right at every node.
//! * `I4` Every node of the arena is in the tree or in the chain of unused ones; node 0 is the nil of the tree, black and
//!   without sums, and the head of the ring.
//!
//! Change by change: a new node hangs where the descent for its start ended, red, so only the first
//! clause of `I2` can break; a leaving one is replaced by the next in the ring, so a black one can
//! be short on one way. [`balance`] repairs both with recolouring and at most three rotations. A
//! rotation turns two nodes, and the upper one then sums up what the lower one did:
//! `I3` costs one sum. Otherwise sums are corrected upwards only as far as they change.
//!
//! A node is named by its index: half of a pointer, and the arena is one piece of memory. What a
//! kernel takes from a cache of objects comes here from the chain of unused nodes.
//!
//! Red-black trees: Bayer 1972, Guibas and Sedgewick 1978. The paired list: the 2018 posting. Sums
//! as observers of the balancing: the usual augmented tree.

mod augment;
mod balance;
mod verify;
mod walk;

pub(super) use augment::{Augment, Largest, Plain};
use std::cell::Cell;
use vmalloc::PageRange;

/// A node's index in its arena.
pub(super) type Id = u32;

/// No node.
pub(super) const NIL: Id = 0;

/// Below and above in address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Where a range that is not in the tree belongs: under this node, where nothing hangs yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    parent: Id,
    side: Side,
}

#[derive(Clone, Copy, Debug)]
struct Node<S, T> {
    range: PageRange,
    sum: S,
    child: [Id; 2],
    parent: Id,
    /// In the ring, or the next unused node.
    next: Id,
    prev: Id,
    red: bool,
    tag: T,
}

/// See the [module](self). `A` is what nodes sum up, `T` what each range carries along.
#[derive(Debug)]
pub(super) struct Tree<A: Augment, T = ()> {
    nodes: Vec<Node<A::Sum, T>>,
    root: Id,
    unused: Id,
    len: usize,
    /// How many nodes searches for a place have looked at.
    looked: Cell<u64>,
}

impl<A: Augment, T: Copy + Default> Tree<A, T> {
    pub(super) fn new() -> Self {
        let nowhere = PageRange::new(0, 1).expect("not empty");
        let nil = Node { red: false, ..Node::new(nowhere, A::EMPTY, T::default()) };
        Self { nodes: vec![nil], root: NIL, unused: NIL, len: 0, looked: Cell::new(0) }
    }

    /// Notes that a search for a place looks at a node.
    #[inline]
    pub(super) fn look(&self) {
        self.looked.set(self.looked.get() + 1);
    }

    pub(super) fn looked(&self) -> u64 {
        self.looked.get()
    }

    /// Returns the bytes of the arena.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<A::Sum, T>>()
    }

    /// Puts a range at its spot.
    pub(super) fn insert(&mut self, spot: Spot, range: PageRange, tag: T) -> Id {
        let node = self.obtain(range, tag);
        self.hang(node, spot);
        let before = match spot.side {
            Side::Left => self.prev(spot.parent),
            Side::Right => spot.parent,
        };
        self.enter_ring(node, before);
        self.refresh(spot.parent);
        self.blacken_after_insert(node);
        self.len += 1;
        node
    }

    /// Puts a range between two neighbours, without a descent: one of the two has no child on that
    /// side.
    pub(super) fn insert_between(&mut self, below: Id, above: Id, range: PageRange, tag: T) -> Id {
        let spot = if above != NIL && self.child(above, Side::Left) == NIL {
            Spot { parent: above, side: Side::Left }
        } else {
            Spot { parent: below, side: Side::Right }
        };
        self.insert(spot, range, tag)
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, node: Id) -> PageRange {
        self.take_out(node);
        self.leave_ring(node);
        self.len -= 1;
        self.node_mut(node).next = self.unused;
        self.unused = node;
        self.range(node)
    }

    /// Moves the ends of a range, which stays between its neighbours.
    pub(super) fn reshape(&mut self, node: Id, range: PageRange) {
        self.node_mut(node).range = range;
        self.refresh(node);
    }

    fn obtain(&mut self, range: PageRange, tag: T) -> Id {
        let node = Node::new(range, A::sum(range, A::EMPTY, A::EMPTY), tag);
        let id = self.unused;
        if id == NIL {
            self.nodes.push(node);
            return Id::try_from(self.nodes.len() - 1).expect("fewer than 2^32 ranges");
        }
        self.unused = self.next(id);
        *self.node_mut(id) = node;
        id
    }

    fn hang(&mut self, node: Id, spot: Spot) {
        self.node_mut(node).parent = spot.parent;
        if spot.parent == NIL {
            self.root = node;
        } else {
            self.node_mut(spot.parent).child[spot.side as usize] = node;
        }
    }

    fn enter_ring(&mut self, node: Id, before: Id) {
        let after = self.next(before);
        self.node_mut(node).prev = before;
        self.node_mut(node).next = after;
        self.node_mut(before).next = node;
        self.node_mut(after).prev = node;
    }

    fn leave_ring(&mut self, node: Id) {
        let (before, after) = (self.prev(node), self.next(node));
        self.node_mut(before).next = after;
        self.node_mut(after).prev = before;
    }

    /// Corrects the sums from a node upwards, as far as they change.
    fn refresh(&mut self, mut node: Id) {
        while node != NIL {
            let sum = self.sum_at(node);
            if sum == self.node(node).sum {
                return;
            }
            self.node_mut(node).sum = sum;
            node = self.parent(node);
        }
    }

    /// Computes the sum of a node from its children.
    fn sum_at(&self, node: Id) -> A::Sum {
        let [left, right] = self.node(node).child.map(|child| self.node(child).sum);
        A::sum(self.range(node), left, right)
    }

    #[inline]
    fn node(&self, id: Id) -> &Node<A::Sum, T> {
        &self.nodes[id as usize]
    }

    #[inline]
    fn node_mut(&mut self, id: Id) -> &mut Node<A::Sum, T> {
        &mut self.nodes[id as usize]
    }
}

impl<S, T> Node<S, T> {
    const fn new(range: PageRange, sum: S, tag: T) -> Self {
        Self { range, sum, child: [NIL; 2], parent: NIL, next: NIL, prev: NIL, red: true, tag }
    }
}

#[cfg(test)]
mod tests;
