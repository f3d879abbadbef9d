//! Page numbers and page ranges, with checked arithmetic.
//!
//! Inside the allocator every position is a **page number** (address ÷ page size, a `u64` named
//! `page`, `start` or `end`) and every length a **page count** (a `u64` named `pages` or `len`).
//! Bytes appear only at the public boundary, in names that say so (`bytes`, `addr`).

use core::fmt;

/// A non-empty run of pages `[start, end)`, by page number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRange {
    start: u64,
    end: u64,
}

impl From<PageRange> for core::ops::Range<u64> {
    fn from(range: PageRange) -> Self {
        range.start..range.end
    }
}

impl PageRange {
    /// The pages `[start, end)`, or `None` when that is empty or reversed.
    #[inline]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// `len` pages from `start`, or `None` when `len` is zero or the end is not representable.
    #[inline]
    pub const fn from_len(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Self::new(start, end),
            None => None,
        }
    }

    /// A range that the caller knows to be non-empty.
    #[inline]
    pub(crate) fn of(start: u64, end: u64) -> Self {
        debug_assert!(start < end, "empty page range {start:#x}..{end:#x}");
        Self { start, end }
    }

    /// The first page.
    #[inline]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The page after the last one.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// How many pages: never zero, which is why there is no `is_empty`.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether `page` lies inside.
    #[inline]
    pub const fn contains(&self, page: u64) -> bool {
        self.start <= page && page < self.end
    }

    /// Whether all of `other` lies inside.
    #[inline]
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The pages common to both, if there are any.
    #[inline]
    pub const fn intersection(&self, other: &Self) -> Option<Self> {
        let start = if self.start > other.start { self.start } else { other.start };
        let end = if self.end < other.end { self.end } else { other.end };
        Self::new(start, end)
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

/// `value` rounded up to a multiple of the power of two `align`; `None` when that overflows.
#[inline]
pub(crate) const fn align_up(value: u64, align: u64) -> Option<u64> {
    match value.checked_add(align - 1) {
        Some(sum) => Some(sum & !(align - 1)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_never_empty_reversed_or_overflowing() {
        assert_eq!(PageRange::new(5, 5), None);
        assert_eq!(PageRange::new(6, 5), None);
        assert_eq!(PageRange::from_len(5, 0), None);
        assert_eq!(PageRange::from_len(u64::MAX, 1), None);
        assert_eq!(PageRange::from_len(5, 3).map(|r| (r.start(), r.end(), r.len())), Some((5, 8, 3)));
    }

    #[test]
    fn align_up_reports_overflow() {
        assert_eq!(align_up(0, 8), Some(0));
        assert_eq!(align_up(9, 8), Some(16));
        assert_eq!(align_up(u64::MAX, 8), None);
    }
}
