//! A request for congruent areas, checked and counted in pages, and the search for its base.

use crate::error::{CongruentError, NoCongruentSpace};
use vmalloc::{Fit, PageRange, Policy};

/// Offsets and sizes as the caller gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lists<'a> {
    Pages(&'a [u64], &'a [u64]),
    /// In bytes; log2 of the page size.
    Bytes(&'a [usize], &'a [usize], u32),
}

impl Lists<'_> {
    /// Returns the number of offsets, and that of sizes.
    fn lens(&self) -> (usize, usize) {
        match self {
            Self::Pages(offsets, sizes) => (offsets.len(), sizes.len()),
            Self::Bytes(offsets, sizes, _) => (offsets.len(), sizes.len()),
        }
    }

    fn get(&self, index: usize) -> (u64, u64) {
        match self {
            Self::Pages(offsets, sizes) => (offsets[index], sizes[index]),
            Self::Bytes(offsets, sizes, _) => (offsets[index] as u64, sizes[index] as u64),
        }
    }

    fn shift(&self) -> u32 {
        if let Self::Bytes(_, _, shift) = self { *shift } else { 0 }
    }

    fn unit(&self) -> &'static str {
        if let Self::Bytes(..) = self { "bytes" } else { "pages" }
    }

    /// Returns the largest size, which is that of an object, and the last end.
    fn most(&self) -> (u64, u64) {
        match self {
            Self::Pages(..) => (u64::MAX, u64::MAX),
            Self::Bytes(..) => (isize::MAX as u64, usize::MAX as u64),
        }
    }
}

/// Congruent areas that are asked for, of which each is right by itself and none overlap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    lists: Lists<'a>,
    /// Pages.
    align: u64,
    /// Pages from the base to the end of the last part.
    extent: u64,
}

impl<'a> Parts<'a> {
    pub(crate) fn check(lists: Lists<'a>, align: u64) -> Result<Self, CongruentError> {
        let (offsets, sizes) = lists.lens();
        if offsets != sizes {
            return Err(CongruentError::LengthsDiffer { offsets, sizes });
        }
        if offsets == 0 {
            return Err(CongruentError::NoAreas);
        }
        if !align.is_power_of_two() {
            return Err(CongruentError::AlignNotPowerOfTwo { align });
        }
        if align >> lists.shift() == 0 {
            return Err(CongruentError::AlignNotPages { align });
        }
        let mut parts = Self { lists, align: align >> lists.shift(), extent: 0 };
        for index in 0..sizes {
            parts.check_part(index)?;
            parts.extent = parts.extent.max(parts.end(index));
        }
        match parts.first_overlap() {
            Some((first, second)) => Err(CongruentError::Overlap { first, second }),
            None => Ok(parts),
        }
    }

    fn check_part(&self, index: usize) -> Result<(), CongruentError> {
        let ((offset, size), (most_size, most_end)) = (self.lists.get(index), self.lists.most());
        if offset & ((1 << self.lists.shift()) - 1) != 0 {
            return Err(CongruentError::OffsetNotPages { index, offset });
        }
        if size == 0 {
            return Err(CongruentError::ZeroSize { index });
        }
        let end = offset.checked_add(size).filter(|&end| size <= most_size && end <= most_end);
        end.map(|_| ()).ok_or(CongruentError::Overflow { index })
    }

    /// Returns two parts that overlap. It takes one pass if they ascend. Else each is compared with
    /// each, which takes no memory, and of parts there are as many as a machine has groups of CPUs.
    fn first_overlap(&self) -> Option<(usize, usize)> {
        let ascending = (1..self.len()).all(|index| self.end(index - 1) <= self.offset(index));
        if ascending {
            return None;
        }
        let overlap = |first: usize, second: usize| {
            self.offset(first) < self.end(second) && self.offset(second) < self.end(first)
        };
        (1..self.len())
            .find_map(|second| (0..second).find(|&first| overlap(first, second)).map(|first| (first, second)))
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.lens().0
    }

    /// Returns the offset and the size of part `index`, which were checked, in pages.
    fn pages_of(&self, index: usize) -> (u64, u64) {
        let ((offset, size), shift) = (self.lists.get(index), self.lists.shift());
        (offset >> shift, (size + ((1 << shift) - 1)) >> shift)
    }

    fn offset(&self, index: usize) -> u64 {
        self.pages_of(index).0
    }

    fn end(&self, index: usize) -> u64 {
        let (offset, size) = self.pages_of(index);
        offset + size
    }

    /// Returns the sum of the sizes: they don't overlap, so there is one.
    pub(crate) fn pages(&self) -> u64 {
        (0..self.len()).map(|index| self.pages_of(index).1).sum()
    }

    /// Returns the pages of part `index` at page `base`, if there are such pages.
    pub(crate) fn part(&self, base: u64, index: usize) -> Option<PageRange> {
        let (offset, size) = self.pages_of(index);
        PageRange::from_len(base.checked_add(offset)?, size)
    }

    /// Checks that all parts are pages at page `base`.
    pub(crate) fn check_at(&self, base: u64) -> Result<(), CongruentError> {
        match base.checked_add(self.extent) {
            Some(_) => Ok(()),
            None => Err(CongruentError::Overflow { index: self.at(base).count() }),
        }
    }

    /// Returns the parts at page `base`, up to the first that no pages reach.
    pub(crate) fn at(&self, base: u64) -> impl Iterator<Item = PageRange> + Clone + '_ {
        (0..self.len()).map_while(move |index| self.part(base, index))
    }

    /// Returns the highest base from which `place` has a place for every part inside `within`.
    /// `place` returns the first page of the highest place for a request.
    pub(crate) fn base(&self, within: PageRange, place: impl Fn(&Fit) -> Option<u64>) -> Option<u64> {
        // From there no part ends behind the last page.
        let mut base = within.end().checked_sub(self.extent)? & !(self.align - 1);
        let (mut fitting, mut index) = (0, 0);
        while fitting < self.len() {
            let below = PageRange::new(within.start(), self.part(base, index)?.end())?;
            // A base below zero is none.
            let possible = place(&self.fit(index, below))?.checked_sub(self.offset(index))?;
            if possible < base {
                (base, fitting) = (possible & !(self.align - 1), 0);
            }
            // Else there may be no multiple of the alignment where the part fits: it is asked
            // again.
            if possible == base {
                fitting += 1;
                index = (index + 1) % self.len();
            }
        }
        Some(base)
    }

    /// Returns what part `index` asks for below: a multiple of what divides its offset and the
    /// alignment of the base.
    fn fit(&self, index: usize, below: PageRange) -> Fit {
        let (offset, size) = self.pages_of(index);
        let fit = Fit::new(size).align(1 << (self.align | offset).trailing_zeros());
        fit.policy(Policy::Highest).within(below.start(), below.end())
    }

    #[cold]
    pub(crate) fn no_space(&self, within: PageRange, largest: u64) -> CongruentError {
        let factor = 1 << self.lists.shift();
        let sizes = [self.pages(), self.extent, self.align, largest];
        let [size, extent, align, largest] = sizes.map(|pages| pages.saturating_mul(factor));
        let (areas, within, unit) = (self.len(), within.times(factor), self.lists.unit());
        NoCongruentSpace { areas, size, extent, align, within, largest, unit }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::vec::Vec;
    use vmalloc::AreaMap;

    /// Returns the base that is found in `map`, and the searches that it took.
    fn count(map: &AreaMap<'_>, offsets: &[u64], sizes: &[u64], align: u64) -> (Option<u64>, u64) {
        let (parts, searches) = (Parts::check(Lists::Pages(offsets, sizes), align), Cell::new(0));
        let place = |fit: &Fit| {
            searches.set(searches.get() + 1);
            map.place_for(fit).ok().map(|place| place.start())
        };
        (parts.expect("a right request").base(map.span(), place), searches.get())
    }

    /// Returns `count` holes of each size in turn, with a page in use between them, a stride apart.
    fn holes(count: u64, stride: u64, sizes: &[u64]) -> (AreaMap<'static>, Vec<PageRange>) {
        let span = PageRange::from_len(1 << 31, count * stride).expect("not empty");
        let (mut map, mut ranges) = (AreaMap::new(span).expect("the heap has room"), Vec::new());
        for nth in 0..count {
            let (at, size) = (span.start() + nth * stride, sizes[nth as usize % sizes.len()]);
            let used = PageRange::new(at + size, at + stride).expect("not empty");
            map.alloc_at(used).expect("free so far");
            ranges.push(PageRange::from_len(at, size).expect("not empty"));
        }
        (map, ranges)
    }

    /// Two parts, one in each of two neighbouring holes, need eight pages each, and every second
    /// hole is too small.
    #[test]
    fn free_ranges_that_refuse_a_part_are_visited_once() {
        for (number, stride) in [(1_000, 64), (1_000, 1 << 30), (10_000, 16)] {
            let (map, ranges) = holes(number, stride, &[7, 8]);
            let (base, searches) = count(&map, &[0, stride], &[8, 8], 1);
            assert_eq!(base, None);
            let most = 4 * (ranges.len() as u64 / 2 + 1);
            assert!(searches <= most, "{searches} searches for {number} holes");
        }
    }

    /// Every hole has room for the part, and none where the base is aligned. The map knows no
    /// phase, so each is asked for a place, once.
    #[test]
    fn free_ranges_at_another_phase_are_visited_once() {
        let (map, ranges) = holes(10_000, 16, &[3]);
        let (base, searches) = count(&map, &[1], &[3], 16);
        assert_eq!(base, None);
        assert!(searches <= ranges.len() as u64 + 1, "{searches} searches");
    }

    /// The lowest base of all is the only one.
    #[test]
    fn the_last_place_is_found_behind_all_others() {
        let (mut map, ranges) = holes(5_000, 64, &[9, 5, 9]);
        // Nine pages, five in the next hole, nine again: that is only at every third stride.
        for (index, hole) in ranges.iter().enumerate().skip(3).step_by(3) {
            let page = PageRange::from_len(hole.start() + index as u64 % 9, 1).expect("not empty");
            map.alloc_at(page).expect("free");
        }
        let (base, searches) = count(&map, &[0, 64, 128], &[9, 5, 9], 1);
        assert_eq!(base, Some(ranges[0].start()));
        assert!(searches <= 9 * (2 * ranges.len() as u64 + 1), "{searches} searches");
    }

    #[test]
    fn an_empty_span_takes_one_search_a_part() {
        let map = AreaMap::new(PageRange::new(1, 1 << 51).expect("not empty")).expect("the heap has room");
        let offsets: Vec<u64> = (0..64).map(|index| index << 30).collect();
        let (base, searches) = count(&map, &offsets, &[1 << 20; 64], 1 << 9);
        assert!(base.is_some() && searches == 64, "{base:?} by {searches} searches");
    }
}
