//! The stock: freed areas that kept their memory and wait in no node. One list serves all CPUs.
//!
//! Areas come here that are too large for a node or lie in leaves that are not dense, and small
//! ones that a node did not need while the space grew. They are few, and what their owners do with
//! them takes far longer than a lock.
//!
//! Areas that lie side by side become one, and a request takes the part that it needs of the
//! smallest area that holds it. What is evicted is a part as well, of the area that has lain
//! longest:
//!
//! ```text
//!   waits     │▒▒▒▒ 10 ▒▒▒▒│      │▒▒▒ 7 ▒▒▒│▒▒▒▒ 10 ▒▒▒▒│▒▒▒▒ 8 ▒▒▒▒│
//!   joined    │▒▒▒▒ 10 ▒▒▒▒│      │▒▒▒▒▒▒▒▒▒▒▒▒▒ 25 ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒│   a request of 19 pages
//!   taken     │▒▒▒▒ 10 ▒▒▒▒│      │██████████ 19 ██████████│▒▒▒ 6 ▒▒▒│
//! ```
//!
//! So memory that waits serves requests of any size, as the extents of jemalloc do (Evans, 2006).
//! Where areas have guard pages they stay as they are, for a guard page has no memory: then a
//! request gets an area as a whole, if that is not much too large.
//!
//! The memory is drawn from the [budget](super::Budget). An area for which there is none left takes
//! the place of memory that has lain longest.

#[cfg(test)]
mod tests;

use super::BATCH;
use super::budget::Budget;
use super::stacks::Fraction;
use crate::PageRange;
use alloc::vec::Vec;
use core::mem::offset_of;

/// The most areas: a request looks at each, 32 KiB.
const MOST: usize = 1024;

/// Areas that kept their memory and wait in no node.
#[derive(Default)]
pub(crate) struct Stock {
    /// Ascending by address.
    areas: Vec<Stocked>,
    /// Pages of all areas.
    pages: u64,
    /// Pages of memory behind them.
    memory: u64,
    /// The fewest pages of all areas since the last decay: so many were not needed.
    least: u64,
    /// The number of the next area.
    next: u64,
    /// Areas that were taken for requests, so far.
    pub(crate) reused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stocked {
    area: PageRange,
    /// Pages of memory behind it, of the budget.
    memory: u64,
    /// Larger for areas freed later.
    number: u64,
}

/// The means to cut and join areas that wait: those of the area map.
pub(crate) trait Borders {
    /// Makes `part` of the area `whole` an area of its own, and so what is left on either side.
    /// Returns false, and changes nothing, where memory is short.
    fn cut(&self, whole: PageRange, part: PageRange) -> bool;
    /// Joins the area that starts at `page` to the one before it.
    fn join(&self, page: u64);
}

/// A request to the stock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Pages of the area.
    pub(crate) pages: u64,
    /// The most pages that an area may have which is not cut.
    pub(crate) most: u64,
    /// A power of two: the area starts at a multiple of so many pages.
    pub(crate) align: u64,
}

/// The result of keeping an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Put {
    /// True if the area is kept.
    pub(crate) is_kept: bool,
    /// Pages of memory behind the areas that made room for it.
    pub(crate) evicted: u64,
}

impl Wanted {
    /// Returns the pages of `area` that serve the request, if any do.
    fn part_of(&self, area: PageRange, may_cut: bool) -> Option<PageRange> {
        let start = area.start().checked_next_multiple_of(self.align)?;
        if may_cut {
            let part = PageRange::from_len(start, self.pages)?;
            return area.covers(&part).then_some(part);
        }
        (start == area.start() && (self.pages..=self.most).contains(&area.len())).then_some(area)
    }
}

impl Stock {
    /// The places of the list and of an area in its entries, and the size of these: for an outline.
    pub(crate) const FIELDS: [usize; 3] =
        [offset_of!(Self, areas), offset_of!(Stocked, area), size_of::<Stocked>()];

    /// Keeps `area` with `memory` pages of memory, if the budget has them. What has to make room
    /// for it is pushed to `evicted`, in which there is room for `room` areas.
    pub(crate) fn put(
        &mut self,
        budget: &Budget,
        area: PageRange,
        memory: u64,
        room: usize,
        evicted: &mut Vec<PageRange>,
        borders: Option<&impl Borders>,
    ) -> Put {
        let mut put = Put::default();
        if !self.has_room() || budget.free() + self.memory < memory {
            return put;
        }
        put.is_kept = budget.take(memory, memory).is_some();
        let mut left = room.min(BATCH - 1);
        while !put.is_kept && left != 0 {
            let missing = memory.saturating_sub(budget.free());
            let Some((oldest, gone)) = self.take_oldest(missing.max(1), borders) else { break };
            evicted.push(oldest);
            budget.put(gone);
            (put.evicted, left) = (put.evicted + gone, left - 1);
            put.is_kept = budget.take(memory, memory).is_some();
        }
        if put.is_kept {
            self.enter(area, memory, borders);
        }
        put
    }

    /// Returns whether there is room for one more area, or for what a cut leaves.
    pub(crate) fn has_room(&mut self) -> bool {
        self.areas.len() < MOST && self.areas.try_reserve(1).is_ok()
    }

    /// Enters an area, for which there is room and whose memory the budget has given already.
    pub(crate) fn enter(&mut self, area: PageRange, memory: u64, borders: Option<&impl Borders>) {
        let mut place = self.areas.partition_point(|kept| kept.area.start() < area.start());
        let mut kept = Stocked { area, memory, number: self.next };
        if let Some(borders) = borders {
            if let Some(behind) = self.areas.get(place).filter(|it| it.area.start() == area.end()) {
                borders.join(behind.area.start());
                kept = kept.and(behind);
                self.areas.remove(place);
            }
            let before = place.checked_sub(1).map(|before| self.areas[before]);
            if let Some(before) = before.filter(|it| it.area.end() == area.start()) {
                borders.join(area.start());
                kept = before.and(&kept);
                place -= 1;
                self.areas.remove(place);
            }
        }
        self.areas.insert(place, kept);
        self.pages += area.len();
        self.memory += memory;
        self.next += 1;
    }

    /// Takes the smallest area or part that serves a request, the lowest of equals. O(areas).
    pub(crate) fn take(
        &mut self,
        budget: &Budget,
        wanted: &Wanted,
        borders: Option<&impl Borders>,
    ) -> Option<PageRange> {
        let borders = borders.filter(|_| self.has_room());
        let part_of = |kept: &Stocked| wanted.part_of(kept.area, borders.is_some());
        let parts = self.areas.iter().enumerate().filter_map(|(place, kept)| Some((place, part_of(kept)?)));
        let (place, part) = parts.min_by_key(|(_, part)| part.len())?;
        let (area, memory) = self.take_part(place, part, borders)?;
        budget.put(memory);
        self.reused += 1;
        Some(area)
    }

    /// Moves at most `most` areas to `out`, the one that has lain longest first, until they have
    /// `pages` pages. Returns their pages of memory.
    pub(crate) fn evict(
        &mut self,
        pages: u64,
        most: usize,
        out: &mut Vec<PageRange>,
        borders: Option<&impl Borders>,
    ) -> u64 {
        let (mut left, mut gone) = (pages, 0);
        for _ in 0..most {
            let oldest = if left != 0 { self.take_oldest(left, borders) } else { None };
            let Some((area, memory)) = oldest else { break };
            out.push(area);
            (left, gone) = (left.saturating_sub(area.len()), gone + memory);
        }
        gone
    }

    /// Returns how many pages a decay is to evict, of those that were not needed since the last.
    pub(crate) fn due(&mut self, fraction: Fraction) -> u64 {
        let due = match fraction {
            Fraction::All => self.pages,
            Fraction::Quarter => self.least.min(self.pages.div_ceil(4)),
            Fraction::Idle => self.least,
        };
        self.least = self.pages - due;
        due
    }

    /// Takes the area that has lain longest: of a larger one the first pages, as many as are due.
    fn take_oldest(&mut self, pages: u64, borders: Option<&impl Borders>) -> Option<(PageRange, u64)> {
        let borders = borders.filter(|_| self.has_room());
        let oldest = self.areas.iter().enumerate().min_by_key(|(_, kept)| kept.number);
        let (place, Stocked { area, memory, .. }) = oldest.map(|(place, kept)| (place, *kept))?;
        let is_cut = borders.is_some() && pages < area.len() && memory == area.len();
        let end = if is_cut { area.start() + pages } else { area.end() };
        self.take_part(place, PageRange::of(area.start(), end), borders).or_else(|| {
            // Without memory for the cut all of it goes.
            self.take_part(place, area, borders)
        })
    }

    /// Takes a part of the area at `place`. Returns it and its pages of memory; `None`, and nothing
    /// is changed, where memory for a cut is short.
    fn take_part(
        &mut self,
        place: usize,
        part: PageRange,
        borders: Option<&impl Borders>,
    ) -> Option<(PageRange, u64)> {
        let kept = self.areas[place];
        if part != kept.area && !borders?.cut(kept.area, part) {
            return None;
        }
        self.areas.remove(place);
        let mut memory = kept.memory;
        // From the back, so that they are in order.
        let rests = [(part.end(), kept.area.end()), (kept.area.start(), part.start())];
        for area in rests.into_iter().filter_map(|(start, end)| PageRange::new(start, end)) {
            let rest = Stocked { area, memory: kept.share_of(&area), ..kept };
            memory -= rest.memory;
            self.areas.insert(place, rest);
        }
        self.memory -= memory;
        self.pages -= part.len();
        self.least = self.least.min(self.pages);
        Some((part, memory))
    }

    /// Returns all areas, ascending by address.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = PageRange> + '_ {
        self.areas.iter().map(|kept| kept.area)
    }

    /// Returns the pages of all areas.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the pages of memory behind them.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    pub(crate) fn bytes(&self) -> usize {
        self.areas.capacity() * size_of::<Stocked>()
    }
}

impl Stocked {
    /// Returns this and the area behind it as one, which has lain as long as the larger of both.
    fn and(&self, behind: &Self) -> Self {
        let larger = if self.area.len() < behind.area.len() { behind } else { self };
        let area = PageRange::of(self.area.start(), behind.area.end());
        Self { area, memory: self.memory + behind.memory, number: larger.number }
    }

    /// Returns how many of the pages of memory are counted as those of `part`.
    fn share_of(&self, part: &PageRange) -> u64 {
        let share = u128::from(self.memory) * u128::from(part.len()) / u128::from(self.area.len());
        share as u64
    }
}
