//! Rows of leaves that are not there yet: what a leaf would lack, and the row made ahead.

use super::{Bitmaps, GROUPS_PER_LEAF, LEAVES, SPARSE, Spare};
use crate::lack::Lack;
use crate::metadata::OutOfMemory;

impl Bitmaps<'_> {
    /// Makes sure that there is a record for the dense leaf of that index.
    pub(crate) fn reach_dense(&self, index: usize) -> Result<(), OutOfMemory> {
        self.dense.reach(index)
    }

    /// Returns the index of a group's dense leaf, and whether memory is worth it. There are `count`
    /// leaves already.
    pub(super) fn dense_index(&self, group: u64, count: usize) -> Option<(usize, bool)> {
        let index = u32::try_from(group).ok().filter(|&group| group < SPARSE - 1)? as usize;
        Some((index, index < LEAVES + count * GROUPS_PER_LEAF && !self.is_lent()))
    }

    /// Returns the row of leaves that [`number`](Self::number) would make.
    pub(crate) fn lacks(&self, group: u64, count: usize, spare: &Spare) -> Option<Lack> {
        match self.dense_index(group, count) {
            Some((index, _)) if self.dense.get(index).is_some() => None,
            Some((index, true)) => Some(Lack::Dense(index)),
            _ if spare.free != 0 || self.is_lent() => None,
            _ => {
                let index = spare.last as usize;
                let is_there = self.sparse.get().is_some_and(|sparse| sparse.get(index).is_some());
                if is_there { None } else { Some(Lack::Sparse(index)) }
            }
        }
    }
}
