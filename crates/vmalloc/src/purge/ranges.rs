//! Many areas as ascending ranges with neighbours joined, as a platform is asked to unmap them.

use crate::PageRange;
use alloc::vec::Vec;

/// Ranges as words, which are sorted in half the time: the first page, counted from the start of
/// the span, above [`LEN_BITS`] bits for the number of pages. A longer range has none there, and is
/// in a list of its own.
pub(crate) struct Keys<'a> {
    base: u64,
    keys: &'a mut Vec<u64>,
    long: Vec<PageRange>,
}

/// Bits of a key for the pages: areas of a pool and joined ones of some thousand pages are one key.
const LEN_BITS: u32 = 12;
const MAX_LEN: u64 = (1 << LEN_BITS) - 1;

impl<'a> Keys<'a> {
    /// Returns the ranges of a span that begins at page `base`, in the memory of `keys`.
    pub(crate) fn new(base: u64, keys: &'a mut Vec<u64>) -> Self {
        Self { base, keys, long: Vec::new() }
    }

    /// Writes all of `areas` in order, neighbours joined, to `ranges`; `None` when memory is short.
    pub(crate) fn coalesce<'b>(
        self,
        areas: impl Iterator<Item = &'b PageRange>,
        ranges: &mut Vec<PageRange>,
    ) -> Option<()> {
        self.sort(areas)?.join(ranges)
    }

    /// Takes all of `areas` in and sorts them; `None` when memory is short.
    ///
    /// They come in the order in which they were freed, which is often that of their addresses,
    /// forwards or backwards: neighbours that are joined at once need not be sorted.
    fn sort<'b>(mut self, areas: impl Iterator<Item = &'b PageRange>) -> Option<Self> {
        self.keys.clear();
        let mut areas = areas.copied();
        let Some(mut last) = areas.next() else { return Some(self) };
        for area in areas {
            let (start, end) = (last.start().min(area.start()), last.end().max(area.end()));
            // Disjoint ranges with no page between them are neighbours.
            if end - start == last.len() + area.len() {
                last = PageRange::of(start, end);
            } else {
                self.push(last)?;
                last = area;
            }
        }
        self.push(last)?;
        self.keys.sort_unstable();
        self.long.sort_unstable_by_key(PageRange::start);
        Some(self)
    }

    #[inline(always)]
    fn push(&mut self, range: PageRange) -> Option<()> {
        // A span has fewer pages than 2^52 where pages have 4 KiB; with smaller ones the top bits
        // might be lost.
        let from = range.start() - self.base;
        let fits = range.len() <= MAX_LEN && from >> (u64::BITS - LEN_BITS) == 0;
        if fits && self.keys.len() < self.keys.capacity() {
            self.keys.push(from << LEN_BITS | range.len());
            return Some(());
        }
        self.push_slow(range)
    }

    /// Adds a long range, or one for which memory is needed.
    #[inline(never)]
    fn push_slow(&mut self, range: PageRange) -> Option<()> {
        let from = (range.start() - self.base).checked_mul(1 << LEN_BITS)?;
        let len = if range.len() <= MAX_LEN { range.len() } else { 0 };
        if len == 0 {
            self.long.try_reserve(1).ok()?;
            self.long.push(range);
        }
        self.keys.try_reserve(1).ok()?;
        self.keys.push(from | len);
        Some(())
    }

    /// Writes the ranges in order, neighbours joined; `None` when memory is short.
    fn join(self, ranges: &mut Vec<PageRange>) -> Option<()> {
        ranges.clear();
        ranges.try_reserve(self.keys.len()).ok()?;
        let mut long = self.long.iter();
        for key in self.keys.iter() {
            let start = self.base + (key >> LEN_BITS);
            let end = match key & MAX_LEN {
                0 => long.next()?.end(),
                len => start + len,
            };
            match ranges.last_mut() {
                Some(last) if last.end() == start => *last = PageRange::of(last.start(), end),
                _ => ranges.push(PageRange::of(start, end)),
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_ascending_ranges_with_neighbours_joined() {
        let area = |start, end| PageRange::of(start, end);
        let areas = [
            area(50, 60),
            area(40, 50),
            area(60, 61),
            area(9, 12),
            area(30, 31),
            area(100, 20_000),
            area(12, 13),
            area(1 << 45, 1 << 46),
            area(20_000, 20_001),
            area(1 << 40, 1 << 45),
        ];
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        let sorted = Keys::new(7, &mut keys).sort(areas.iter()).unwrap();
        assert_eq!(sorted.keys.len(), 8, "a key each, however long");
        sorted.join(&mut ranges).unwrap();
        let long = [area(100, 20_001), area(1 << 40, 1 << 46)];
        assert_eq!(ranges[..3], [area(9, 13), area(30, 31), area(40, 61)]);
        assert_eq!(ranges[3..], long);
        assert!(Keys::new(0, &mut keys).sort([area(1 << 60, 1 << 61)].iter()).is_none());
    }
}
