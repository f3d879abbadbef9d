//! Many areas as ascending ranges with neighbours joined, as a platform is asked to unmap them.

use crate::addr::PageRange;
use alloc::vec::Vec;

/// Ranges as words, which are sorted in half the time: the first page, counted from the start of
/// the span, above [`LEN_BITS`] bits for the number of pages. A longer range is several keys.
pub(crate) struct Keys<'a> {
    pub(crate) base: u64,
    pub(crate) keys: &'a mut Vec<u64>,
}

/// Bits of a key for the pages: areas of a pool and joined ones of some thousand pages are one key.
const LEN_BITS: u32 = 12;
const MAX_LEN: u64 = (1 << LEN_BITS) - 1;

impl Keys<'_> {
    /// Writes all of `areas` in order, neighbours joined, to `ranges`; `None` when memory is short.
    pub(crate) fn coalesce<'a>(
        self,
        areas: impl Iterator<Item = &'a PageRange>,
        ranges: &mut Vec<PageRange>,
    ) -> Option<()> {
        self.sort(areas)?.join(ranges)
    }

    /// Takes all of `areas` in and sorts them; `None` when memory is short.
    ///
    /// They come in the order in which they were freed, which is often that of their addresses,
    /// forwards or backwards: neighbours that are joined at once need not be sorted.
    fn sort<'a>(mut self, areas: impl Iterator<Item = &'a PageRange>) -> Option<Self> {
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
        let (mut from, mut len) = (range.start() - self.base, range.len());
        while len > 0 {
            let part = len.min(MAX_LEN);
            self.keys.try_reserve(1).ok()?;
            self.keys.push(from.checked_mul(1 << LEN_BITS)? | part);
            (from, len) = (from + part, len - part);
        }
        Some(())
    }

    /// Writes the ranges in order, neighbours joined; `None` when memory is short.
    fn join(self, ranges: &mut Vec<PageRange>) -> Option<()> {
        ranges.clear();
        ranges.try_reserve(self.keys.len()).ok()?;
        for key in self.keys.iter() {
            let start = self.base + (key >> LEN_BITS);
            let end = start + (key & MAX_LEN);
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
        ];
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        let sorted = Keys { base: 7, keys: &mut keys }.sort(areas.iter()).unwrap();
        sorted.join(&mut ranges).unwrap();
        assert_eq!(ranges, [area(9, 13), area(30, 31), area(40, 61), area(100, 20_000)]);
        assert!(Keys { base: 0, keys: &mut keys }.sort([area(1 << 60, 1 << 61)].iter()).is_none());
    }
}
