//! The stock: freed areas that kept their memory and wait in no node. One list serves all CPUs.
//!
//! Areas come here that are too large for a node or lie in leaves that are not dense, and small
//! ones that a node did not need while the space grew. They are few, and what their owners do with
//! them takes far longer than a lock.
//!
//! Areas that lie side by side are a *run*, and a request takes the part of one that it needs. What
//! is evicted has lain longest:
//!
//! ```text
//!   waits     │▒▒▒▒ 10 ▒▒▒▒│      │▒▒▒ 7 ▒▒▒│▒▒▒▒ 10 ▒▒▒▒│▒▒▒▒ 8 ▒▒▒▒│    a request of 19 pages
//!   taken     │▒▒▒▒ 10 ▒▒▒▒│      │██████████ 19 ██████████│▒▒▒ 6 ▒▒▒│
//! ```
//!
//! So memory that waits serves requests of any size, as the extents of jemalloc do (Evans, 2006).
//!
//! Without guard pages the areas of a run are joined at once, and cutting one costs nothing: the
//! lowest that is large enough serves a request. Areas that end with a guard page, which has no
//! memory, are joined when a request takes them: then the guard pages inside are mapped, and the
//! last page is unmapped where the part does not end with a guard page. Each takes a call of the
//! platform, so the request gets the part that takes the fewest calls, of the smallest run.
//!
//! The memory is drawn from the [budget](super::Budget). An area for which there is none left takes
//! the place of memory that has lain longest.

#[cfg(test)]
mod tests;

use super::budget::Budget;
use super::policy::{BATCH, LONG_LIST};
use super::stacks::Fraction;
use crate::{Fit, PageRange};
use alloc::vec::Vec;
use core::mem::offset_of;

/// Areas that kept their memory and wait in no node.
#[derive(Default)]
pub(crate) struct Stock {
    /// Ascending by address.
    areas: Vec<Stocked>,
    /// The guard pages at the end of each area: one or none.
    guard_pages: u64,
    /// Pages of all areas.
    pub(crate) pages: u64,
    /// Pages of memory behind them.
    pub(crate) memory: u64,
    /// The fewest pages of all areas since the last decay: so many were not needed.
    least: u64,
    /// The number of the next area.
    next: u64,
    /// Areas that were taken for requests, so far.
    pub(crate) reused: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stocked {
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

impl Stock {
    /// The places of the list and of an area in its entries, and the size of these: for an outline.
    pub(crate) const FIELDS: [usize; 3] =
        [offset_of!(Self, areas), offset_of!(Stocked, area), size_of::<Stocked>()];

    /// Returns an empty stock of areas with so many guard pages.
    pub(crate) fn new(guard_pages: u64) -> Self {
        Self { guard_pages, ..Self::default() }
    }

    /// Returns an empty stock that never lacks room.
    #[cfg(test)]
    fn with_room(guard_pages: u64) -> Self {
        Self { areas: Vec::with_capacity(LONG_LIST + 1), ..Self::new(guard_pages) }
    }

    /// Keeps `area` with `memory` pages of memory, if the budget has them. What has to make room
    /// for it is pushed to `evicted`, in which there is room for `room` areas. Returns whether it
    /// is kept, and the pages of memory behind the areas that made room for it.
    pub(crate) fn put(
        &mut self,
        budget: &Budget,
        area: PageRange,
        memory: u64,
        room: usize,
        evicted: &mut Vec<PageRange>,
        borders: &impl Borders,
    ) -> (bool, u64) {
        if !self.has_room() || budget.free() + self.memory < memory {
            return (false, 0);
        }
        let (mut is_kept, mut evicted_memory) = (budget.take(memory, memory).is_some(), 0);
        let most = evicted.len() + room.min(BATCH - 1);
        while !is_kept && evicted.len() < most && !self.areas.is_empty() {
            let missing = memory.saturating_sub(budget.free()).max(1);
            let gone = self.evict(missing, most - evicted.len(), evicted, borders);
            budget.put(gone);
            evicted_memory += gone;
            is_kept = budget.take(memory, memory).is_some();
        }
        if is_kept {
            self.enter(area, memory, borders);
        }
        (is_kept, evicted_memory)
    }

    /// Returns whether there is room for one more area.
    pub(crate) fn has_room(&self) -> bool {
        self.areas.len() < LONG_LIST && self.has_place()
    }

    /// Returns whether there is a place for what a cut leaves.
    fn has_place(&self) -> bool {
        self.areas.len() < self.areas.capacity()
    }

    /// Returns how long the list has to be for `more` areas, if it is not.
    pub(crate) fn lacks(&self, more: usize) -> Option<usize> {
        let need = self.areas.len() + more;
        (need > self.areas.capacity()).then(|| need.max(2 * self.areas.capacity()).max(8))
    }

    pub(super) fn list(&mut self) -> &mut Vec<Stocked> {
        &mut self.areas
    }

    /// Enters an area, for which there is room and whose memory the budget has given already.
    pub(crate) fn enter(&mut self, area: PageRange, memory: u64, borders: &impl Borders) {
        let place = self.areas.partition_point(|kept| kept.area.start() < area.start());
        self.areas.insert(place, Stocked { area, memory, number: self.next });
        for place in [Some(place), place.checked_sub(1)].into_iter().flatten() {
            let Some(&[first, behind]) = self.areas.get(place..place + 2) else { continue };
            if self.guard_pages == 0 && first.is_before(&behind) {
                borders.join(behind.area.start());
                self.areas[place] = first.and(&behind);
                self.areas.remove(place + 1);
            }
        }
        self.pages += area.len();
        self.memory += memory;
        self.next += 1;
    }

    /// Takes the part of a run that serves a request with the fewest calls, `most_calls` at most.
    /// More than `most` pages are cut. Returns it, and whether its last page is to become a guard
    /// page. O(areas log areas).
    pub(crate) fn take(
        &mut self,
        budget: &Budget,
        fit: &Fit,
        most: u64,
        most_calls: usize,
        borders: &impl Borders,
    ) -> Option<(PageRange, bool)> {
        self.has_place().then_some(())?;
        let parts = self.areas.chunk_by(Stocked::is_before).flat_map(|run| {
            let size = self.guard_pages * run.iter().map(|kept| kept.area.len()).sum::<u64>();
            let parts = (0..run.len()).filter_map(|nth| self.part_of(&run[nth..], fit, most));
            parts.map(move |(part, calls)| ((calls, size, part.len()), part))
        });
        let serving = parts.filter(|((calls, ..), _)| *calls <= most_calls);
        let (_, part) = serving.min_by_key(|(cost, _)| *cost)?;
        let place = self.areas.partition_point(|kept| kept.area.end() <= part.start());
        let is_cut = self.areas.binary_search_by_key(&part.end(), |kept| kept.area.end()).is_err();
        budget.put(self.take_part(place, part, borders)?);
        self.reused += 1;
        Some((part, is_cut && self.guard_pages != 0))
    }

    /// Returns the part at the start of a run that serves a request, and the calls that it takes.
    fn part_of(&self, run: &[Stocked], fit: &Fit, most: u64) -> Option<(PageRange, usize)> {
        let (first, has_guards) = (run[0].area, self.guard_pages != 0);
        let start = first.start().checked_next_multiple_of(fit.alignment())?;
        let end = start.checked_add(fit.pages())?;
        let inside = run.partition_point(|kept| kept.area.end() < end);
        let border = run.get(inside)?.area.end();
        let is_long = border - start > most;
        // The pages before it would have no guard page, and a guard page alone is no area.
        let is_odd = start != first.start() || is_long && border == end + 1;
        let part = PageRange::of(start, if is_long { end } else { border });
        let calls = inside + usize::from(has_guards && is_long);
        (!has_guards || !is_odd).then_some((part, calls))
    }

    /// Moves at most `most` areas to `out`, until they have `pages` pages: first those of the run
    /// in which an area has lain longest, and of guarded ones the whole run, so that its addresses
    /// come back in one piece. Returns their pages of memory.
    pub(crate) fn evict(
        &mut self,
        pages: u64,
        most: usize,
        out: &mut Vec<PageRange>,
        borders: &impl Borders,
    ) -> u64 {
        let (mut left, mut gone, mut end, full) = (pages, 0, None, out.len() + most);
        while out.len() < full {
            let next =
                end.and_then(|end| self.areas.binary_search_by_key(&end, |kept| kept.area.start()).ok());
            let oldest = || if left == 0 { None } else { self.oldest_run() };
            let Some(place) = next.or_else(oldest) else { break };
            let (area, memory) = self.take_first(place, left, borders);
            out.push(area);
            (left, gone) = (left.saturating_sub(area.len()), gone + memory);
            end = (self.guard_pages != 0).then_some(area.end());
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
        // Each area that is taken or evicted lowers it.
        self.least = self.pages;
        due
    }

    /// Returns the place of the run in which an area has lain longest.
    fn oldest_run(&self) -> Option<usize> {
        let (oldest, _) = self.areas.iter().enumerate().min_by_key(|(_, kept)| kept.number)?;
        let is_apart = |place: &usize| *place == 0 || !self.areas[place - 1].is_before(&self.areas[*place]);
        (0..=oldest).rev().find(is_apart)
    }

    /// Takes the area at `place`: of a larger one without a guard page the first pages, as many as
    /// are due.
    fn take_first(&mut self, place: usize, due: u64, borders: &impl Borders) -> (PageRange, u64) {
        let Stocked { area, memory, .. } = self.areas[place];
        let may_cut = self.guard_pages == 0 && memory == area.len() && self.has_place();
        let part = PageRange::from_len(area.start(), due).filter(|part| may_cut && part.len() < area.len());
        let cut = part.and_then(|part| Some((part, self.take_part(place, part, borders)?)));
        // Without memory for the cut all of it goes.
        cut.unwrap_or_else(|| (area, self.take_part(place, area, borders).unwrap_or(0)))
    }

    /// Takes a part of the run that begins at `place`, which ends in it. Returns its pages of
    /// memory; `None`, and nothing is changed, where memory for a cut is short.
    fn take_part(&mut self, place: usize, part: PageRange, borders: &impl Borders) -> Option<u64> {
        let last = place + self.areas[place..].partition_point(|kept| kept.area.end() < part.end());
        let (first, kept) = (self.areas[place], self.areas[last]);
        let piece = PageRange::of(kept.area.start().max(part.start()), part.end());
        if piece != kept.area && !borders.cut(kept.area, piece) {
            return None;
        }
        let mut memory = self.areas.drain(place..=last).map(|kept| kept.memory).sum();
        // From the back, so that they are in order.
        let rests = [(kept, part.end(), kept.area.end()), (first, first.area.start(), part.start())];
        for (kept, start, end) in rests {
            let Some(area) = PageRange::new(start, end) else { continue };
            let rest = Stocked { area, memory: kept.share_of(&area), ..kept };
            memory -= rest.memory;
            self.areas.insert(place, rest);
        }
        self.memory -= memory;
        self.pages -= part.len();
        self.least = self.least.min(self.pages);
        Some(memory)
    }

    /// Returns all areas, ascending by address.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = PageRange> + '_ {
        self.areas.iter().map(|kept| kept.area)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.areas.capacity() * size_of::<Stocked>()
    }
}

impl Stocked {
    /// Returns whether `other` lies right behind this.
    fn is_before(&self, other: &Self) -> bool {
        self.area.end() == other.area.start()
    }

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
