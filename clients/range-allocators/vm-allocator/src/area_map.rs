//! The adapter: vmalloc's area map, with the original's requests and errors.
//!
//! The map counts in units: in pages of 4 KiB, as long as every size and place asked for is a multiple of them, and in the largest power of two that
//! divides all since. That keeps its records few, and large alignments cheap. A finer unit takes one pass over all areas.

use std::cmp::Ordering;

use vmalloc_map::{FitError, AreaMap, Fit, PageRange, Policy};

use crate::{AllocPolicy, Constraint, Error, RangeInclusive, Result};

const COARSEST: u64 = 1 << 12;

/// The state of a range. A range has no owner, or it has one.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Eq, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NodeState {
    /// Node is free.
    Free,
    /// Node is allocated.
    Allocated,
}

/// The ranges of one allocator. Its name is the original's, which its caller uses.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Plain", into = "Plain"))]
pub struct IntervalTree {
    key: RangeInclusive,
    unit: u64,
    /// Missing while there is no whole unit: one byte at the very top.
    map: Option<AreaMap<'static>>,
}

/// Returns the largest power of two up to `unit` that divides `number`.
fn common(unit: u64, number: u64) -> u64 {
    let divisor = number | unit;
    divisor & divisor.wrapping_neg()
}

impl IntervalTree {
    /// Returns a map in which `key` is free.
    pub fn new(key: RangeInclusive) -> Self {
        let unit = common(common(COARSEST, key.start), Self::end(key));
        Self { key, unit, map: Self::map(key, unit) }
    }

    /// Returns the end of what can be handed out. As in the original, that is not the last byte of all.
    fn end(key: RangeInclusive) -> u64 {
        key.end.saturating_add(1)
    }

    fn map(key: RangeInclusive, unit: u64) -> Option<AreaMap<'static>> {
        let span = PageRange::new(key.start / unit, Self::end(key) / unit)?;
        // The original can't report that memory is out either.
        Some(AreaMap::new(span).expect("out of memory"))
    }

    /// Counts in a unit that divides `number`, from now on.
    fn refine(&mut self, number: u64) {
        let unit = common(self.unit, number);
        if unit == self.unit {
            return;
        }
        let mut finer = Self { key: self.key, unit, map: Self::map(self.key, unit) };
        for range in self.allocated() {
            finer.allocate_at(range.start, range.len()).expect("the ranges do not overlap");
        }
        *self = finer;
    }

    fn bytes(&self, units: PageRange) -> RangeInclusive {
        RangeInclusive { start: units.start() * self.unit, end: units.end() * self.unit - 1 }
    }

    /// Returns what is allocated, by addresses.
    fn allocated(&self) -> impl Iterator<Item = RangeInclusive> + '_ {
        self.map.iter().flat_map(AreaMap::areas).map(move |area| self.bytes(area.range))
    }

    /// Allocates a range for `constraint`.
    pub fn allocate(&mut self, constraint: Constraint) -> Result<RangeInclusive> {
        let Constraint { size, align, policy } = constraint;
        self.refine(size);
        let units = size / self.unit;
        let fit = Fit::new(units).align((align / self.unit).max(1));
        let unit = match policy {
            AllocPolicy::ExactMatch(start) => return self.allocate_at(start, size),
            AllocPolicy::FirstMatch => fit,
            AllocPolicy::LastMatch => fit.policy(Policy::Highest),
        };
        let map = self.map.as_mut().ok_or(Error::ResourceNotAvailable)?;
        let found = map.alloc(&unit).map_err(why)?;
        Ok(self.bytes(found))
    }

    fn allocate_at(&mut self, start: u64, size: u64) -> Result<RangeInclusive> {
        let end = start.checked_add(size).ok_or(Error::Overflow)?;
        self.refine(start);
        let units = PageRange::new(start / self.unit, end / self.unit).ok_or(Error::InvalidSize(size))?;
        let map = self.map.as_mut().ok_or(Error::ResourceNotAvailable)?;
        let made = map.alloc_at(units).map_err(why);
        let range = self.bytes(units);
        if made.is_err() && self.area(&range).is_some() {
            return Err(Error::InvalidStateTransition(range, NodeState::Allocated));
        }
        made.map(|_| range)
    }

    /// Returns the area that has the addresses of `key` and no others.
    fn area(&self, key: &RangeInclusive) -> Option<PageRange> {
        let area = self.map.as_ref()?.find(key.start / self.unit)?;
        if self.bytes(area) == *key { Some(area) } else { None }
    }

    /// Frees a range that was allocated, and no part of one.
    pub fn free(&mut self, key: &RangeInclusive) -> Result<()> {
        let area = self.area(key).ok_or(Error::ResourceNotAvailable)?;
        let map = self.map.as_mut().ok_or(Error::ResourceNotAvailable)?;
        map.free(area.start()).map(drop).map_err(|_| Error::ResourceNotAvailable)
    }
}

/// Returns the original's word for a refusal.
fn why(refused: FitError) -> Error {
    match refused {
        FitError::Metadata => panic!("out of memory"),
        _ => Error::ResourceNotAvailable,
    }
}

/// Allocators are equal if they manage the same range, and the same parts of it are allocated.
impl PartialEq for IntervalTree {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for IntervalTree {}

impl PartialOrd for IntervalTree {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for IntervalTree {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| self.allocated().cmp(other.allocated()))
    }
}

/// An allocator as it is written.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Plain {
    key: RangeInclusive,
    allocated: alloc::vec::Vec<RangeInclusive>,
}

#[cfg(feature = "serde")]
impl From<IntervalTree> for Plain {
    fn from(tree: IntervalTree) -> Self {
        Self { key: tree.key, allocated: tree.allocated().collect() }
    }
}

#[cfg(feature = "serde")]
impl std::convert::TryFrom<Plain> for IntervalTree {
    type Error = Error;

    fn try_from(plain: Plain) -> Result<Self> {
        let mut tree = Self::new(plain.key);
        for range in plain.allocated {
            tree.refine(range.len());
            tree.allocate_at(range.start, range.len())?;
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/src/allocation_engine/interval_tree.rs"));

    #[test]
    fn a_finer_unit_keeps_what_is_allocated() {
        let mut tree = IntervalTree::new(RangeInclusive::new(0, 0xFFFF).unwrap());
        let page = tree.allocate(Constraint::new(0x1000, 1, AllocPolicy::LastMatch).unwrap()).unwrap();
        assert_eq!((tree.unit, page.start()), (0x1000, 0xF000));
        let bytes = tree.allocate(Constraint::new(0x30, 1, AllocPolicy::LastMatch).unwrap()).unwrap();
        assert_eq!((tree.unit, bytes.start()), (0x10, 0xEFD0));
        assert_eq!(tree.allocated().collect::<alloc::vec::Vec<_>>(), [bytes, page]);
        assert_eq!(
            tree.free(&RangeInclusive::new(0xF000, 0xF00F).unwrap()),
            Err(Error::ResourceNotAvailable)
        );
        tree.free(&page).unwrap();
    }
}
