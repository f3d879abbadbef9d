//! Where the words of the bitmaps lie: for an outline of the space.

use super::{Bitmaps, LEAVES, Leaf, Notes, RowArray};
use core::ptr::from_ref;

impl Bitmaps<'_> {
    /// The places of the tables in an array of leaves, and their sizes.
    pub const ROW_ARRAY: [usize; 6] = RowArray::<Leaf, LEAVES>::FIELDS;

    /// The places of the tables in an array of notes, and their sizes.
    pub const NOTES: [usize; 6] = Notes::FIELDS;

    /// Returns the address of the pointer to the notes.
    pub fn notes_place(&self) -> usize {
        from_ref(&self.notes).addr()
    }

    /// Returns the first page of the span and of group 0.
    pub fn first_pages(&self) -> [u64; 2] {
        [self.start, self.base]
    }

    /// Returns the addresses of the end, the version, the pointer to sparse leaves and the array of
    /// dense ones, and the address and number of the leaves that lie in one piece.
    pub fn places(&self) -> [usize; 6] {
        let [flat, flat_len] = self.dense.flat_part();
        let (end, version) = (from_ref(&self.end).addr(), from_ref(&self.version).addr());
        [end, version, from_ref(&self.sparse).addr(), from_ref(&self.dense).addr(), flat, flat_len]
    }
}
