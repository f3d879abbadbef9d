//! The adapter: areas by address, and beside them vmalloc's area map, which finds free addresses.
//!
//! The tree keeps what is known of an area. The map has a busy area for each, once there are many:
//! its records take some 37 KiB at least, and a walk over few areas is as fast.
//!
//! The map counts in pages of 4 KiB while all areas begin and end at one, and in the largest power
//! of two that divides all since. A finer unit takes one pass over all areas.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Deref;

use ax_memory_addr::AddrRange;
use vmalloc_map::{AreaMap, Fit, PageRange};

use crate::{MappingBackend, MappingResult, MemoryArea};

const COARSEST: u64 = 1 << 12;
/// The most areas without a map. The map goes when half as many are left.
const FEW: usize = 64;

/// The busy addresses.
#[derive(Clone)]
struct Busy {
    unit: u64,
    map: AreaMap<'static>,
}

impl Busy {
    fn new(unit: u64) -> Self {
        // No area holds the very last byte, so the last unit may be counted as a whole one.
        let span = PageRange::new(0, (usize::MAX as u64).div_ceil(unit)).expect("a unit is small");
        // The original can't report that the heap is full either.
        Self { unit, map: AreaMap::new(span).expect("out of memory") }
    }

    fn of<'a, B: MappingBackend + 'a>(areas: impl Iterator<Item = &'a MemoryArea<B>>) -> Self {
        let mut busy = Self::new(COARSEST);
        for area in areas {
            let is_free = busy.take(area.start().into() as u64, area.end().into() as u64);
            assert!(is_free, "areas of a set do not overlap");
        }
        busy
    }

    fn units(&self, start: u64, end: u64) -> PageRange {
        PageRange::new(start / self.unit, end / self.unit).expect("an area is not empty")
    }

    /// Counts in a unit that divides `number`, from now on.
    fn refine(&mut self, number: u64) {
        let divisor = number | self.unit;
        let unit = divisor & divisor.wrapping_neg();
        if unit == self.unit {
            return;
        }
        let mut finer = Self::new(unit);
        for area in self.map.areas() {
            let (start, end) = (area.range.start() * self.unit, area.range.end() * self.unit);
            finer.map.alloc_at(finer.units(start, end)).expect("out of memory");
        }
        *self = finer;
    }

    /// Returns false if an address of the range is busy already.
    fn take(&mut self, start: u64, end: u64) -> bool {
        self.refine(start | end);
        match self.map.alloc_at(self.units(start, end)) {
            Err(vmalloc_map::FitError::Metadata) => panic!("out of memory"),
            taken => taken.is_ok(),
        }
    }

    fn give(&mut self, start: u64) {
        self.map.free(start / self.unit).expect("each area of the tree is busy in the map");
    }

    /// Returns the lowest start from `from` on, a multiple of `align`, with `size` free bytes.
    fn lowest(&self, from: usize, size: usize, align: usize) -> Option<usize> {
        let (first, bytes, align) = (from as u64, size as u64, align as u64);
        // From within a unit only this start is no multiple of the unit.
        if !first.is_multiple_of(self.unit) {
            let last = first.checked_add(bytes - 1)? / self.unit;
            let here = self.map.segment(first / self.unit)?;
            if here.state == vmalloc_map::State::Free && last < here.range.end() {
                return Some(from);
            }
        }
        let fit = Fit::new(bytes.div_ceil(self.unit)).align((align / self.unit).max(1));
        let fit = fit.within(first.div_ceil(self.unit), self.map.span().end());
        let found = self.map.place_for(&fit).ok()?;
        usize::try_from(found.start() * self.unit).ok()
    }
}

/// The areas of a set, by their starts. It reads as a tree.
#[derive(Clone)]
pub(crate) struct Areas<B: MappingBackend> {
    tree: BTreeMap<B::Addr, MemoryArea<B>>,
    /// Missing while areas are few.
    busy: Option<Box<Busy>>,
}

/// A change of areas that is made ready before it is made.
pub(crate) struct Staged<B: MappingBackend> {
    pub(crate) removed: Vec<B::Addr>,
    pub(crate) inserted: Vec<MemoryArea<B>>,
}

impl<B: MappingBackend> Staged<B> {
    pub(crate) const fn new() -> Self {
        Self { removed: Vec::new(), inserted: Vec::new() }
    }
}

impl<B: MappingBackend> Deref for Areas<B> {
    type Target = BTreeMap<B::Addr, MemoryArea<B>>;

    fn deref(&self) -> &Self::Target {
        &self.tree
    }
}

impl<B: MappingBackend> Areas<B> {
    pub(crate) const fn new() -> Self {
        Self { tree: BTreeMap::new(), busy: None }
    }

    /// Returns the areas that have addresses of `range`, in order.
    pub(crate) fn intersecting(&self, range: AddrRange<B::Addr>) -> impl Iterator<Item = &MemoryArea<B>> {
        let before = self.tree.range(..range.start).next_back();
        let before = before.filter(|(_, area)| area.end() > range.start);
        let from = before.map_or(range.start, |(&start, _)| start);
        self.tree.range(from..).map(|(_, area)| area).take_while(move |area| area.start() < range.end)
    }

    /// Returns the lowest start from `from` on, a multiple of `align`, with `size` free addresses
    /// below `end`. Size and alignment are not 0, and `from` is aligned.
    pub(crate) fn find_free(&self, from: usize, size: usize, end: usize, align: usize) -> Option<usize> {
        let start = match &self.busy {
            Some(busy) => busy.lowest(from, size, align)?,
            None => self.walk(from, size, end, align)?,
        };
        start.checked_add(size).filter(|found| *found <= end).map(|_| start)
    }

    /// Returns the lowest start as `find_free`, if it is below `end`; what it begins may go on
    /// above.
    fn walk(&self, from: usize, size: usize, end: usize, align: usize) -> Option<usize> {
        let range = AddrRange::try_new(from.into(), end.into())?;
        let mut start = from;
        for area in self.intersecting(range) {
            if area.start().into() >= start.checked_add(size)? {
                break;
            }
            start = area.end().into().checked_add(align - 1)? & !(align - 1);
        }
        Some(start)
    }

    /// Inserts an area. Returns false, and changes nothing, if it has addresses of another.
    pub(crate) fn insert(&mut self, area: MemoryArea<B>) -> bool {
        let is_free = match &mut self.busy {
            Some(busy) => busy.take(area.start().into() as u64, area.end().into() as u64),
            None => self.intersecting(area.va_range()).next().is_none(),
        };
        if is_free {
            self.tree.insert(area.start(), area);
            if self.busy.is_none() && self.tree.len() > FEW {
                self.busy = Some(Box::new(Busy::of(self.tree.values())));
            }
        }
        is_free
    }

    /// Removes the area that starts at `start`. Takes no memory.
    pub(crate) fn remove(&mut self, start: &B::Addr) -> Option<MemoryArea<B>> {
        let area = self.tree.remove(start)?;
        if self.tree.len() <= FEW / 2 {
            self.busy = None;
        } else if let Some(busy) = &mut self.busy {
            busy.give((*start).into() as u64);
        }
        Some(area)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Changes the area that starts at `start`: not its start, but its end may be another
    /// afterwards, with no other area in between.
    pub(crate) fn change<T>(
        &mut self,
        start: &B::Addr,
        change: impl FnOnce(&mut MemoryArea<B>) -> MappingResult<T>,
    ) -> Option<MappingResult<T>> {
        let area = self.tree.get_mut(start)?;
        let before = area.end();
        let result = change(area);
        if let Some(busy) = self.busy.as_mut().filter(|_| area.end() != before) {
            busy.give((*start).into() as u64);
            let is_free = busy.take((*start).into() as u64, area.end().into() as u64);
            assert!(is_free, "an area grows over another");
        }
        Some(result)
    }

    /// Makes a change that is ready.
    pub(crate) fn apply(&mut self, staged: Staged<B>) {
        staged.removed.iter().for_each(|start| drop(self.remove(start)));
        for area in staged.inserted {
            let is_free = self.insert(area);
            assert!(is_free, "parts of an area lie upon another");
        }
    }

    /// Puts areas back in place of what is left of them.
    pub(crate) fn put_back(&mut self, areas: Vec<MemoryArea<B>>) {
        for area in areas {
            let removed = self.intersecting(area.va_range()).map(MemoryArea::start).collect();
            self.apply(Staged { removed, inserted: [area].into() });
        }
    }
}
