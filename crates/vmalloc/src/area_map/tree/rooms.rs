//! Changes of rooms, from a leaf upwards as far as they show.

use super::Tree;
use super::node::{node_of, same, slot_of};
use crate::area_map::room::{Room, eclipses};
use wide::i16x8;

impl Tree<'_> {
    /// Adds a range without far lanes to the leaf at `up`: one maximum a level. A huge range hides it, as it must.
    #[inline]
    pub(in crate::area_map) fn raise_near(&mut self, mut up: u32, near: i16x8) {
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
    pub(in crate::area_map) fn raise(&mut self, mut up: u32, room: Room) {
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
    pub(in crate::area_map) fn set_near(&mut self, mut up: u32, mut near: i16x8) {
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
    pub(in crate::area_map) fn set(&mut self, mut up: u32, room: Room) {
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
}
