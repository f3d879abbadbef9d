//! Freeing, and coalescing at once.
//!
//! ```text
//!   before │ area │ behind          free neighbours join: the area's start bit goes if `before` is free,
//!   ░░░░░░░│██████│░░░░░░  ──►  ░   that of `behind` if that is free; what is left is one range
//! ```
//!
//! Freeing only ever removes starts, and so needs no memory.

use super::AreaMap;
use super::leaf::Leaf;
use super::room::{Near, Room};
use super::storage::Storage;
use crate::addr::PageRange;
use crate::error::FreeError;

/// The free range that an area becomes part of: the leaf it starts in, and its first page.
struct Home {
    leaf: u32,
    start: u64,
}

impl<S: Storage> AreaMap<S> {
    /// Frees the busy area that starts at `start`; its pages. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`FreeError`]; nothing is changed.
    #[inline]
    pub fn free(&mut self, start: u64) -> Result<PageRange, FreeError> {
        let (leaf, bit) = (self.leaf_of(start), Leaf::bit(start));
        let record = &mut self.leaves[leaf];
        if !record.is_busy(bit) {
            return Err(self.why_not_busy(start));
        }
        match record.free_inside(bit) {
            Some(freed) => {
                let area = PageRange::of(start, record.page(freed.end));
                let up = record.up;
                self.free_pages += area.len();
                self.tree.raise_near(up, Near::of(freed.free_start, freed.free_end));
                Ok(area)
            }
            None => Ok(self.give_back(leaf, bit)),
        }
    }

    /// Takes the busy area that starts at `start` out of use, without freeing its pages yet. O(1).
    ///
    /// # Errors
    /// [`FreeError`]; nothing is changed.
    #[inline]
    pub fn retire(&mut self, start: u64) -> Result<PageRange, FreeError> {
        let (leaf, bit) = self.busy_at(start)?;
        self.leaves[leaf].clear_busy(bit);
        Ok(PageRange::of(start, self.end_of(leaf, bit)))
    }

    /// Hands the retired area that starts at `start` out again. O(1).
    ///
    /// # Errors
    /// [`FreeError`]; `WrongKind` when it is busy. Nothing is changed.
    #[inline]
    pub fn revive(&mut self, start: u64) -> Result<PageRange, FreeError> {
        let (leaf, bit) = self.retired_at(start)?;
        self.leaves[leaf].set_busy(bit);
        Ok(PageRange::of(start, self.end_of(leaf, bit)))
    }

    /// Frees the retired area that starts at `start`. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`FreeError`]; `WrongKind` when it is busy. Nothing is changed.
    #[inline]
    pub fn release(&mut self, start: u64) -> Result<PageRange, FreeError> {
        let (leaf, bit) = self.retired_at(start)?;
        Ok(self.give_back(leaf, bit))
    }

    #[inline]
    fn busy_at(&self, start: u64) -> Result<(u32, u32), FreeError> {
        let leaf = self.leaf_of(start);
        let bit = Leaf::bit(start);
        // I3: only the start of an area is busy.
        if self.leaves[leaf].is_busy(bit) { Ok((leaf, bit)) } else { Err(self.why_not_busy(start)) }
    }

    #[cold]
    fn why_not_busy(&self, start: u64) -> FreeError {
        match self.area_at(start) {
            Ok(_) => FreeError::AlreadyFreed { page: start },
            Err(error) => error,
        }
    }

    #[inline]
    fn retired_at(&self, start: u64) -> Result<(u32, u32), FreeError> {
        let (leaf, bit) = self.area_at(start)?;
        if self.leaves[leaf].is_busy(bit) {
            return Err(FreeError::WrongKind { page: start });
        }
        Ok((leaf, bit))
    }

    /// Makes the area at `bit` of `leaf` free, whatever is beside it.
    #[inline(never)]
    fn give_back(&mut self, leaf: u32, bit: u32) -> PageRange {
        let record = &mut self.leaves[leaf];
        let start = record.page(bit);
        record.area_to_free(bit);
        let behind = record.next_start(bit);
        let before = record.start_before(bit);

        // Join the free range before, if there is one.
        let mut home = Home { leaf, start };
        match before {
            Some(before) if record.is_used(before) => {}
            Some(before) => {
                record.join_free(bit);
                home.start = record.page(before);
            }
            None => home = self.join_before(leaf, bit),
        }
        // Join the free range behind, if there is one.
        let (end, free_end, other) = match behind {
            Some(next) => {
                let record = &mut self.leaves[leaf];
                let end = record.page(next);
                if record.is_used(next) {
                    (end, end, 0)
                } else {
                    record.join_free(next);
                    (end, self.end_of(leaf, next), leaf)
                }
            }
            None => self.join_behind(leaf),
        };
        let area = PageRange::of(start, end);
        self.free_pages += area.len();
        // What was joined into `home` from behind is dominated at every alignment, so raising is exact.
        let up = self.leaves[home.leaf].up;
        match self.leaves[home.leaf].near_bits(home.start, free_end) {
            Some((start, end)) => self.tree.raise_near(up, Near::of(start, end)),
            None => self.tree.raise(up, Room::of(home.start, free_end)),
        }
        if leaf != home.leaf || (other != home.leaf && other != 0) {
            self.settle(leaf, home.leaf, other);
        }
        area
    }

    /// Joins what starts at `bit` of `leaf`, the first start there, to a free range that starts in the leaf before.
    #[inline]
    fn join_before(&mut self, leaf: u32, bit: u32) -> Home {
        let prev = self.leaves[leaf].prev;
        match self.leaves[prev].last_start() {
            Some(before) if !self.leaves[prev].is_used(before) => {
                self.leaves[leaf].join_free(bit);
                Home { leaf: prev, start: self.leaves[prev].page(before) }
            }
            _ => Home { leaf, start: self.leaves[leaf].page(bit) },
        }
    }

    /// Joins a free range that starts in the leaf behind `leaf` to what ends there: where that ended, where it
    /// ends now, and the leaf that lost a start.
    #[inline]
    fn join_behind(&mut self, leaf: u32) -> (u64, u64, u32) {
        let next = self.leaves[leaf].next;
        let Some(first) = self.leaves[next].first_start() else {
            return (self.span.end(), self.span.end(), 0);
        };
        let end = self.leaves[next].page(first);
        if self.leaves[next].is_used(first) {
            return (end, end, 0);
        }
        self.leaves[next].join_free(first);
        (end, self.end_of(next, first), next)
    }

    /// After a join across leaves: the rooms of those that lost a start, and the leaves that lost their last.
    #[inline]
    fn settle(&mut self, leaf: u32, home: u32, other: u32) {
        if other != 0 && other != home && other != leaf {
            self.shrink_room(other);
        }
        if leaf != home {
            self.shrink_room(leaf);
        }
    }

    /// Brings the room of `leaf` up to date after it lost a start; it may have lost its last.
    #[inline]
    fn shrink_room(&mut self, leaf: u32) {
        if self.leaves[leaf].is_empty() { self.drop_leaf(leaf) } else { self.update_room(leaf) }
    }

    #[cold]
    pub(super) fn drop_leaf(&mut self, leaf: u32) {
        let Leaf { base, up, prev, next, .. } = self.leaves[leaf];
        self.tree.remove(up, &mut self.leaves);
        self.directory.remove(base);
        self.leaves[prev].next = next;
        if next != 0 {
            self.leaves[next].prev = prev;
        }
        self.leaves.put(leaf);
    }
}
