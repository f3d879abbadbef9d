//! Free ranges in the standard library's trees, as a program would write them for itself.

use crate::ranges::{BASE_PAGE, Plan, Ranges, SPACE_PAGES};
use std::collections::{BTreeMap, BTreeSet};

/// First page and pages.
type Area = (u64, u64);

/// The lowest start in the hole that fits, if one does.
fn fit(hole: u64, len: u64, pages: u64, align: u64) -> Option<u64> {
    let start = hole.next_multiple_of(align);
    (start + pages <= hole + len).then_some(start)
}

/// The pieces of a hole that an area leaves, before and behind it.
fn remains(hole: u64, len: u64, area: Area) -> impl Iterator<Item = Area> {
    let (start, end) = (area.0, area.0 + area.1);
    [(hole, start - hole), (end, hole + len - end)].into_iter().filter(|piece| piece.1 > 0)
}

/// Holes by start; the lowest that fits, found by walking.
pub struct BTreeFirst {
    holes: BTreeMap<u64, u64>,
}

impl Ranges for BTreeFirst {
    type Handle = Area;
    const NAME: &'static str = "BTreeMap first fit";
    const ALIGNS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self { holes: BTreeMap::from([(BASE_PAGE, SPACE_PAGES)]) }
    }

    fn allocate(&mut self, pages: u64, align: u64) -> Area {
        let found =
            self.holes.iter().find_map(|(&hole, &len)| Some((hole, len, fit(hole, len, pages, align)?)));
        let (hole, len, start) = found.expect("space for every workload");
        self.holes.remove(&hole);
        self.holes.extend(remains(hole, len, (start, pages)));
        (start, pages)
    }

    fn free(&mut self, (mut start, mut len): Area) {
        if let Some(behind) = self.holes.remove(&(start + len)) {
            len += behind;
        }
        if let Some((&before, before_len)) = self.holes.range(..start).next_back()
            && before + before_len == start
        {
            (start, len) = (before, before_len + len);
        }
        self.holes.insert(start, len);
    }

    fn start(area: Area) -> u64 {
        area.0
    }
}

/// Holes by start and by (length, start); the smallest that fits.
pub struct BTreeBest {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl BTreeBest {
    fn insert(&mut self, hole: u64, len: u64) {
        self.by_start.insert(hole, len);
        self.by_size.insert((len, hole));
    }

    fn remove(&mut self, hole: u64, len: u64) {
        self.by_start.remove(&hole);
        self.by_size.remove(&(len, hole));
    }
}

impl Ranges for BTreeBest {
    type Handle = Area;
    const NAME: &'static str = "BTreeMap best fit";
    const ALIGNS: bool = true;

    fn build(_plan: &Plan) -> Self {
        let mut new = Self { by_start: BTreeMap::new(), by_size: BTreeSet::new() };
        new.insert(BASE_PAGE, SPACE_PAGES);
        new
    }

    fn allocate(&mut self, pages: u64, align: u64) -> Area {
        let mut large_enough = self.by_size.range((pages, 0)..);
        let found = large_enough.find_map(|&(len, hole)| Some((hole, len, fit(hole, len, pages, align)?)));
        let (hole, len, start) = found.expect("space for every workload");
        self.remove(hole, len);
        for (piece, len) in remains(hole, len, (start, pages)) {
            self.insert(piece, len);
        }
        (start, pages)
    }

    fn free(&mut self, (mut start, mut len): Area) {
        if let Some(&behind) = self.by_start.get(&(start + len)) {
            self.remove(start + len, behind);
            len += behind;
        }
        if let Some((&before, &before_len)) = self.by_start.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before, before_len);
            (start, len) = (before, before_len + len);
        }
        self.insert(start, len);
    }

    fn start(area: Area) -> u64 {
        area.0
    }
}

/// The areas themselves by start, over best fit: what a lookup costs in a tree of the standard
/// library.
pub struct BTreeAreas {
    free: BTreeBest,
    areas: BTreeMap<u64, u64>,
}

impl Ranges for BTreeAreas {
    type Handle = Area;
    const NAME: &'static str = "BTreeMap of areas";
    const ALIGNS: bool = true;
    const FINDS: bool = true;

    fn build(plan: &Plan) -> Self {
        Self { free: BTreeBest::build(plan), areas: BTreeMap::new() }
    }

    fn allocate(&mut self, pages: u64, align: u64) -> Area {
        let area = self.free.allocate(pages, align);
        self.areas.insert(area.0, area.1);
        area
    }

    fn free(&mut self, area: Area) {
        self.areas.remove(&area.0);
        self.free.free(area);
    }

    fn start(area: Area) -> u64 {
        area.0
    }

    fn find(&self, page: u64) -> Option<u64> {
        let (&start, &len) = self.areas.range(..=page).next_back()?;
        (page < start + len).then_some(start)
    }
}
