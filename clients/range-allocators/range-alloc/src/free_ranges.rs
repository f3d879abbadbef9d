//! The adapter: vmalloc's area map knows every range, and a set beside it the free ones by their size.
//!
//! The map has no best fit. The set answers it in O(log n).

use std::fmt::Debug;
use std::ops::{Add, Range};

use crate::by_size::BySize;
use vmalloc_map::State;
use vmalloc_map::{AreaMap, PageRange};

/// An integer of at most 64 bits: what a range is made of.
///
/// The original takes any type with arithmetic. The map has to number the values, which arithmetic alone does not allow.
pub trait Index: Copy + PartialOrd + Debug + sealed::Sealed {
    /// Returns how far this is behind `base`, which is not larger.
    fn offset(self, base: Self) -> u64;
    /// Returns the value `offset` behind `base`, or the highest below it that can be represented.
    fn at(base: Self, offset: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! index {
    ($($signed:ty, $unsigned:ty;)*) => { $(index!(@ $signed, $unsigned); index!(@ $unsigned, $unsigned);)* };
    (@ $integer:ty, $unsigned:ty) => {
        impl sealed::Sealed for $integer {}
        impl Index for $integer {
            #[inline]
            fn offset(self, base: Self) -> u64 {
                self.wrapping_sub(base) as $unsigned as u64
            }
            #[inline]
            fn at(base: Self, offset: u64) -> Self {
                base.wrapping_add(offset as $integer)
            }
        }
    };
}

index! { i8, u8; i16, u16; i32, u32; i64, u64; isize, usize; }

/// Where a request goes: a start in a free range, both as offsets from the start of the allocator's range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    free: PageRange,
    start: u64,
}

/// Every free range of an allocator, as offsets from the start of its range.
#[derive(Debug)]
pub(crate) struct FreeRanges<T> {
    base: T,
    /// Missing while the allocator's range is empty.
    map: Option<AreaMap<'static>>,
    /// Sizes and starts of the free ranges.
    by_size: BySize,
}

impl<T: Index> FreeRanges<T> {
    /// Returns one free range, which is empty if `range` is.
    pub(crate) fn new(range: &Range<T>) -> Self {
        assert!(range.start <= range.end, "the range {range:?} is reversed");
        let mut free = Self { base: range.start, map: None, by_size: BySize::new() };
        free.extend(range.end);
        free
    }

    /// Lets everything end at `end`, with free values behind the old end.
    pub(crate) fn extend(&mut self, end: T) {
        let end = end.offset(self.base);
        let Some(map) = &mut self.map else {
            self.map = PageRange::new(0, end).map(|span| AreaMap::new(span).expect("out of memory"));
            PageRange::new(0, end).into_iter().for_each(|range| self.by_size.insert(range));
            return;
        };
        let old = map.span().end();
        let last = map.segment(old - 1).filter(|last| last.state == State::Free).map(|last| last.range);
        map.extend(end).expect("a range grows, and there is memory");
        last.into_iter().for_each(|last| self.by_size.remove(last));
        let start = last.map_or(old, |last| last.start());
        PageRange::new(start, end).into_iter().for_each(|range| self.by_size.insert(range));
    }

    /// Returns where `length` values go: into the free range that has least to spare behind them, the lowest of equals.
    ///
    /// `align_start` moves a start up by less than `alignment`.
    #[inline]
    pub(crate) fn best(&self, length: u64, alignment: u64, align_start: impl Fn(T) -> T) -> Option<Place> {
        if alignment == 1 {
            // Sorted by size and start, so the first is it.
            return self.by_size.smallest(length).map(|free| Place { free, start: free.start() });
        }
        let mut best: Option<(u64, Place)> = None;
        for free in self.by_size.from(length) {
            if best.is_some_and(|(usable, _)| free.len() - usable >= alignment) {
                break;
            }
            let start = align_start(T::at(self.base, free.start())).offset(self.base);
            let usable = free.len().checked_sub(start - free.start()).filter(|usable| *usable >= length);
            let place = usable.map(|usable| (usable, Place { free, start }));
            best = place.into_iter().chain(best).min_by_key(|(usable, place)| (*usable, place.start));
        }
        best.map(|(_, place)| place)
    }

    /// Takes `length` values at a place that [`best`](Self::best) has just found for them, and returns the first.
    #[inline]
    pub(crate) fn take(&mut self, place: Place, length: u64) -> T {
        let Place { free, start } = place;
        let end = start + length;
        let map = self.map.as_mut().expect("a free range is in the map");
        map.alloc_at(PageRange::new(start, end).expect("a length is not zero")).expect("out of memory");
        self.by_size.remove(free);
        let rests = [PageRange::new(free.start(), start), PageRange::new(end, free.end())];
        rests.into_iter().flatten().for_each(|rest| self.by_size.insert(rest));
        T::at(self.base, start)
    }

    /// Frees the values of `range`, all of which are taken.
    #[inline]
    pub(crate) fn put(&mut self, range: &Range<T>) {
        let (start, end) = (range.start.offset(self.base), range.end.offset(self.base));
        let map = self.map.as_mut().expect("the range is not empty");
        // A range need not be what one request took: it may be a part of it, or several.
        match map.find(start) {
            Some(area) if area.start() == start && area.end() == end => {
                map.free(start).expect("the area is busy");
            }
            _ => free_parts(map, start, end).unwrap_or_else(|| panic!("{range:?} is not allocated")),
        }
        // The map has joined it with what is free on either side.
        let whole = map.segment(start).expect("the range is in the span").range;
        let sides = [PageRange::new(whole.start(), start), PageRange::new(end, whole.end())];
        sides.into_iter().flatten().for_each(|side| self.by_size.remove(side));
        self.by_size.insert(whole);
    }

    /// Returns true if one free range covers everything.
    pub(crate) fn is_whole(&self) -> bool {
        self.map.as_ref().is_none_or(AreaMap::is_whole)
    }

    /// Returns how many values are free, added to `zero`.
    pub(crate) fn total(&self, zero: T) -> T {
        T::at(zero, self.map.as_ref().map_or(0, AreaMap::free_pages))
    }

    /// Returns the free ranges by their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<T>> + '_ {
        let at = |offset| T::at(self.base, offset);
        self.map.iter().flat_map(AreaMap::free_ranges).map(move |range| at(range.start())..at(range.end()))
    }
}

/// Frees every value from `start` to `end`, or nothing where one of them is free.
fn free_parts(map: &mut AreaMap<'_>, start: u64, end: u64) -> Option<()> {
    let parts =
        |map: &AreaMap<'_>, page| map.find(page).and_then(|area| PageRange::new(page, area.end().min(end)));
    let mut page = start;
    while page < end {
        page = parts(map, page)?.end();
    }
    page = start;
    while page < end {
        let part = parts(map, page)?;
        map.free_part(part).expect("out of memory");
        page = part.end();
    }
    Some(())
}

/// For the published tests, which look into an allocator.
impl<T: Index + Add> PartialEq<Vec<Range<T>>> for FreeRanges<T> {
    fn eq(&self, other: &Vec<Range<T>>) -> bool {
        self.iter().eq(other.iter().cloned())
    }
}
