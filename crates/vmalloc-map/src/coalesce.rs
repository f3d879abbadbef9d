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
use super::summary::{Low, Summary};
use crate::NoArea;
use crate::PageRange;

impl AreaMap<'_> {
    /// Frees the busy area that starts at `start`; its pages. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`NoArea`]; nothing is changed.
    #[inline]
    pub fn free(&mut self, start: u64) -> Result<PageRange, NoArea> {
        let bit = Leaf::bit(start);
        let Some((_, record)) = self.bitmaps.dense(start) else { return self.free_sparse(start) };
        if !record.is_busy(bit) {
            return Err(self.why_not_busy(start));
        }
        match record.free_inside(bit) {
            Some(freed) => {
                let area = PageRange::of(start, record.page(freed.end));
                let up = record.up.get();
                self.free_pages += area.len();
                self.areas -= 1;
                self.tree.raise_low(up, Low::of(freed.free_start, freed.free_end));
                Ok(area)
            }
            None => {
                record.clear_busy(bit);
                Ok(self.give_back_dense(start))
            }
        }
    }

    /// Frees as [`free`](Self::free), in a leaf that takes a search to find.
    #[inline(never)]
    fn free_sparse(&mut self, start: u64) -> Result<PageRange, NoArea> {
        let (leaf, bit) = self.busy_at(start)?;
        self.bitmaps.leaf(leaf).clear_busy(bit);
        Ok(self.give_back(leaf, bit))
    }

    /// Takes the busy area that starts at `start` out of use, without freeing its pages yet. O(1).
    ///
    /// # Errors
    /// [`NoArea`]; nothing is changed.
    #[doc(hidden)]
    #[inline]
    pub fn retire(&self, start: u64) -> Result<PageRange, NoArea> {
        // One that is refused is none.
        self.retire_if(start, |_| true)?.ok_or(NoArea::Busy { page: start })
    }

    /// Takes the busy area that starts at `start` out of use, as [`retire`](Self::retire) does, if
    /// it `is_right`. Returns `None` if it is not.
    ///
    /// # Errors
    /// [`NoArea`]; nothing is changed.
    #[doc(hidden)]
    #[inline]
    pub fn retire_if(
        &self,
        start: u64,
        is_right: impl FnOnce(PageRange) -> bool,
    ) -> Result<Option<PageRange>, NoArea> {
        let (leaf, bit) = self.busy_at(start)?;
        let record = self.bitmaps.leaf(leaf);
        let area = PageRange::of(start, self.bitmaps.end_of(record, bit));
        if !is_right(area) {
            return Ok(None);
        }
        // Another thread may be faster without the map.
        if record.clear_busy(bit) { Ok(Some(area)) } else { Err(NoArea::Retired { page: start }) }
    }

    /// Hands the retired area that starts at `start` out again. O(1).
    ///
    /// # Errors
    /// [`NoArea`]; `Busy` when it is busy, or the map has areas in quarantine: only a token
    /// ends that. Nothing is changed.
    #[doc(hidden)]
    #[inline]
    pub fn revive(&self, start: u64) -> Result<PageRange, NoArea> {
        let (leaf, bit) = self.retired_at(start)?;
        let record = self.bitmaps.leaf(leaf);
        record.set_busy(bit);
        Ok(PageRange::of(start, self.bitmaps.end_of(record, bit)))
    }

    /// Frees the retired area that starts at `start`. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`NoArea`]; `Busy` when it is busy, or the map has areas in quarantine: only a token
    /// ends that. Nothing is changed.
    #[doc(hidden)]
    #[inline]
    pub fn release(&mut self, start: u64) -> Result<PageRange, NoArea> {
        let (leaf, bit) = self.retired_at(start)?;
        Ok(self.give_back(leaf, bit))
    }

    #[inline]
    pub(super) fn busy_at(&self, start: u64) -> Result<(u32, u32), NoArea> {
        let leaf = self.leaf_of(start);
        let bit = Leaf::bit(start);
        // MAP-3: only the start of an area is busy.
        if self.bitmaps.leaf(leaf).is_busy(bit) { Ok((leaf, bit)) } else { Err(self.why_not_busy(start)) }
    }

    #[cold]
    pub(super) fn why_not_busy(&self, start: u64) -> NoArea {
        match self.area_at(start) {
            Ok(_) => NoArea::Retired { page: start },
            Err(error) => error,
        }
    }

    #[inline]
    fn retired_at(&self, start: u64) -> Result<(u32, u32), NoArea> {
        let (leaf, bit) = self.area_at(start)?;
        // Which retired areas have a token is not recorded: a map that gave one asks for all.
        if self.bitmaps.leaf(leaf).is_busy(bit) || self.token_map != 0 {
            return Err(NoArea::Busy { page: start });
        }
        Ok((leaf, bit))
    }

    #[inline(never)]
    fn give_back_dense(&mut self, start: u64) -> PageRange {
        self.give_back(self.leaf_of(start), Leaf::bit(start))
    }

    /// Makes the retired area at `bit` of `leaf` free, whatever is beside it.
    #[inline(never)]
    pub(super) fn give_back(&mut self, leaf: u32, bit: u32) -> PageRange {
        let record = self.bitmaps.leaf(leaf);
        let start = record.page(bit);
        record.area_to_free(bit);
        let behind = record.next_start(bit);
        let before = record.start_before(bit);

        // Join the free range before, if there is one.
        let (mut home_leaf, mut home, mut free_start) = (leaf, record, start);
        match before {
            Some(before) if record.is_used(before) => {}
            Some(before) => {
                record.join_free(bit);
                free_start = record.page(before);
            }
            None => {
                let prev = self.bitmaps.leaf(record.prev.get());
                if let Some(before) = prev.last_start().filter(|&before| !prev.is_used(before)) {
                    record.join_free(bit);
                    (home_leaf, home, free_start) = (record.prev.get(), prev, prev.page(before));
                }
            }
        }
        // Join the free range behind, if there is one.
        let (end, free_end, other) = match behind {
            Some(next) => {
                let end = record.page(next);
                if record.is_used(next) {
                    (end, end, 0)
                } else {
                    record.join_free(next);
                    (end, self.bitmaps.end_of(record, next), leaf)
                }
            }
            None => self.join_behind(record),
        };
        let area = PageRange::of(start, end);
        self.free_pages += area.len();
        self.areas -= 1;
        // A range joined into `home` from behind is dominated at every alignment, so raising is
        // exact.
        let up = home.up.get();
        match home.inner_bits(free_start, free_end) {
            Some((start, end)) => self.tree.raise_low(up, Low::of(start, end)),
            None => self.tree.raise(up, Summary::of(free_start, free_end)),
        }
        if leaf != home_leaf || (other != home_leaf && other != 0) {
            self.settle(leaf, home_leaf, other);
        }
        area
    }

    /// Joins a free range that starts in the leaf behind `record` to what ends there: where that
    /// ended, where it ends now, and the leaf that lost a start.
    #[inline]
    fn join_behind(&self, record: &Leaf) -> (u64, u64, u32) {
        let (bitmaps, next) = (&*self.bitmaps, record.next.get());
        let behind = bitmaps.leaf(next);
        let Some(first) = behind.first_start() else {
            return (self.span().end(), self.span().end(), 0);
        };
        let end = behind.page(first);
        if behind.is_used(first) {
            return (end, end, 0);
        }
        behind.join_free(first);
        (end, bitmaps.end_of(behind, first), next)
    }

    /// Brings up to date what a join across leaves changed: summaries of leaves that lost a start,
    /// and leaves that lost their last.
    #[inline]
    fn settle(&mut self, leaf: u32, home: u32, other: u32) {
        if other != 0 && other != home && other != leaf {
            self.shrink_summary(other);
        }
        if leaf != home {
            self.shrink_summary(leaf);
        }
    }

    /// Brings the summary of `leaf` up to date after it lost a start; it may have lost its last.
    #[inline]
    fn shrink_summary(&mut self, leaf: u32) {
        if self.bitmaps.leaf(leaf).is_empty() { self.drop_leaf(leaf) } else { self.update_summary(leaf) }
    }

    #[cold]
    pub(super) fn drop_leaf(&mut self, leaf: u32) {
        let bitmaps = &*self.bitmaps;
        let record = bitmaps.leaf(leaf);
        let (prev, next) = (record.prev.get(), record.next.get());
        self.tree.remove(record.up.get(), bitmaps);
        bitmaps.leaf(prev).next.set(next);
        if next != 0 {
            bitmaps.leaf(next).prev.set(prev);
        }
        bitmaps.put(leaf, &mut self.spare);
        self.leaf_count -= 1;
    }
}
