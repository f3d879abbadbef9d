//! Ranges of addresses of any kind, in an area map of `vmalloc`.

use core::ops::Range;

use vmalloc::{AreaMap, Fit, PageRange};

use crate::{
    mm::PAGE_SIZE,
    sync::{PreemptDisabled, SpinLock, SpinLockGuard},
};

pub(crate) struct RangeAllocator {
    fullrange: Range<usize>,
    map: SpinLock<Option<Map>>,
}

/// An error returned when allocating from a [`RangeAllocator`].
#[derive(Debug)]
pub(crate) struct RangeAllocError;

impl RangeAllocator {
    pub(crate) const fn new(fullrange: Range<usize>) -> Self {
        Self { fullrange, map: SpinLock::new(None) }
    }

    pub(crate) const fn fullrange(&self) -> &Range<usize> {
        &self.fullrange
    }

    /// Allocates a specific range.
    pub(crate) fn alloc_specific(&self, range: &Range<usize>) -> Result<(), RangeAllocError> {
        self.lock().as_mut().ok_or(RangeAllocError)?.alloc_at(&self.fullrange, range)
    }

    /// Allocates a range of the `size`: the lowest that is free.
    pub(crate) fn alloc(&self, size: usize) -> Result<Range<usize>, RangeAllocError> {
        let mut map = self.lock();
        let map = map.as_mut().ok_or(RangeAllocError)?;
        map.refine(&self.fullrange, size)?;
        let units = map.map.alloc(&Fit::new(size as u64 >> map.shift));
        units.map(|units| map.bytes(units)).map_err(|_| RangeAllocError)
    }

    /// Frees a `range`, which was allocated, or a part of one.
    ///
    /// # Panics
    ///
    /// When it is not allocated.
    pub(crate) fn free(&self, range: Range<usize>) {
        let mut map = self.lock();
        let freed = map.as_mut().ok_or(RangeAllocError).and_then(|map| {
            map.refine(&self.fullrange, range.start | range.end)?;
            map.map.free_part(map.units(&range)?).map_err(|_| RangeAllocError)
        });
        freed.unwrap_or_else(|_| panic!("{:#x?} is freed, and not allocated", range));
    }

    /// Returns the map, which is made when it is first asked for. There is none without memory.
    fn lock(&self) -> SpinLockGuard<'_, Option<Map>, PreemptDisabled> {
        let mut map = self.map.lock();
        if map.is_none() {
            *map = Map::new(&self.fullrange, PAGE_SIZE.trailing_zeros()).ok();
        }
        map
    }
}

/// An area map in units of `1 << shift` bytes: of pages, until an address is not one of a page.
struct Map {
    shift: u32,
    map: AreaMap<'static>,
}

impl Map {
    /// Makes an empty map, of units so large or smaller.
    fn new(full: &Range<usize>, shift: u32) -> Result<Self, RangeAllocError> {
        let shift = shift.min((full.start | full.end).trailing_zeros());
        let span = PageRange::new((full.start >> shift) as u64, (full.end >> shift) as u64);
        let map = AreaMap::new(span.ok_or(RangeAllocError)?).map_err(|_| RangeAllocError)?;
        Ok(Self { shift, map })
    }

    /// Makes the units so small that `number` is a multiple of them. Nothing is changed on an error.
    fn refine(&mut self, full: &Range<usize>, number: usize) -> Result<(), RangeAllocError> {
        if number.trailing_zeros() >= self.shift {
            return Ok(());
        }
        let mut finer = Self::new(full, number.trailing_zeros())?;
        for area in self.map.areas() {
            finer.alloc_at(full, &self.bytes(area.range))?;
        }
        *self = finer;
        Ok(())
    }

    fn alloc_at(&mut self, full: &Range<usize>, range: &Range<usize>) -> Result<(), RangeAllocError> {
        self.refine(full, range.start | range.end)?;
        self.map.alloc_at(self.units(range)?).map_err(|_| RangeAllocError)
    }

    fn units(&self, range: &Range<usize>) -> Result<PageRange, RangeAllocError> {
        let units = PageRange::new((range.start >> self.shift) as u64, (range.end >> self.shift) as u64);
        units.ok_or(RangeAllocError)
    }

    fn bytes(&self, units: PageRange) -> Range<usize> {
        (units.start() as usize) << self.shift..(units.end() as usize) << self.shift
    }
}

#[cfg(ktest)]
mod test {
    use super::*;
    use crate::prelude::*;

    #[ktest]
    fn units_become_smaller_and_nothing_is_lost() {
        let ranges = RangeAllocator::new(0x10_0000..0x20_0000);
        ranges.alloc_specific(&(0x10_0000..0x10_3000)).unwrap();
        ranges.alloc_specific(&(0x10_3010..0x10_3020)).unwrap();
        assert!(ranges.alloc_specific(&(0x10_2fff..0x10_3000)).is_err());
        assert!(ranges.alloc_specific(&(0x10_301f..0x10_4000)).is_err());
        assert_eq!(ranges.alloc(0x10).unwrap(), 0x10_3000..0x10_3010);
        ranges.free(0x10_1000..0x10_2001);
        assert_eq!(ranges.alloc(0x1001).unwrap(), 0x10_1000..0x10_2001);
        assert!(ranges.alloc(0x10_0000).is_err());
    }

    #[ktest]
    fn odd_ranges_are_refused() {
        let ranges = RangeAllocator::new(0x1000..0x9000);
        assert!(ranges.alloc_specific(&(0x2000..0x2000)).is_err());
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = 0x3000..0x2000;
        assert!(ranges.alloc_specific(&reversed).is_err());
        assert!(ranges.alloc_specific(&(0x8000..0xa000)).is_err());
        assert!(ranges.alloc(usize::MAX).is_err());
        assert_eq!(ranges.alloc(0x8000).unwrap(), 0x1000..0x9000);
    }

    #[ktest]
    #[should_panic]
    fn double_free_is_reported() {
        let ranges = RangeAllocator::new(0x1000..0x9000);
        let range = ranges.alloc(0x1000).unwrap();
        ranges.free(range.clone());
        ranges.free(range);
    }
}
