//! Changes of summaries, from a leaf upwards as high as they show.

use super::Tree;
use super::tree_node::{node_of, same, slot_of};
use crate::summary::{Summary, eclipses, hides};
use wide::i16x8;

impl Tree<'_> {
    /// Adds a range without high lanes to the leaf at `up`: one maximum a level. A huge range hides
    /// it, as it must.
    #[inline]
    pub(crate) fn raise_low(&mut self, mut up: u32, low: i16x8) {
        loop {
            let node = &mut self.nodes[node_of(up)];
            let lanes = &mut node.lanes[0][slot_of(up)];
            let most = lanes.max(low);
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

    /// Adds `summary` to the leaf at `up`.
    #[inline(never)]
    pub(crate) fn raise(&mut self, mut up: u32, summary: Summary) {
        if summary.lanes.may_be_huge() {
            return self.raise_huge(up, summary);
        }
        // Where there is a huge range it hides the summary, as it must.
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            let high = node.lanes[1][slot].max(summary.lanes.high());
            if same(high, node.lanes[1][slot]) {
                return self.raise_low(up, summary.lanes.low());
            }
            node.lanes[1][slot] = high;
            node.lanes[0][slot] = node.lanes[0][slot].max(summary.lanes.low());
            up = node.up;
        }
    }

    #[inline(never)]
    fn raise_huge(&mut self, mut up: u32, summary: Summary) {
        let (mut below, mut raised) = (Summary::NONE, summary);
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            let old = node.summary(slot);
            if hides(old.excess, &summary) {
                return;
            }
            // Where a huge range hides all others, the summaries on the way up are the same.
            if !old.equals(below) {
                raised = old.max(summary);
            }
            if raised.equals(old) {
                return;
            }
            node.set_summary(slot, &raised);
            below = old;
            up = node.up;
        }
    }

    /// Makes `low` the low lanes of the leaf at `up`; of no lane, old or new, may a huge range be
    /// the reason.
    #[inline]
    pub(crate) fn set_low(&mut self, mut up: u32, mut low: i16x8) {
        loop {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            // A huge range under another child says it all.
            if same(node.lanes[0][slot], low) || node.excess[slot] != 0 {
                return;
            }
            node.lanes[0][slot] = low;
            up = node.up;
            if up == 0 {
                return;
            }
            low = node.most(0);
        }
    }

    /// Makes `summary` the summary of the leaf (or node) at `up`.
    #[inline(never)]
    pub(crate) fn set(&mut self, mut up: u32, summary: Summary) {
        if summary.lanes.may_be_huge() || self.nodes[node_of(up)].summary(slot_of(up)).lanes.may_be_huge() {
            return self.set_huge(up, summary);
        }
        let (mut low, mut high) = (summary.lanes.low(), summary.lanes.high());
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            if same(node.lanes[1][slot], high) {
                return self.set_low(up, low);
            }
            if node.excess[slot] != 0 {
                return;
            }
            (node.lanes[0][slot], node.lanes[1][slot]) = (low, high);
            (low, high) = (node.most(0), node.most(1));
            up = node.up;
        }
    }

    #[inline(never)]
    fn set_huge(&mut self, mut up: u32, mut summary: Summary) {
        while up != 0 {
            let node = &mut self.nodes[node_of(up)];
            let slot = slot_of(up);
            let old = node.summary(slot);
            if old.equals(summary) {
                return;
            }
            node.set_summary(slot, &Summary::NONE);
            let alone = node.excess.iter().fold(0, |all, excess| all | excess) == 0;
            node.set_summary(slot, &summary);
            let below = node_of(up);
            up = node.up;
            if up == 0 {
                return;
            }
            let above = self.nodes[node_of(up)].excess[slot_of(up)];
            if hides(above, &old) && hides(above, &summary) {
                return;
            }
            // The only huge range hides all others.
            if !(alone && eclipses(summary.excess)) {
                summary = self.nodes[below].total();
            }
        }
    }
}
