//! Page numbers and page ranges, with checked arithmetic.
//!
//! Inside the allocator every position is a **page number** (address ÷ page size, a `u64` named
//! `page`, `start` or `end`) and every length a **page count** (a `u64` named `pages` or `len`).
//! Bytes appear only at the public boundary, in names that say so (`bytes`, `addr`).

use core::fmt;
use core::mem::offset_of;
use core::ops::Range;

/// A non-empty run of pages `[start, end)`, by page number; in errors that tell bytes, by address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Range<u64>", into = "Range<u64>"))]
pub struct PageRange {
    start: u64,
    end: u64,
}

impl From<PageRange> for Range<u64> {
    fn from(range: PageRange) -> Self {
        range.start..range.end
    }
}

impl PageRange {
    /// The places of the first page and the end, and the size: for an outline.
    #[doc(hidden)]
    pub const FIELDS: [usize; 3] = [offset_of!(Self, start), offset_of!(Self, end), size_of::<Self>()];

    /// Returns the pages `[start, end)`, or `None` when that is empty or reversed.
    #[inline]
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// Returns `len` pages from `start`, or `None` when `len` is zero or the end is not
    /// representable.
    #[inline]
    #[must_use]
    pub const fn from_len(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Self::new(start, end),
            None => None,
        }
    }

    /// Returns a range that the caller knows to be non-empty.
    #[inline]
    #[doc(hidden)]
    pub fn of(start: u64, end: u64) -> Self {
        debug_assert!(start < end, "empty page range {start:#x}..{end:#x}");
        Self { start, end }
    }

    /// Returns the range in units that are so many times smaller, or as far as there are numbers:
    /// in bytes, for messages.
    #[doc(hidden)]
    #[must_use]
    pub const fn times(&self, factor: u64) -> Self {
        Self { start: self.start.saturating_mul(factor), end: self.end.saturating_mul(factor) }
    }

    /// Returns the first page.
    #[inline]
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Returns the page after the last one.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Returns how many pages there are: never zero, which is why there is no `is_empty`.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns true if `page` lies inside.
    #[inline]
    #[must_use]
    pub const fn contains(&self, page: u64) -> bool {
        self.start <= page && page < self.end
    }

    /// Returns true if all of `other` lies inside.
    #[inline]
    #[must_use]
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Returns the pages common to both, if there are any.
    #[inline]
    #[must_use]
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
}
