//! A request for address space: put together freely, checked by the map, trusted by its searches.

use crate::PageRange;
use crate::RequestError;

/// Where in the free space a request is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The lowest address that fits: exact first fit, O(log n). The default.
    #[default]
    Lowest,
    /// The highest address that fits: exact, O(log n). For a space that is shared with a user that
    /// grows upwards.
    Highest,
    /// The fit nearest to a random page, which the seed chooses. O(log n).
    Random {
        /// Entropy for this one placement.
        seed: u64,
    },
    /// The fit whose start is nearest to a place, the higher of two: exact, O(log n). For code that
    /// calls code, and for windows of devices.
    Near {
        /// A page, inside the limits or not. A space of `vmalloc` counts in bytes: an address.
        to: u64,
    },
}

/// A request for address space, in pages.
///
/// The setters take anything, in any order; the map checks the whole when it is asked for a place.
/// The constraints are those that summaries of free ranges can tell, so that no search tries range
/// after range. `vmem_xalloc` (Bonwick and Adams, 2001) has a phase and a boundary that must not be
/// crossed as well. A caller with one phase numbers the pages of the map from there; another asks
/// for more pages, and frees both ends with [`free_part`](crate::AreaMap::free_part). A start at a
/// multiple of the size, rounded up to a power of two, crosses no boundary that is no smaller.
///
/// ```
/// use vmalloc_map::{AreaMap, Fit, FitError, PageRange, RequestError};
///
/// let mut map = AreaMap::new(PageRange::new(1, 100).unwrap())?;
/// assert_eq!(map.alloc(&Fit::new(5).align(8))?.start(), 8);
/// let refused = map.alloc(&Fit::new(5).align(6));
/// assert_eq!(refused, Err(FitError::Request(RequestError::AlignNotPowerOfTwo { align: 6 })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Fit {
    pages: u64,
    align: u64,
    within: Option<(u64, u64)>,
    policy: Policy,
    /// False if the request is valid and says no more than a size and a power of two, for the
    /// lowest place.
    is_special: bool,
}

impl Fit {
    /// Asks for `pages` pages at any page.
    #[inline]
    pub const fn new(pages: u64) -> Self {
        Self { pages, align: 1, within: None, policy: Policy::Lowest, is_special: pages == 0 }
    }

    /// Asks for `pages` pages, not 0, at a multiple of `2^order`.
    #[inline]
    #[doc(hidden)]
    pub const fn plain(pages: u64, order: u32) -> Self {
        Self::new(pages).align(1 << order)
    }

    /// Asks for a start at a multiple of `align` pages, a power of two.
    #[inline]
    pub const fn align(mut self, align: u64) -> Self {
        self.is_special |= !align.is_power_of_two();
        self.align = align;
        self
    }

    /// Asks for pages inside `[start, end)`.
    #[inline]
    pub const fn within(mut self, start: u64, end: u64) -> Self {
        (self.within, self.is_special) = (Some((start, end)), true);
        self
    }

    /// Asks for a place by `policy` instead of the lowest.
    #[inline]
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.is_special |= !matches!(policy, Policy::Lowest);
        self.policy = policy;
        self
    }

    /// Asks for the start nearest to page `to`. Distances are bounded by [`within`](Self::within).
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// let code = map.alloc(&Fit::new(8).near(50))?;
    /// assert_eq!((code.start(), map.alloc(&Fit::new(4).near(51))?.start()), (50, 46));
    /// assert!(map.alloc(&Fit::new(8).near(52).within(45, 60)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn near(self, to: u64) -> Self {
        self.policy(Policy::Near { to })
    }

    /// Returns the request for another number of pages.
    #[doc(hidden)]
    pub const fn of_pages(mut self, pages: u64) -> Self {
        self.is_special |= pages == 0;
        self.pages = pages;
        self
    }

    /// Returns how many pages are asked for.
    #[inline]
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the alignment in pages.
    #[inline]
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.align
    }

    /// Returns the limits, if any were set and they hold a page.
    #[inline]
    #[must_use]
    pub const fn limits(&self) -> Option<PageRange> {
        match self.within {
            Some((start, end)) => PageRange::new(start, end),
            None => None,
        }
    }

    /// Returns the placement.
    #[inline]
    #[must_use]
    pub const fn placement(&self) -> Policy {
        self.policy
    }

    /// Checks the request for a map of `span`, and returns the pages in which to look.
    #[inline]
    pub(crate) fn check(&self, span: PageRange) -> Result<PageRange, RequestError> {
        if self.is_special { self.check_all(span) } else { Ok(span) }
    }

    #[inline(never)]
    fn check_all(&self, span: PageRange) -> Result<PageRange, RequestError> {
        let Self { pages, align, .. } = *self;
        if pages == 0 {
            return Err(RequestError::ZeroSize);
        }
        if !align.is_power_of_two() {
            return Err(RequestError::AlignNotPowerOfTwo { align });
        }
        let Some((start, end)) = self.within else { return Ok(span) };
        PageRange::new(start, end).ok_or(RequestError::LimitsReversed { start, end })?.inside(span)
    }

    /// Returns log2 of the alignment.
    #[inline]
    pub(crate) const fn order(&self) -> u32 {
        self.align.trailing_zeros()
    }

    /// Returns log2 of the alignment, if size and alignment say everything and the lowest place
    /// anywhere is asked for.
    #[inline]
    #[doc(hidden)]
    pub const fn lowest_order(&self) -> Option<u32> {
        if self.is_special { None } else { Some(self.align.trailing_zeros()) }
    }

    /// Returns the lowest start at or above page `lower` in the free pages `range`.
    #[inline]
    pub(crate) fn lowest_from(&self, lower: u64, range: PageRange) -> Option<u64> {
        let from = range.start().max(lower);
        let start = from.checked_add(from.wrapping_neg() & (self.align - 1))?;
        if start < range.end() && range.end() - start >= self.pages { Some(start) } else { None }
    }

    /// Returns the highest start in the free pages `range` with all pages below page `upper`.
    pub(crate) fn highest_below(&self, upper: u64, range: PageRange) -> Option<u64> {
        let start = range.end().min(upper).checked_sub(self.pages)? & !(self.align - 1);
        if start >= range.start() { Some(start) } else { None }
    }
}

impl PageRange {
    /// Returns the range if all of it lies inside `space`.
    #[inline]
    pub(crate) fn inside(self, space: Self) -> Result<Self, RequestError> {
        if space.covers(&self) { Ok(self) } else { Err(RequestError::OutsideSpace { asked: self, space }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares both ends with trying every page, without a limit and with one.
    fn compare(fit: Fit, meets: impl Fn(u64) -> bool) {
        let step = if cfg!(miri) { 17 } else { 1 };
        for start in (0..40).step_by(step) {
            for end in (start + 1..start + 40).step_by(step) {
                let range = PageRange::new(start, end).unwrap();
                for (lower, upper) in [(0, u64::MAX), (start + 3, (end - 1).min(37))] {
                    let fits = |s: &u64| s + fit.pages() <= end && meets(*s);
                    let lowest = (start.max(lower)..end).find(fits);
                    let highest = (start..end).rfind(|s| fits(s) && s + fit.pages() <= upper);
                    assert_eq!(fit.lowest_from(lower, range), lowest, "{fit:?} in {range:?}");
                    assert_eq!(fit.highest_below(upper, range), highest, "{fit:?} in {range:?}");
                }
            }
        }
    }

    #[test]
    fn lowest_and_highest_agree_with_trying_every_page() {
        for pages in (1..=6).step_by(if cfg!(miri) { 4 } else { 1 }) {
            for align in [1, 2, 4, 8, 16] {
                compare(Fit::new(pages).align(align), |start| start % align == 0);
            }
        }
    }

    #[test]
    fn bad_requests_are_typed_errors() {
        let check = |fit: Fit| fit.check(PageRange::of(0, 100)).map(|_| ());
        assert_eq!(check(Fit::new(0)), Err(RequestError::ZeroSize));
        let fit = Fit::new(4);
        for align in [0, 3, u64::MAX] {
            assert_eq!(check(fit.align(align)), Err(RequestError::AlignNotPowerOfTwo { align }));
        }
        assert!(check(fit.align(1 << 63)).is_ok(), "a power of two, however large, is a valid question");
        assert_eq!(check(fit.within(9, 9)), Err(RequestError::LimitsReversed { start: 9, end: 9 }));
        assert_eq!(check(fit.align(3).align(4)), Ok(()), "the last setting counts");
        assert!(check(fit.within(9, 101)).is_err());
    }
}
