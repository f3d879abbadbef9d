//! What lives in a space, as the oracle knows it.

use super::op::Target;
use crate::ask::Ask;
use crate::map::Map;
use crate::naive::NaiveMap;
use std::collections::{BTreeMap, VecDeque};
use vmalloc::{AllocError, AreaInfo, PageRange};

/// The live areas with their guards, and the addresses freed latest.
#[derive(Debug)]
pub(super) struct Live {
    page_shift: u32,
    taken: NaiveMap,
    areas: BTreeMap<usize, AreaInfo>,
    freed: VecDeque<usize>,
}

/// Freed addresses remembered, to be freed again.
const REMEMBERED: usize = 16;

impl Live {
    pub(super) fn new(span: PageRange, page_shift: u32) -> Self {
        Self { page_shift, taken: NaiveMap::new(span), areas: BTreeMap::new(), freed: VecDeque::new() }
    }

    pub(super) fn span(&self) -> PageRange {
        self.taken.span()
    }

    pub(super) const fn page_shift(&self) -> u32 {
        self.page_shift
    }

    pub(super) fn count(&self) -> usize {
        self.areas.len()
    }

    /// Returns the pages of live areas and their guards.
    pub(super) fn pages(&self) -> u64 {
        self.span().len() - self.taken.free_pages()
    }

    pub(super) fn largest_free(&self) -> u64 {
        self.taken.largest_free()
    }

    /// Returns the place that `ask` would get if everything freed were back.
    pub(super) fn place(&self, ask: &Ask) -> Result<PageRange, AllocError> {
        self.taken.place(ask)
    }

    pub(super) fn areas(&self) -> impl Iterator<Item = AreaInfo> + '_ {
        self.areas.values().copied()
    }

    pub(super) fn first(&self) -> Option<AreaInfo> {
        self.areas().next()
    }

    pub(super) fn at_start(&self, addr: usize) -> Option<AreaInfo> {
        self.areas.get(&addr).copied()
    }

    /// Returns the area whose pages or guard hold `addr`.
    pub(super) fn holder(&self, addr: usize) -> Option<AreaInfo> {
        let (_, &area) = self.areas.range(..=addr).next_back()?;
        self.range(&area).contains(addr as u64 >> self.page_shift).then_some(area)
    }

    /// Returns the address that `target` means now.
    pub(super) fn address(&self, target: Target) -> usize {
        match target {
            Target::Address(addr) => addr,
            Target::Live(nth) => self.nth(nth).map_or(0, |area| area.addr),
            Target::Inside(nth, offset) => {
                let length = |area: &AreaInfo| (area.pages as usize) << self.page_shift;
                self.nth(nth).map_or(offset, |area| area.addr + offset % length(&area))
            }
            Target::Freed(nth) => {
                let index = (nth as usize).checked_rem(self.freed.len());
                index.map_or(0, |index| self.freed[index])
            }
        }
    }

    /// Notes a new area; `false` when its pages or its guard belong to another.
    pub(super) fn insert(&mut self, area: AreaInfo) -> bool {
        self.areas.insert(area.addr, area);
        self.taken.alloc_at(self.range(&area)).is_ok()
    }

    pub(super) fn remove(&mut self, area: &AreaInfo) {
        self.areas.remove(&area.addr);
        self.taken.free(self.range(area).start()).expect("it was live");
        self.freed.push_front(area.addr);
        self.freed.truncate(REMEMBERED);
    }

    fn range(&self, area: &AreaInfo) -> PageRange {
        let pages = area.pages + u64::from(area.guard);
        PageRange::from_len(area.addr as u64 >> self.page_shift, pages).expect("an area is not empty")
    }

    fn nth(&self, nth: u32) -> Option<AreaInfo> {
        let index = (nth as usize).checked_rem(self.areas.len())?;
        self.areas().nth(index)
    }
}
