//! Placement: where a request goes.
//!
//! Every search visits leaves whose summary says yes, and the free ranges that start in them, in
//! address order. For an alignment up to 2^13 pages a yes is exact: the first leaf visited holds
//! the answer. A larger alignment makes it a superset, and ranges are tried one by one.
//!
//! A lower limit may lie inside a free range; that one range is tried first, clipped. An upper
//! limit needs no search: what fits lowest and does not fit below the limit leaves nothing else
//! that could.
//!
//! [`highest`](super::highest) is the mirror of the search for the lowest place.

use super::summary::Query;
use super::{AreaMap, State};
use crate::PageRange;
use crate::{Fit, Policy};
use crate::{FitError, NoSpace, RequestError};

/// A free range that takes the request, and where in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The leaf that the range starts in.
    pub(super) leaf: u32,
    pub(super) range: PageRange,
    /// The first page for the request.
    pub(super) start: u64,
}

impl AreaMap<'_> {
    /// Returns the pages that [`alloc`](Self::alloc) would hand out for `fit`, and takes none. Cost
    /// as there.
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(5))?;
    /// let fit = Fit::new(3).align(4);
    /// assert_eq!(map.place_for(&fit)?.start(), 8);
    /// assert_eq!(map.alloc(&fit)?.start(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FitError::NoSpace`], [`FitError::Request`] for limits outside the span.
    pub fn place_for(&self, fit: &Fit) -> Result<PageRange, FitError> {
        self.steps.reset();
        let place = self.place(fit)?;
        Ok(PageRange::of(place.start, place.start + fit.pages()))
    }

    /// Finds the place for `fit`.
    #[inline]
    pub(super) fn place(&self, fit: &Fit) -> Result<Place, FitError> {
        let within = fit.check(self.span())?;
        let place = match fit.placement() {
            Policy::Lowest => self.lowest(fit, within),
            Policy::Highest => self.highest(fit, within),
            Policy::Random { seed } => self.nearest(fit, within, within.start() + seed % within.len()),
            Policy::Near { to } => self.nearest(fit, within, to),
        };
        match place {
            Some(place) => Ok(place),
            None => Err(self.no_space(fit, within)),
        }
    }

    #[cold]
    fn no_space(&self, fit: &Fit, within: PageRange) -> FitError {
        let (size, align, largest) = (fit.pages(), fit.alignment(), self.largest_free());
        NoSpace { size, align, within, largest, unit: "pages" }.into()
    }

    #[inline]
    fn lowest(&self, fit: &Fit, within: PageRange) -> Option<Place> {
        // Each candidate starts behind the one before: when the first passes the upper limit, all
        // do.
        self.first(fit, within).filter(|place| place.start + fit.pages() <= within.end())
    }

    /// Returns the place nearest to a page: the lowest from it on, unless the highest of all starts
    /// below it is nearer.
    #[inline(never)]
    fn nearest(&self, fit: &Fit, within: PageRange, to: u64) -> Option<Place> {
        let to = to.clamp(within.start(), within.end() - 1);
        let above = self.lowest(fit, PageRange::of(to, within.end()));
        let reach = above.map_or(u64::MAX, |above| above.start - to).saturating_sub(1);
        let (lower, upper) = (to.saturating_sub(reach), to.saturating_add(fit.pages() - 1));
        let nearer = PageRange::new(lower.max(within.start()), upper.min(within.end()));
        nearer.filter(|it| it.len() >= fit.pages()).and_then(|it| self.highest(fit, it)).or(above)
    }

    /// Returns the first free range that takes `fit` at or above the lower limit, and starts below
    /// the upper one.
    #[inline]
    fn first(&self, fit: &Fit, within: PageRange) -> Option<Place> {
        let (query, lower) = (Query::new(fit.pages(), fit.order()), within.start());
        let (mut leaf, mut bit) = match lower == self.span().start() {
            true => (self.tree.first(&query, &self.steps)?, 0),
            false => self.locate(lower)?,
        };
        loop {
            if let Some(place) = self.first_in_leaf(leaf, bit, lower, fit) {
                return Some(place);
            }
            leaf = self.tree.next(self.bitmaps.leaf(leaf).up.get(), &query, &self.steps)?;
            if self.bitmaps.leaf(leaf).base() >= within.end() {
                return None;
            }
            bit = 0;
        }
    }
}

impl AreaMap<'_> {
    /// Returns the free range that holds all of `range`, or the lowest area in its way.
    pub(super) fn place_at(&self, range: PageRange) -> Result<Place, FitError> {
        let range = range.inside(self.span())?;
        let first = self.segment(range.start());
        match first {
            Some(free) if free.state == State::Free && free.range.covers(&range) => {
                let leaf = self.leaf_of(free.range.start());
                Ok(Place { leaf, range: free.range, start: range.start() })
            }
            Some(area) if area.state != State::Free => {
                Err(FitError::Occupied { asked: range, by: area.range })
            }
            // The free range ends too early: by MAP-2 an area follows.
            _ => match first.and_then(|first| self.segment(first.range.end())) {
                Some(area) => Err(FitError::Occupied { asked: range, by: area.range }),
                None => Err(RequestError::OutsideSpace { asked: range, space: self.span() }.into()),
            },
        }
    }
}
