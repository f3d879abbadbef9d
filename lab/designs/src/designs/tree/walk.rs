//! Finding and walking.

use super::{Augment, Id, Largest, NIL, Side, Spot, Tree};
use std::iter::successors;
use vmalloc::PageRange;

impl<A: Augment, T: Copy + Default> Tree<A, T> {
    /// The lowest range.
    #[inline]
    pub(in crate::designs) fn first(&self) -> Id {
        self.next(NIL)
    }

    /// The range above; the first after nil.
    #[inline]
    pub(in crate::designs) fn next(&self, node: Id) -> Id {
        self.node(node).next
    }

    /// The range below; the last before nil.
    #[inline]
    pub(in crate::designs) fn prev(&self, node: Id) -> Id {
        self.node(node).prev
    }

    /// The pages of a node.
    #[inline]
    pub(in crate::designs) fn range(&self, node: Id) -> PageRange {
        self.node(node).range
    }

    /// Returns the tag of a node.
    #[inline]
    pub(in crate::designs) fn tag(&self, node: Id) -> T {
        self.node(node).tag
    }

    /// To change what it carries.
    #[inline]
    pub(in crate::designs) fn tag_mut(&mut self, node: Id) -> &mut T {
        &mut self.node_mut(node).tag
    }

    /// The range that starts at a page.
    pub(in crate::designs) fn at(&self, start: u64) -> Option<Id> {
        let node = self.floor(start);
        (node != NIL && self.range(node).start() == start).then_some(node)
    }

    /// The highest range that starts at a page or below it, or nil.
    pub(in crate::designs) fn floor(&self, page: u64) -> Id {
        let (mut node, mut floor) = (self.root, NIL);
        while node != NIL {
            let side = if self.range(node).start() <= page { Side::Right } else { Side::Left };
            if side == Side::Right {
                floor = node;
            }
            node = self.child(node, side);
        }
        floor
    }

    /// Where a range that starts at a page that no range covers belongs.
    pub(in crate::designs) fn spot(&self, start: u64) -> Spot {
        let mut spot = Spot { parent: NIL, side: Side::Right };
        let mut node = self.root;
        while node != NIL {
            let side = if self.range(node).start() <= start { Side::Right } else { Side::Left };
            spot = Spot { parent: node, side };
            node = self.child(node, side);
        }
        spot
    }

    /// The ranges below and above a spot: its parent is one of them, and the ring knows the other.
    pub(in crate::designs) fn around(&self, spot: Spot) -> (Id, Id) {
        match spot.side {
            Side::Left => (self.prev(spot.parent), spot.parent),
            Side::Right => (spot.parent, self.next(spot.parent)),
        }
    }

    /// All, in address order.
    pub(in crate::designs) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        let some = |id: Id| (id != NIL).then_some(id);
        successors(some(self.first()), move |&id| some(self.next(id)))
    }

    /// Their pages, in address order.
    pub(in crate::designs) fn ranges(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.ids().map(|id| self.range(id))
    }

    #[inline]
    pub(super) fn child(&self, node: Id, side: Side) -> Id {
        self.node(node).child[side as usize]
    }

    #[inline]
    pub(super) fn parent(&self, node: Id) -> Id {
        self.node(node).parent
    }

    /// On which side of its parent a node hangs.
    #[inline]
    pub(super) fn side_of(&self, node: Id) -> Side {
        if self.child(self.parent(node), Side::Left) == node { Side::Left } else { Side::Right }
    }
}

impl<T: Copy + Default> Tree<Largest, T> {
    /// The lowest range of so many pages, or nil: left if the left subtree has one, else this node,
    /// else right.
    pub(in crate::designs) fn lowest_of(&self, pages: u64) -> Id {
        self.lowest_below(self.root, pages)
    }

    /// The lowest range of so many pages that starts above `page`, or nil.
    ///
    /// The ranges above `page` are the nodes where the descent to it turned left, each with its
    /// right subtree: bottom up they ascend.
    pub(in crate::designs) fn lowest_above(&self, page: u64, pages: u64) -> Id {
        let mut spot = self.spot(page);
        while spot.parent != NIL {
            self.look();
            let node = spot.parent;
            if spot.side == Side::Left {
                if self.range(node).len() >= pages {
                    return node;
                }
                let right = self.child(node, Side::Right);
                if self.node(right).sum >= pages {
                    return self.lowest_below(right, pages);
                }
            }
            spot = Spot { parent: self.parent(node), side: self.side_of(node) };
        }
        NIL
    }

    fn lowest_below(&self, mut node: Id, pages: u64) -> Id {
        if self.node(node).sum < pages {
            return NIL;
        }
        loop {
            self.look();
            let left = self.child(node, Side::Left);
            if self.node(left).sum >= pages {
                node = left;
            } else if self.range(node).len() >= pages {
                return node;
            } else {
                node = self.child(node, Side::Right);
            }
        }
    }
}
