//! The four scenarios of `memory_set` 0.4.1 (taken under its Apache-2.0 licence).
//!
//! It keeps areas with flags, maps over what is there on request, and unmaps or changes any range.
//! Addresses are pages here, from page 0 on.

use std::collections::BTreeMap;
use std::ops::Range;
use vmalloc_map::{AreaMap, Fit, FitError, PageRange};

const MAX: u64 = 0x10000;

/// Areas with flags, by their start.
struct Set {
    map: AreaMap<'static>,
    flags: BTreeMap<u64, u8>,
}

impl Set {
    fn new() -> Self {
        let span = PageRange::new(0, MAX).expect("not empty");
        Self { map: AreaMap::new(span).expect("room"), flags: BTreeMap::new() }
    }

    /// Returns eight areas of 0x1000 pages, with as many free pages behind each.
    fn every_other(flags: u8) -> Self {
        let mut set = Self::new();
        (0..MAX).step_by(0x2000).for_each(|start| set.map(start, 0x1000, flags).expect("free"));
        set
    }

    fn map(&mut self, start: u64, len: u64, flags: u8) -> Result<(), FitError> {
        self.map.alloc_at(PageRange::from_len(start, len).expect("not empty"))?;
        self.flags.insert(start, flags);
        Ok(())
    }

    /// Unmaps all that is mapped in a range.
    fn unmap(&mut self, start: u64, len: u64) {
        let range = PageRange::from_len(start, len).expect("not empty");
        let parts: Vec<_> = self.areas().filter_map(|(area, _)| area.intersection(&range)).collect();
        for part in parts {
            let area = self.map.find(part.start()).expect("mapped");
            let flags = self.flags.remove(&area.start()).expect("it has flags");
            self.map.free_part(part).expect("it is busy");
            let left = [area.start(), part.end()].map(|page| self.map.find(page));
            let left = left.into_iter().flatten().filter(|left| area.covers(left));
            self.flags.extend(left.map(|left| (left.start(), flags)));
        }
        self.map.verify().expect("intact");
    }

    /// Gives the mapped pages of a range other flags, where `change` has some.
    fn protect(&mut self, start: u64, len: u64, change: impl Fn(u8) -> Option<u8>) {
        let range = PageRange::from_len(start, len).expect("not empty");
        let parts: Vec<_> =
            self.areas().filter_map(|(area, flags)| Some((area.intersection(&range)?, flags))).collect();
        for (part, flags) in parts {
            let Some(new) = change(flags) else { continue };
            for edge in [part.start(), part.end()] {
                if let Some(area) = self.map.find(edge).filter(|area| area.start() != edge) {
                    self.map.split(area.start(), edge).expect("inside");
                    let flags = self.flags[&area.start()];
                    self.flags.insert(edge, flags);
                }
            }
            self.flags.insert(part.start(), new);
        }
        self.map.verify().expect("intact");
    }

    fn areas(&self) -> impl Iterator<Item = (PageRange, u8)> + '_ {
        self.map.areas().map(|area| (area.range, self.flags[&area.range.start()]))
    }

    fn find(&self, page: u64) -> Option<(Range<u64>, u8)> {
        let area = self.map.find(page)?;
        Some((area.start()..area.end(), self.flags[&area.start()]))
    }

    /// Returns a free place for `len` pages at or behind `hint`.
    fn free_place(&self, hint: u64, len: u64, align: u64) -> Option<u64> {
        self.map.clone().alloc(&Fit::new(len).align(align).within(hint, MAX)).ok().map(|area| area.start())
    }
}

#[test]
fn areas_are_mapped_over_others_and_unmapped() {
    let mut set = Set::every_other(1);
    (0x1000..MAX).step_by(0x2000).for_each(|start| set.map(start, 0x1000, 2).expect("free"));
    assert_eq!((set.areas().count(), set.map.free_pages()), (16, 0));
    assert_eq!(set.find(0x4100), Some((0x4000..0x5000, 1)));
    assert!(matches!(set.map(0x4000, 0x4000, 3), Err(FitError::Occupied { .. })));
    set.unmap(0x4000, 0x4000);
    set.map(0x4000, 0x4000, 3).expect("free now");
    assert_eq!((set.areas().count(), set.find(0x4100)), (13, Some((0x4000..0x8000, 3))));
    set.unmap(0x4000, 0x8000);
    assert_eq!(set.areas().count(), 8);
    set.unmap(0, MAX * 2);
    assert!(set.areas().count() == 0 && set.map.is_whole());
}

#[test]
fn unmapping_trims_and_splits_areas() {
    let mut set = Set::every_other(1);
    (0..MAX).step_by(0x2000).for_each(|start| set.unmap(start + 0xc00, 0x1800));
    assert_eq!(set.areas().count(), 8);
    for (area, flags) in set.areas() {
        let whole = if area.start() == 0 { (0, 0xc00) } else { (0x400, 0x800) };
        assert_eq!((area.start() % 0x1000, area.len(), flags), (whole.0, whole.1, 1));
    }
    (0..MAX).step_by(0x2000).for_each(|start| set.unmap(start + 0x800, 0x100));
    assert_eq!(set.areas().count(), 16);
    for (area, flags) in set.areas() {
        let len = match area.start() % 0x1000 {
            0 => 0x800,
            0x400 => 0x400,
            0x900 => 0x300,
            other => panic!("an area at {other:#x}"),
        };
        assert_eq!((area.len(), flags), (len, 1));
    }
    set.unmap(0, MAX);
    assert!(set.areas().count() == 0 && set.map.is_whole());
}

#[test]
fn protection_splits_areas() {
    let update = |new: u8| move |old: u8| (old & 7 != new & 7).then_some(new & 7 | old & !7);
    let mut set = Set::every_other(7);
    (0..MAX).step_by(0x2000).for_each(|start| set.protect(start + 0xc00, 0x1800, update(1)));
    assert_eq!(set.areas().count(), 23);
    for (area, flags) in set.areas() {
        let expected = match area.start() % 0x1000 {
            _ if area.start() == 0 => (0xc00, 7),
            0 => (0x400, 1),
            0x400 => (0x800, 7),
            _ => (0x400, 1),
        };
        assert_eq!((area.len(), flags), expected, "{area:?}");
    }
    (0..MAX).step_by(0x2000).for_each(|start| set.protect(start + 0x800, 0x100, update(0x13)));
    assert_eq!(set.areas().count(), 39);
    for (area, flags) in set.areas() {
        let expected = match area.start() % 0x1000 {
            _ if area.start() == 0 => (0x800, 7),
            0 => (0x400, 1),
            0x400 => (0x400, 7),
            0x800 => (0x100, 3),
            0x900 => (0x300, 7),
            _ => (0x400, 1),
        };
        assert_eq!((area.len(), flags), expected, "{area:?}");
    }
    (0..MAX).step_by(0x2000).for_each(|start| set.protect(start + 0x880, 0x80, update(3)));
    assert_eq!(set.areas().count(), 39, "they have these flags");
    set.unmap(0, MAX);
    assert!(set.areas().count() == 0 && set.map.is_whole());
}

#[test]
fn free_places_are_found_behind_a_hint() {
    let set = Set::every_other(1);
    let cases = [
        (0, 0x1000, 1, Some(0x1000)),
        (0x800, 0x800, 0x800, Some(0x1000)),
        (0x1800, 0x800, 0x800, Some(0x1800)),
        (0x1800, 0x1000, 0x1000, Some(0x3000)),
        (0x2000, 0x1000, 0x1000, Some(0x3000)),
        (0xf000, 0x1000, 0x1000, Some(0xf000)),
        (0xf001, 0x1000, 0x1000, None),
    ];
    for (hint, len, align, place) in cases {
        assert_eq!(set.free_place(hint, len, align), place, "{len:#x} pages at {hint:#x}");
    }
}
