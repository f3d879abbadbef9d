//! Allocation: cutting free ranges.
//!
//! A cut takes `[a, b)` out of the free range `[s, e)` in one of four ways:
//!
//! ```text
//!   full fit    s=a ████████ b=e      the range disappears
//!   left edge   s=a ████░░░░░░ e      its start moves
//!   right edge    s ░░░░░░████ b=e    its end moves: a start bit at a
//!   no edge       s ░░░████░░░ e      two remainders: start bits at a and b
//! ```
//!
//! In the bitmaps all four are the same: a start bit at `a`, and one at `b` unless `b = e`. Leaves
//! for both are secured before the first bit changes, so a cut never fails in the middle.

use super::AreaMap;
use super::bitmap::{LEAF_PAGES, LEAF_SHIFT};
use super::leaf::Leaf;
use super::metadata::OutOfMemory;
use super::scan::{DENSE, Taken};
use super::search::Place;
use super::summary::{Query, Summary};
use crate::Fit;
use crate::FitError;
use crate::PageRange;

impl AreaMap<'_> {
    /// Hands out an area placed by `fit`. O(log n); see [`Policy`](crate::Policy) for the
    /// exception.
    ///
    /// # Errors
    /// [`FitError::NoSpace`], [`FitError::Request`] for limits outside the span,
    /// [`FitError::Metadata`].
    #[inline]
    pub fn alloc(&mut self, fit: &Fit) -> Result<PageRange, FitError> {
        self.steps.reset();
        // A copy, so that the common case keeps the request in registers.
        let Some(order) = fit.lowest_order() else { return self.alloc_any(&{ *fit }) };
        match self.alloc_lowest(fit.pages(), order) {
            Ok(start) => Ok(PageRange::of(start, start + fit.pages())),
            Err(leaf) => self.alloc_plain(fit.pages(), order, leaf as u32),
        }
    }

    /// Allocates for a request of the lowest place. If `leaf` is not 0, it is known to take it.
    #[inline(never)]
    fn alloc_plain(&mut self, pages: u64, order: u32, leaf: u32) -> Result<PageRange, FitError> {
        let fit = Fit::plain(pages, order);
        match self.first_in_leaf(leaf, 0, self.span().start(), &fit) {
            Some(place) => self.alloc_in(&place, pages),
            None => self.alloc_any(&fit),
        }
    }

    /// Allocates for any request.
    #[inline(never)]
    fn alloc_any(&mut self, fit: &Fit) -> Result<PageRange, FitError> {
        let place = self.place(fit)?;
        self.alloc_in(&place, fit.pages())
    }

    #[inline]
    fn alloc_in(&mut self, place: &Place, pages: u64) -> Result<PageRange, FitError> {
        self.cut(place, place.start + pages)?;
        Ok(PageRange::of(place.start, place.start + pages))
    }

    /// Hands out exactly the pages of `range`. O(log n).
    ///
    /// # Errors
    /// [`FitError::Occupied`] names the lowest area in the way; [`FitError::Request`] when
    /// `range` is not inside the span; [`FitError::Metadata`].
    pub fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError> {
        if self.alloc_from_leaf(range).is_some() {
            return Ok(());
        }
        let place = self.place_at(range)?;
        Ok(self.cut(&place, range.end())?)
    }

    /// Hands out the pages of `range` in the common case, in one pass over one leaf: few ranges, of
    /// which one that starts there holds all pages. In any other nothing is changed.
    #[inline(never)]
    fn alloc_from_leaf(&mut self, range: PageRange) -> Option<u64> {
        self.steps.reset();
        let (pages, at) = (range.len(), Leaf::bit(range.start()));
        Query::direct_pages(pages)?;
        let (leaf, record) = self.bitmaps.dense(range.start())?;
        if record.free_ranges() > DENSE {
            return None;
        }
        let holds = |from, to| if from <= at && at + pages as u32 <= to { Some(at) } else { None };
        let taken = self.taken(record, pages as u32, holds)?;
        let cut = taken.cut(record);
        self.take(leaf, taken, cut, pages).ok()
    }

    /// Takes up to `count` more areas of the size of `area`, just handed out, from the free range
    /// behind it, in the same leaf; they are retired. How many. What is taken leaves at least as
    /// much free.
    #[inline]
    #[doc(hidden)]
    pub fn alloc_more(&mut self, area: PageRange, count: u64) -> u64 {
        let (pages, from) = (area.len(), area.end());
        let Some((leaf, record)) = self.bitmaps.dense(from) else { return 0 };
        let bit = Leaf::bit(from);
        if !record.is_start(bit) || record.is_used(bit) {
            return 0;
        }
        // All start in the leaf of the first, which is there.
        let count = count.min(u64::from(LEAF_PAGES - 1 - bit) / pages + 1);
        let range = PageRange::of(from, self.bitmaps.end_of(record, bit));
        let count = count.min(range.len() / pages);
        if count == 0 {
            return 0;
        }
        self.cut_more(&Place { leaf, range, start: from }, count, pages)
    }

    #[inline(never)]
    fn cut_more(&mut self, place: &Place, count: u64, pages: u64) -> u64 {
        if self.cut(place, place.start + count * pages).is_err() {
            return 0;
        }
        let record = self.bitmaps.leaf(place.leaf);
        record.clear_busy(Leaf::bit(place.start));
        self.areas += count - 1;
        (1..count).for_each(|more| record.start_retired(Leaf::bit(place.start + more * pages)));
        count
    }

    /// Makes `[place.start, end)` a busy area.
    #[inline]
    pub(super) fn cut(&mut self, place: &Place, end: u64) -> Result<(), OutOfMemory> {
        let rest = end < place.range.end();
        let area_leaf = self.leaf_for(place.start, place.leaf)?;
        let rest_leaf = if rest { self.leaf_for(end, area_leaf) } else { Ok(area_leaf) };
        let rest_leaf = match rest_leaf {
            Ok(leaf) => leaf,
            Err(full) => {
                self.drop_if_empty(area_leaf);
                return Err(full);
            }
        };
        let bit = Leaf::bit(place.start);
        if place.start == place.range.start() {
            self.bitmaps.leaf(area_leaf).free_to_busy(bit);
        } else {
            self.bitmaps.leaf(area_leaf).start_busy(bit);
        }
        if rest {
            self.bitmaps.leaf(rest_leaf).start_free(Leaf::bit(end));
        }
        self.free_pages -= end - place.start;
        self.areas += 1;
        // The rest first: no summary above sinks below what the rest can take.
        if rest && rest_leaf != place.leaf {
            let summary = Summary::of(end, place.range.end());
            self.tree.raise(self.bitmaps.leaf(rest_leaf).up.get(), summary);
        }
        self.update_summary(place.leaf);
        Ok(())
    }

    /// Allocates in the common case, in one pass over one leaf: lowest fit, few ranges, and no leaf
    /// to be made. Returns the first page. In any other nothing is changed, and the error is the
    /// leaf that takes the request, or 0 (as wide as the page, so that both come back in
    /// registers).
    #[inline(never)]
    fn alloc_lowest(&mut self, pages: u64, order: u32) -> Result<u64, u64> {
        // The common case with an order that is known: that saves 20 instructions a pair.
        if order == 0 { self.alloc_first(pages, 0) } else { self.alloc_aligned(pages, order) }
    }

    #[inline(never)]
    fn alloc_aligned(&mut self, pages: u64, order: u32) -> Result<u64, u64> {
        self.alloc_first(pages, order)
    }

    #[inline(always)]
    fn alloc_first(&mut self, pages: u64, order: u32) -> Result<u64, u64> {
        let need = Query::direct_pages(pages).ok_or(0u64)?;
        if order > LEAF_SHIFT {
            return Err(0);
        }
        let leaf = self.tree.first_direct(order as usize, need, &self.steps).ok_or(0u64)?;
        let record = self.bitmaps.leaf(leaf);
        if record.free_ranges() > DENSE {
            return self.alloc_among_many(leaf, pages, order);
        }
        let taken = self.first_taken(record, pages as u32, order).ok_or(u64::from(leaf))?;
        let cut = taken.cut(record);
        self.take(leaf, taken, cut, pages)
    }

    /// Allocates as [`alloc_lowest`](Self::alloc_lowest), in a dense leaf.
    #[inline(never)]
    fn alloc_among_many(&mut self, leaf: u32, pages: u64, order: u32) -> Result<u64, u64> {
        let record = self.bitmaps.leaf(leaf);
        let taken = self.first_taken_of_many(record, pages as u32, order).ok_or(u64::from(leaf))?;
        let cut = taken.cut(record);
        self.take(leaf, taken, cut, pages)
    }

    /// Takes pages that were found in a leaf, and `cut` there unless they are at its edge. Returns
    /// the first; the error, when memory is short, is the leaf's number.
    #[inline(always)]
    fn take(&mut self, leaf: u32, taken: Taken, cut: Option<(u64, u32)>, pages: u64) -> Result<u64, u64> {
        let Some((start, up)) = cut else {
            // A copy, so that the common case keeps it in registers.
            return self.alloc_at_edge(leaf, &{ taken }).map_err(|_| u64::from(leaf));
        };
        self.free_pages -= pages;
        self.areas += 1;
        self.tree.set_low(up, taken.low.0);
        Ok(start)
    }

    /// Allocates where the leaf has, or had, high lanes, and the rest may start in another leaf.
    #[inline(never)]
    fn alloc_at_edge(&mut self, leaf: u32, taken: &Taken) -> Result<u64, OutOfMemory> {
        let record = self.bitmaps.leaf(leaf);
        let base = record.base();
        let (start, end) = (base + u64::from(taken.start), base + u64::from(taken.end));
        let (mut rest_leaf, mut free_end) = (leaf, 0);
        if taken.end < taken.free_end {
            if taken.end >= LEAF_PAGES {
                free_end = self.bitmaps.first_start_behind(record);
                rest_leaf = self.leaf_for(end, leaf)?;
            }
            self.bitmaps.leaf(rest_leaf).start_free(Leaf::bit(end));
        }
        let record = self.bitmaps.leaf(leaf);
        record.take(taken.place, taken.start);
        self.free_pages -= end - start;
        self.areas += 1;
        let summary = self.summary_without(record, taken);
        let up = record.up.get();
        // The rest first, as in a cut.
        if rest_leaf != leaf {
            self.tree.raise(self.bitmaps.leaf(rest_leaf).up.get(), Summary::of(end, free_end));
        }
        self.tree.set(up, summary);
        Ok(start)
    }

    /// Brings the summary of `leaf` up to date.
    #[inline]
    pub(super) fn update_summary(&mut self, leaf: u32) {
        let record = self.bitmaps.leaf(leaf);
        let summary = self.summary_of(record);
        self.tree.set(record.up.get(), summary);
    }

    /// Returns the leaf of `page`, and makes it if there is none. The segment that holds the page
    /// starts in the leaf `from`: no leaf lies between.
    #[inline]
    pub(super) fn leaf_for(&mut self, page: u64, from: u32) -> Result<u32, OutOfMemory> {
        let base = page & !u64::from(LEAF_PAGES - 1);
        let record = self.bitmaps.leaf(from);
        if base == record.base() {
            return Ok(from);
        }
        let next = record.next.get();
        if next != 0 && self.bitmaps.leaf(next).base() == base {
            return Ok(next);
        }
        self.make_leaf(base, from, next)
    }

    /// Makes the leaf whose first page is `base`, between two that are neighbours.
    #[inline(never)]
    fn make_leaf(&mut self, base: u64, prev: u32, next: u32) -> Result<u32, OutOfMemory> {
        if self.is_lacking(base) {
            return Err(OutOfMemory);
        }
        let bitmaps = &*self.bitmaps;
        self.tree.ensure(1)?;
        let leaf = bitmaps.number(bitmaps.group(base), self.leaf_count, &mut self.spare)?;
        self.leaf_count += 1;
        bitmaps.leaf(leaf).begin(prev, next, base);
        bitmaps.leaf(prev).next.set(leaf);
        if next != 0 {
            bitmaps.leaf(next).prev.set(leaf);
        }
        self.tree.insert_after(prev, leaf, bitmaps);
        Ok(leaf)
    }

    #[inline]
    pub(super) fn drop_if_empty(&mut self, leaf: u32) {
        if self.bitmaps.leaf(leaf).is_empty() {
            self.drop_leaf(leaf);
        }
    }
}
