//! What is asked for: checked once here, trusted everywhere below.

use crate::addr::PageRange;
use crate::error::RequestError;

/// Where in the free space a request is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The lowest address that fits: exact first fit, O(log n). The default.
    #[default]
    Lowest,
    /// The highest address that fits: exact, O(log n). For a space that is shared with somebody who grows upwards.
    Highest,
    /// The smallest free range that fits, the lowest of equals. O(free ranges that are large enough).
    Best,
    /// The lowest fit above a random page, wrapping around once; the seed chooses the page. O(log n).
    Random {
        /// Entropy for this one placement.
        seed: u64,
    },
}

/// A checked request for address space, in pages.
///
/// The constraints are those of `vmem_xalloc` (Bonwick and Adams, 2001): limits, alignment, phase, and a
/// boundary that must not be crossed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    pages: u64,
    /// log2 of the alignment in pages.
    order: u32,
    /// The first page is congruent to this modulo the alignment.
    phase: u64,
    /// No multiple of this lies strictly inside the result; 0 = no such limit.
    no_cross: u64,
    within: Option<PageRange>,
    policy: Policy,
}

impl Fit {
    /// `pages` pages at any page.
    ///
    /// # Errors
    /// [`RequestError::ZeroSize`].
    #[inline]
    pub const fn new(pages: u64) -> Result<Self, RequestError> {
        if pages == 0 {
            return Err(RequestError::ZeroSize);
        }
        Ok(Self::plain(pages, 0))
    }

    /// `pages` pages, not 0, at a multiple of `2^order`.
    #[inline]
    pub(crate) const fn plain(pages: u64, order: u32) -> Self {
        Self { pages, order, phase: 0, no_cross: 0, within: None, policy: Policy::Lowest }
    }

    /// Start at a multiple of `align` pages.
    ///
    /// # Errors
    /// [`RequestError::AlignNotPowerOfTwo`]; [`RequestError::PhaseTooLarge`] when a phase was set that is not smaller.
    #[inline]
    pub const fn align(mut self, align: u64) -> Result<Self, RequestError> {
        if !align.is_power_of_two() {
            return Err(RequestError::AlignNotPowerOfTwo { align });
        }
        self.order = align.trailing_zeros();
        if self.phase >= align {
            return Err(RequestError::PhaseTooLarge { phase: self.phase, align });
        }
        Ok(self)
    }

    /// Start `phase` pages after a multiple of the alignment; set the alignment first.
    ///
    /// # Errors
    /// [`RequestError::PhaseTooLarge`] unless `phase` is smaller than the alignment.
    #[inline]
    pub const fn phase(mut self, phase: u64) -> Result<Self, RequestError> {
        let align = 1 << self.order;
        if phase >= align {
            return Err(RequestError::PhaseTooLarge { phase, align });
        }
        self.phase = phase;
        Ok(self)
    }

    /// Let no multiple of `boundary` pages lie strictly inside the result.
    ///
    /// # Errors
    /// [`RequestError::BadBoundary`] unless `boundary` is a power of two and at least the size.
    #[inline]
    pub const fn no_cross(mut self, boundary: u64) -> Result<Self, RequestError> {
        if !boundary.is_power_of_two() || boundary < self.pages {
            return Err(RequestError::BadBoundary { boundary, pages: self.pages });
        }
        self.no_cross = boundary;
        Ok(self)
    }

    /// Stay inside the pages `[start, end)`.
    ///
    /// # Errors
    /// [`RequestError::LimitsReversed`] when that is empty.
    #[inline]
    pub const fn within(mut self, start: u64, end: u64) -> Result<Self, RequestError> {
        match PageRange::new(start, end) {
            Some(range) => self.within = Some(range),
            None => return Err(RequestError::LimitsReversed { start, end }),
        }
        Ok(self)
    }

    /// Place by `policy` instead of lowest-first.
    #[inline]
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How many pages are asked for.
    #[inline]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The alignment in pages.
    #[inline]
    pub const fn alignment(&self) -> u64 {
        1 << self.order
    }

    /// log2 of the alignment that a search may ask rooms for: they know no phase, but what divides it.
    #[inline]
    pub(crate) const fn order_beyond_phase(&self) -> u32 {
        if self.phase == 0 { self.order } else { self.phase.trailing_zeros() }
    }

    /// The limits, if any were set.
    #[inline]
    pub const fn limits(&self) -> Option<PageRange> {
        self.within
    }

    /// The placement.
    #[inline]
    pub const fn placement(&self) -> Policy {
        self.policy
    }

    /// log2 of the alignment, if size and alignment say everything.
    #[inline]
    pub(crate) const fn plain_order(&self) -> Option<u32> {
        if self.phase == 0 && self.no_cross == 0 { Some(self.order) } else { None }
    }

    /// log2 of the alignment, if size and alignment say everything and the lowest place anywhere is asked for.
    #[inline]
    pub(crate) const fn lowest_order(&self) -> Option<u32> {
        match (self.within, self.policy) {
            (None, Policy::Lowest) => self.plain_order(),
            _ => None,
        }
    }

    /// Whether size and alignment say everything, and the highest place anywhere is asked for.
    pub(crate) const fn is_highest_anywhere(&self) -> bool {
        matches!((self.within, self.policy), (None, Policy::Highest)) && self.plain_order().is_some()
    }

    /// The lowest start at or above page `lower` in the free pages `range`.
    #[inline]
    pub(crate) fn lowest_from(&self, lower: u64, range: PageRange) -> Option<u64> {
        let range = PageRange::new(range.start().max(lower), range.end())?;
        self.lowest_in(range)
    }

    /// The lowest start in the free pages `range` that satisfies everything but the limits.
    #[inline]
    pub(crate) const fn lowest_in(&self, range: PageRange) -> Option<u64> {
        let align = 1u64 << self.order;
        let mut start = match Self::next_congruent(range.start(), align, self.phase) {
            Some(start) => start,
            None => return None,
        };
        if self.no_cross != 0 {
            start = match self.past_boundary(start, align) {
                Some(start) => start,
                None => return None,
            };
        }
        if start < range.end() && range.end() - start >= self.pages { Some(start) } else { None }
    }

    /// The highest start in the free pages `range` with all pages below page `upper`.
    pub(crate) fn highest_below(&self, upper: u64, range: PageRange) -> Option<u64> {
        let range = PageRange::new(range.start(), range.end().min(upper))?;
        self.highest_in(range)
    }

    /// The highest start in the free pages `range` that satisfies everything but the limits.
    pub(crate) const fn highest_in(&self, range: PageRange) -> Option<u64> {
        let Some(last) = range.end().checked_sub(self.pages) else { return None };
        let mut start = match self.last_congruent(last) {
            Some(start) => start,
            None => return None,
        };
        if self.no_cross != 0 {
            start = match self.before_boundary(start) {
                Some(start) => start,
                None => return None,
            };
        }
        if start >= range.start() { Some(start) } else { None }
    }

    /// The highest page at or below `page` that is congruent to the phase.
    const fn last_congruent(&self, page: u64) -> Option<u64> {
        page.checked_sub(page.wrapping_sub(self.phase) & (self.alignment() - 1))
    }

    /// `start`, or the last congruent page from which the request ends before the boundary that `[start, start + pages)`
    /// crosses. One step is enough, for the reason given at [`past_boundary`](Self::past_boundary).
    const fn before_boundary(&self, start: u64) -> Option<u64> {
        if !self.crosses(start) {
            return Some(start);
        }
        let boundary = (start + (self.pages - 1)) & !(self.no_cross - 1);
        let Some(last) = boundary.checked_sub(self.pages) else { return None };
        match self.last_congruent(last) {
            Some(before) if !self.crosses(before) => Some(before),
            _ => None,
        }
    }

    /// The lowest page at or above `page` that is congruent to `phase` modulo `align`.
    #[inline]
    const fn next_congruent(page: u64, align: u64, phase: u64) -> Option<u64> {
        page.checked_add(phase.wrapping_sub(page) & (align - 1))
    }

    /// `start`, or the first congruent page behind the boundary that `[start, start + pages)` crosses.
    ///
    /// One step is enough when a boundary is followed by a congruent page from which the request fits
    /// before the next one; when the phase leaves no such page no boundary window has one, as all windows
    /// look alike once the alignment divides the boundary. A larger alignment makes every start a window
    /// of its own, and then one step says it all as well.
    const fn past_boundary(&self, start: u64, align: u64) -> Option<u64> {
        if self.crosses(start) {
            let Some(behind) = start.checked_add(1) else { return None };
            let Some(boundary) = crate::addr::align_up(behind, self.no_cross) else { return None };
            let Some(next) = Self::next_congruent(boundary, align, self.phase) else { return None };
            if self.crosses(next) { None } else { Some(next) }
        } else {
            Some(start)
        }
    }

    const fn crosses(&self, start: u64) -> bool {
        start & (self.no_cross - 1) > self.no_cross - self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_and_highest_agree_with_trying_every_page() {
        let step = if cfg!(miri) { 17 } else { 1 };
        for pages in (1..=6).step_by(if cfg!(miri) { 4 } else { 1 }) {
            for align in [1, 2, 4, 8, 16] {
                for phase in 0..align {
                    for no_cross in [0, 8, 16] {
                        let mut fit = Fit::new(pages).unwrap().align(align).unwrap().phase(phase).unwrap();
                        if no_cross != 0 {
                            fit = fit.no_cross(no_cross).unwrap();
                        }
                        for start in (0..40).step_by(step) {
                            for end in (start + 1..start + 40).step_by(step) {
                                let meets = |s: &u64| {
                                    s + pages <= end
                                        && s % align == phase
                                        && (no_cross == 0 || s / no_cross == (s + pages - 1) / no_cross)
                                };
                                let range = PageRange::new(start, end).unwrap();
                                let (low, high) = (fit.lowest_in(range), fit.highest_in(range));
                                assert_eq!(low, (start..end).find(meets), "{fit:?} in {range:?}");
                                assert_eq!(high, (start..end).rfind(meets), "{fit:?} in {range:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bad_requests_are_typed_errors() {
        assert_eq!(Fit::new(0), Err(RequestError::ZeroSize));
        let fit = Fit::new(4).unwrap();
        for align in [0, 3, u64::MAX] {
            assert_eq!(fit.align(align), Err(RequestError::AlignNotPowerOfTwo { align }));
        }
        assert!(fit.align(1 << 63).is_ok(), "a power of two, however large, is a valid question");
        assert_eq!(fit.within(9, 9), Err(RequestError::LimitsReversed { start: 9, end: 9 }));
        assert_eq!(fit.phase(1), Err(RequestError::PhaseTooLarge { phase: 1, align: 1 }));
        assert_eq!(fit.no_cross(2), Err(RequestError::BadBoundary { boundary: 2, pages: 4 }));
        assert_eq!(fit.no_cross(12), Err(RequestError::BadBoundary { boundary: 12, pages: 4 }));
    }
}
