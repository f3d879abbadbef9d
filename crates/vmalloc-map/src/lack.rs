//! Memory that a change lacks: a map behind a lock asks its caller for it, who takes it with no
//! lock held.
//!
//! ```text
//!   lock ─ change: fails, changes nothing ─ lack ─ unlock ─ take memory ─ lock ─ supply ─ change ─ unlock
//! ```

#![forbid(unsafe_code)]

use crate::AreaMap;
use crate::bitmaps::Bitmaps;
use crate::metadata::OutOfMemory;
use crate::tree::Node;
use alloc::vec::Vec;
use bytemuck::allocation::try_zeroed_vec;

/// The memory that a change lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// An array of so many nodes of the tree.
    Nodes(usize),
    /// The row of a leaf found by its place.
    Dense(usize),
    /// The row of a leaf found by a number.
    Sparse(usize),
}

/// Nodes for the tree of a map, or those that it had before.
#[derive(Default)]
pub struct Nodes(Vec<Node>);

impl Lack {
    /// Takes the memory: rows are there then, and nodes are for [`AreaMap::supply`].
    ///
    /// # Errors
    /// [`OutOfMemory`]: the heap has none.
    pub fn take(self, bitmaps: &Bitmaps<'_>) -> Result<Nodes, OutOfMemory> {
        match self {
            Self::Nodes(count) => try_zeroed_vec(count).map(Nodes).map_err(|()| OutOfMemory),
            Self::Dense(index) => bitmaps.reach_dense(index).map(|()| Nodes::default()),
            Self::Sparse(index) => bitmaps.reach_sparse(index).map(|()| Nodes::default()),
        }
    }
}

impl AreaMap<'_> {
    /// Has a change that lacks memory fail, and note it.
    #[doc(hidden)]
    pub fn ask_for_memory(&mut self) {
        self.asks = true;
    }

    /// Takes the note of the memory that a change has lacked.
    #[doc(hidden)]
    #[inline]
    pub fn take_lack(&mut self) -> Option<Lack> {
        self.lack.take()
    }

    /// Goes on with more nodes. The caller drops what it has then, with no lock held.
    #[doc(hidden)]
    pub fn supply(&mut self, nodes: &mut Nodes) {
        self.tree.move_to(&mut nodes.0);
    }

    /// Returns whether a leaf at page `base` would take memory that the caller has to bring.
    pub(crate) fn is_lacking(&mut self, base: u64) -> bool {
        if !self.asks {
            return false;
        }
        let Self { bitmaps, spare, leaf_count, tree, .. } = self;
        let row = || bitmaps.lacks(bitmaps.group(base), *leaf_count, spare);
        self.lack = tree.lacks(1).map(Lack::Nodes).or_else(row);
        self.lack.is_some()
    }
}
