//! Changes of busy areas where they are: cut in two, cut down, grown; and of the span itself.
//!
//! ```text
//!   split            ████████████   ──►   ████▐███████     two areas, nothing free between
//!   free_part        ████████████   ──►   ███░░░░░████     a part in the middle leaves two areas
//!   grow_in_place    ██████░░░░░░   ──►   █████████░░░     from the free range behind
//!   extend           …██░░░]        ──►   …██░░░░░░░░]     the span, at its end
//! ```
//!
//! Each secures the leaves that it needs first, and changes nothing where they can't be had.

use super::AreaMap;
use super::leaf::Leaf;
use super::metadata::OutOfMemory;
use crate::PageRange;
use crate::{FitError, NoArea, RequestError};
use thiserror::Error;

/// Why an area can't be cut, grown or shrunk where it is. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("ResizeError")]
pub enum ResizeError {
    /// No busy area starts there.
    #[error(transparent)]
    Area(#[from] NoArea),
    /// An area can't be cut there: no part of it would be left on one side.
    #[cfg_attr(feature = "error-texts", error("page {at:#x} is not inside the area {area:?}"))]
    NotInside {
        /// Where the area was to be cut.
        at: u64,
        /// Its pages.
        area: PageRange,
    },
    /// The pages to be freed are not all of one busy area.
    #[cfg_attr(feature = "error-texts", error("{asked:?} is not part of the area {area:?}"))]
    NotAPart {
        /// The pages named.
        asked: PageRange,
        /// The area that holds the first of them.
        area: PageRange,
    },
    /// The area can't grow or shrink to that size.
    #[cfg_attr(feature = "error-texts", error("{area:?} can't be made {pages} pages by this call"))]
    WrongSize {
        /// The size asked for, in pages.
        pages: u64,
        /// The area as it is.
        area: PageRange,
    },
    /// The pages behind the area are taken, or outside the space, or there is no memory for
    /// metadata.
    #[error(transparent)]
    Alloc(#[from] FitError),
}

impl From<OutOfMemory> for ResizeError {
    fn from(_: OutOfMemory) -> Self {
        Self::Alloc(FitError::Metadata)
    }
}

impl AreaMap<'_> {
    /// Cuts the busy area that starts at `start` in two at page `at`, and returns both. O(log n).
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(10))?;
    /// let (left, right) = map.split(0, 3)?;
    /// assert_eq!((left.len(), right.len()), (3, 7));
    /// assert_eq!(map.free(3)?, right);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResizeError`]; nothing is changed.
    pub fn split(&mut self, start: u64, at: u64) -> Result<(PageRange, PageRange), ResizeError> {
        let area = self.busy_area(start)?;
        if at <= start || at >= area.end() {
            return Err(ResizeError::NotInside { at, area });
        }
        let (left, right) = (PageRange::of(start, at), PageRange::of(at, area.end()));
        self.isolate(area, right, Leaf::start_busy)?;
        Ok((left, right))
    }

    /// Frees the pages of `range`, a part of one busy area or all of it. O(log n).
    ///
    /// The rest stays busy: an area in front, one behind, or both.
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(10))?;
    /// map.free_part(PageRange::new(4, 6).unwrap())?;
    /// assert_eq!(map.find(3), PageRange::new(0, 4));
    /// assert_eq!(map.find(9), PageRange::new(6, 10));
    /// assert_eq!(map.find(5), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResizeError`]; nothing is changed.
    pub fn free_part(&mut self, range: PageRange) -> Result<(), ResizeError> {
        let area = match self.find(range.start()) {
            Some(area) => area,
            None => return Err(self.why_not_busy(range.start()).into()),
        };
        if !area.covers(&range) {
            return Err(ResizeError::NotAPart { asked: range, area });
        }
        self.isolate(area, range, Leaf::start_busy)?;
        self.free(range.start())?;
        Ok(())
    }

    /// Grows the busy area that starts at `start` to `pages` pages, by free pages behind it, and
    /// returns it. O(log n).
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(10))?;
    /// assert_eq!(map.grow_in_place(0, 30)?.len(), 30);
    /// assert!(map.grow_in_place(0, 101).is_err());
    /// assert_eq!(map.shrink_in_place(0, 5)?.len(), 5);
    /// assert_eq!(map.free_pages(), 95);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResizeError`]; nothing is changed.
    pub fn grow_in_place(&mut self, start: u64, pages: u64) -> Result<PageRange, ResizeError> {
        let area = self.busy_area(start)?;
        if pages <= area.len() {
            let same = Some(area).filter(|area| area.len() == pages);
            return same.ok_or(ResizeError::WrongSize { pages, area });
        }
        let grown = PageRange::from_len(start, pages).ok_or(ResizeError::WrongSize { pages, area })?;
        let place = self.place_at(PageRange::of(area.end(), grown.end())).map_err(ResizeError::Alloc)?;
        self.cut(&place, grown.end())?;
        self.join_area(area.end());
        Ok(grown)
    }

    /// Shrinks the busy area that starts at `start` to `pages` pages, frees those behind, and
    /// returns it. O(log n). For an example see [`grow_in_place`](Self::grow_in_place).
    ///
    /// # Errors
    /// [`ResizeError`]; nothing is changed.
    pub fn shrink_in_place(&mut self, start: u64, pages: u64) -> Result<PageRange, ResizeError> {
        let area = self.busy_area(start)?;
        if pages == 0 || pages > area.len() {
            return Err(ResizeError::WrongSize { pages, area });
        }
        if let Some(rest) = PageRange::new(start + pages, area.end()) {
            self.free_part(rest)?;
        }
        Ok(PageRange::of(start, start + pages))
    }

    /// Lets the span end at page `end`, which is not before its end now, and returns it. O(log n).
    ///
    /// The new pages are free, and one range with what was free before them.
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(90))?;
    /// map.extend(200)?;
    /// assert_eq!(map.largest_free(), 110);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FitError::Request`] if `end` is before the span's, [`FitError::Metadata`]; nothing is
    /// changed.
    pub fn extend(&mut self, end: u64) -> Result<PageRange, FitError> {
        let old = self.span();
        let Some(new) = PageRange::new(old.end(), end) else {
            let asked = RequestError::LimitsReversed { start: old.end(), end };
            return if end == old.end() { Ok(old) } else { Err(asked.into()) };
        };
        let (mut leaf, bit) = self.locate(old.end() - 1).ok_or(OutOfMemory)?;
        let is_free = !self.bitmaps.leaf(leaf).is_used(bit);
        if !is_free {
            leaf = self.leaf_for(old.end(), leaf)?;
            self.bitmaps.leaf(leaf).start_free(Leaf::bit(old.end()));
        }
        self.bitmaps.set_end(end);
        self.free_pages += new.len();
        self.update_summary(leaf);
        Ok(self.span())
    }

    /// Returns the busy area that starts at `start`.
    fn busy_area(&self, start: u64) -> Result<PageRange, NoArea> {
        let (leaf, bit) = self.busy_at(start)?;
        Ok(PageRange::of(start, self.bitmaps.end_of(self.bitmaps.leaf(leaf), bit)))
    }

    /// Makes `part` of the area `area` an area of its own, and so what is left on either side.
    /// `start` starts an area in the state that `area` has.
    pub(super) fn isolate(
        &mut self,
        area: PageRange,
        part: PageRange,
        start: fn(&Leaf, u32),
    ) -> Result<(), OutOfMemory> {
        let (cuts_front, cuts_back) = (part.start() > area.start(), part.end() < area.end());
        if !cuts_front && !cuts_back {
            return Ok(());
        }
        let (home, _) = self.locate(part.start()).ok_or(OutOfMemory)?;
        let front = if cuts_front { self.leaf_for(part.start(), home)? } else { home };
        if cuts_back {
            let back = self.leaf_for(part.end(), front).inspect_err(|_| self.drop_if_empty(front))?;
            start(self.bitmaps.leaf(back), Leaf::bit(part.end()));
        }
        if cuts_front {
            start(self.bitmaps.leaf(front), Leaf::bit(part.start()));
        }
        self.areas += u64::from(cuts_front) + u64::from(cuts_back);
        Ok(())
    }

    /// Makes `part` of the retired area `area` an area of its own, and so what is left on either
    /// side. Returns false, and changes nothing, where memory is short. O(log n).
    #[doc(hidden)]
    #[must_use]
    pub fn cut_retired(&mut self, area: PageRange, part: PageRange) -> bool {
        self.isolate(area, part, Leaf::start_retired).is_ok()
    }

    /// Joins the area that starts at `page`, busy or retired, to the one before it. O(log n).
    #[doc(hidden)]
    pub fn join_area(&mut self, page: u64) {
        let leaf = self.leaf_of(page);
        self.bitmaps.leaf(leaf).join_area(Leaf::bit(page));
        self.areas -= 1;
        self.drop_if_empty(leaf);
    }
}
