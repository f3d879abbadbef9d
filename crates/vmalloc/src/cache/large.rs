//! Freed areas that kept their memory and have no place in a node: they are too large for one, or
//! lie in leaves that are not dense.
//!
//! They are few, and what their owners do with them takes far longer than a lock. So one list
//! serves all CPUs. It is sorted by size, and a request takes the smallest area that is large
//! enough, if that is not too large.
//!
//! ```text
//!   request of n pages           slack
//!                  │◄───────────────────────►│
//!   pages  258  300│ 310  310  512 …         │ 4096  16385
//!                  └──► first area in here, aligned as asked
//! ```
//!
//! Their memory is drawn from the [budget](super::Budget). A freed area for which there is none left
//! takes the place of those that have lain longest.

use super::budget::{Budget, Growth};
use super::stacks::Fraction;
use crate::PageRange;
use alloc::vec::Vec;
use core::mem::offset_of;

/// The most areas: a removal moves half of them, 12 KiB.
const MOST: usize = 1024;
/// The most areas that one free evicts (contract: at most 32 under one hold of a lock).
const MOST_EVICTED: usize = crate::sync::size(31, 2) as usize;

/// Areas that have no place in a node, by size.
pub(crate) struct Large {
    /// Ascending by pages.
    areas: Vec<Kept>,
    /// Pages of memory behind all areas.
    memory: u64,
    /// The number of the next area.
    next: u64,
    /// The next area when areas decayed last: those with lower numbers were not needed since.
    decayed_at: u64,
    /// True if the platform was asked to let them decay.
    is_told: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    area: PageRange,
    /// Pages of memory behind it, of the budget.
    memory: u64,
    /// Larger for areas freed later.
    number: u64,
}

/// The result of keeping an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Put {
    /// True if the area is kept.
    pub(crate) is_kept: bool,
    /// True if it is the first in a long while.
    pub(crate) is_first: bool,
    /// Pages of memory behind the areas that made room for it.
    pub(crate) evicted: u64,
}

/// The result of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Evicted {
    /// Pages of memory behind the evicted areas.
    pub(crate) memory: u64,
    /// How many areas are still due.
    pub(crate) due: usize,
}

impl Large {
    /// The places of the list and of an area in its entries, and the size of these: for an outline.
    pub(crate) const FIELDS: [usize; 3] =
        [offset_of!(Self, areas), offset_of!(Kept, area), size_of::<Kept>()];

    /// Returns an empty list.
    pub(crate) fn new() -> Self {
        Self { areas: Vec::new(), memory: 0, next: 0, decayed_at: 0, is_told: false }
    }

    /// Keeps `area` with `memory` pages of memory, if the budget has them. Areas that have to make
    /// room for it, those that have lain longest, are pushed to `evicted`, in which there is room
    /// for `room` of them.
    pub(crate) fn put(
        &mut self,
        budget: &Budget,
        area: PageRange,
        memory: u64,
        room: usize,
        evicted: &mut Vec<PageRange>,
    ) -> Put {
        let has_room = self.areas.len() < MOST && self.areas.try_reserve(1).is_ok();
        let (mut gone, mut left) = (0, room.min(MOST_EVICTED));
        if !has_room || budget.free() + self.memory < memory {
            return Put { is_kept: false, is_first: false, evicted: 0 };
        }
        let mut is_kept = budget.take(memory, memory).is_some();
        while !is_kept && left != 0 {
            let Some(kept) = self.take_oldest(self.areas.len()) else { break };
            evicted.push(kept.area);
            budget.put(kept.memory);
            (gone, left) = (gone + kept.memory, left - 1);
            is_kept = budget.take(memory, memory).is_some();
        }
        if is_kept {
            let place = self.areas.partition_point(|kept| kept.area.len() < area.len());
            self.areas.insert(place, Kept { area, memory, number: self.next });
            self.memory += memory;
            self.next += 1;
        }
        let is_first = is_kept && !core::mem::replace(&mut self.is_told, true);
        Put { is_kept, is_first, evicted: gone }
    }

    /// Takes the smallest area of `pages` to `most` pages that starts at a multiple of `align`.
    /// O(log n) and a move of those behind it.
    pub(crate) fn take(&mut self, budget: &Budget, pages: u64, most: u64, align: u64) -> Option<PageRange> {
        let first = self.areas.partition_point(|kept| kept.area.len() < pages);
        let fitting = self.areas[first..].iter().take_while(|kept| kept.area.len() <= most);
        let found = fitting.enumerate().find(|(_, kept)| kept.area.start() % align == 0);
        let (place, kept) = found.map(|(index, kept)| (first + index, *kept))?;
        self.areas.remove(place);
        self.memory -= kept.memory;
        budget.put(kept.memory);
        Some(kept.area)
    }

    /// Moves up to `most` areas to `out`, those that have lain longest first. `due` says how many
    /// areas the decay still takes; `None` at its first call.
    pub(crate) fn evict(
        &mut self,
        fraction: Fraction,
        due: Option<usize>,
        most: usize,
        out: &mut Vec<PageRange>,
    ) -> Evicted {
        let due = due.unwrap_or_else(|| self.due(fraction)).min(self.areas.len());
        let (count, before) = (due.min(most), self.memory);
        out.extend((0..count).map_while(|_| Some(self.take_oldest(self.areas.len())?.area)));
        Evicted { memory: before - self.memory, due: due - count }
    }

    /// Moves at most `most` areas to `out` because of growth: first those of `largest` pages and
    /// fewer, then any while too much is cached. Of either, those that have lain longest go first.
    /// Returns their pages of memory.
    pub(crate) fn shrink(
        &mut self,
        growth: &mut Growth,
        largest: u64,
        most: usize,
        out: &mut Vec<PageRange>,
    ) -> u64 {
        let before = self.memory;
        for _ in 0..most {
            let small = self.areas.partition_point(|kept| kept.area.len() <= largest);
            let count = if small == 0 && growth.excess != 0 { self.areas.len() } else { small };
            let kept = if growth.pages == 0 { None } else { self.take_oldest(count) };
            let Some(kept) = kept else { break };
            growth.take(kept.memory);
            out.push(kept.area);
        }
        before - self.memory
    }

    /// Takes the area of the first `count` that has lain longest.
    fn take_oldest(&mut self, count: usize) -> Option<Kept> {
        let oldest = self.areas[..count].iter().enumerate().min_by_key(|(_, kept)| kept.number);
        let kept = self.areas.remove(oldest?.0);
        self.memory -= kept.memory;
        Some(kept)
    }

    /// Returns how many areas are to go: at least one of those that were not needed.
    fn due(&mut self, fraction: Fraction) -> usize {
        let idle = self.areas.iter().filter(|kept| kept.number < self.decayed_at).count();
        self.decayed_at = self.next;
        match fraction {
            Fraction::All => self.areas.len(),
            Fraction::Quarter => idle.min(self.areas.len().div_ceil(4)),
            Fraction::Idle => idle,
        }
    }

    /// Returns whether nothing is kept. If so, the next area is told to the platform again.
    pub(crate) fn rest(&mut self) -> bool {
        self.is_told &= !self.areas.is_empty();
        self.areas.is_empty()
    }

    /// Lets the next area be told to the platform.
    pub(crate) fn forget(&mut self) {
        self.is_told = false;
    }

    /// Returns all areas, ascending by size.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = PageRange> + '_ {
        self.areas.iter().map(|kept| kept.area)
    }

    /// Returns the pages of memory behind all areas.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the pages of all areas.
    pub(crate) fn pages(&self) -> u64 {
        self.iter().map(|area| area.len()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.areas.capacity() * size_of::<Kept>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::allowance::Allowance;
    use super::*;
    use alloc::vec;

    fn area(start: u64, len: u64) -> PageRange {
        PageRange::of(start, start + len)
    }

    /// A list, and a budget that nothing else uses.
    struct Play {
        large: Large,
        budget: Budget,
    }

    impl Play {
        fn of(pages: u64) -> Self {
            let allowance = Allowance { lazy: 1, absent: 1, least: pages, most: pages, is_dear: true };
            Self { large: Large::new(), budget: Budget::new(allowance, 1) }
        }

        fn put(&mut self, area: PageRange) -> (Put, Vec<PageRange>) {
            let mut evicted = Vec::new();
            let put = self.large.put(&self.budget, area, area.len(), 32, &mut evicted);
            (put, evicted)
        }

        fn take(&mut self, pages: u64, most: u64, align: u64) -> Option<PageRange> {
            self.large.take(&self.budget, pages, most, align)
        }

        fn shrink(&mut self, pages: u64, excess: u64, largest: u64, most: usize) -> (u64, Vec<PageRange>) {
            let mut out = Vec::new();
            let mut growth = Growth { pages, excess, highest: 0 };
            let gone = self.large.shrink(&mut growth, largest, most, &mut out);
            self.budget.put(gone);
            (gone, out)
        }
    }

    const REFUSED: Put = Put { is_kept: false, is_first: false, evicted: 0 };
    const FIRST: Put = Put { is_kept: true, is_first: true, evicted: 0 };

    fn kept(evicted: u64) -> Put {
        Put { is_kept: true, is_first: false, evicted }
    }

    #[test]
    fn the_smallest_area_that_fits_is_taken() {
        let mut play = Play::of(10_000);
        for (start, len) in [(0x1000, 400), (0x2000, 300), (0x3001, 310), (0x4000, 310)] {
            assert!(play.put(area(start, len)).0.is_kept);
        }
        assert_eq!(play.take(301, 309, 1), None);
        assert_eq!(play.take(301, 376, 16), Some(area(0x4000, 310)));
        assert_eq!(play.take(301, 376, 1), Some(area(0x3001, 310)));
        assert_eq!(play.take(300, 375, 1), Some(area(0x2000, 300)));
        assert_eq!(play.large.iter().collect::<Vec<_>>(), [area(0x1000, 400)]);
        assert_eq!(play.budget.free(), 9_600);
    }

    #[test]
    fn the_first_area_after_a_rest_is_told() {
        let mut play = Play::of(1000);
        assert_eq!(play.put(area(0x1000, 500)).0, FIRST);
        assert_eq!(play.put(area(0x2000, 500)).0, kept(0));
        assert!(!play.large.rest(), "something is kept");
        assert_eq!([500, 500].map(|len| play.take(len, len, 1).is_some()), [true; 2]);
        assert!(play.large.rest());
        assert_eq!(play.put(area(0x1000, 500)).0, FIRST);
    }

    #[test]
    fn areas_that_have_lain_longest_make_room() {
        let mut play = Play::of(1000);
        assert_eq!(play.put(area(0x1000, 500)), (FIRST, vec![]));
        assert_eq!(play.put(area(0x2000, 400)), (kept(0), vec![]));
        assert_eq!(play.put(area(0x3000, 300)), (kept(500), vec![area(0x1000, 500)]));
        assert_eq!(play.put(area(0x4000, 1001)), (REFUSED, vec![]));
        assert_eq!((play.large.pages(), play.budget.free()), (700, 300));
        let (put, evicted) = play.put(area(0x4000, 1000));
        assert_eq!((put, evicted.len()), (kept(700), 2));
    }

    /// Small areas have most of the budget: what large ones have is not enough, so they stay.
    #[test]
    fn areas_that_would_make_too_little_room_stay() {
        let mut play = Play::of(1000);
        assert_eq!(play.budget.take(600, 600), Some(600));
        assert_eq!(play.put(area(0x1000, 300)), (FIRST, vec![]));
        assert_eq!(play.put(area(0x2000, 500)), (REFUSED, vec![]));
        let mut evicted = Vec::new();
        assert_eq!(play.large.put(&play.budget, area(0x3000, 350), 350, 0, &mut evicted), REFUSED);
        assert_eq!((play.large.pages(), play.budget.free(), evicted), (300, 100, vec![]));
    }

    #[test]
    fn an_area_counts_by_its_memory() {
        let mut play = Play::of(1000);
        let mut evicted = Vec::new();
        for nth in 0..10 {
            let huge = area(nth << 20, 1 << 20);
            assert!(play.large.put(&play.budget, huge, 100, 32, &mut evicted).is_kept);
        }
        assert_eq!((evicted.len(), play.budget.free()), (0, 0));
        assert_eq!(play.take(1 << 20, 1 << 20, 1).map(|area| area.len()), Some(1 << 20));
        assert_eq!(play.budget.free(), 100);
    }

    #[test]
    fn growth_takes_small_areas_that_have_lain_longest_and_no_more_than_it_needs() {
        let mut play = Play::of(10_000);
        let areas = [area(0x1000, 400), area(0x2000, 300), area(0x3000, 900), area(0x4000, 300)];
        areas.iter().for_each(|area| _ = play.put(*area));
        assert_eq!(play.shrink(1, 0, 299, 32), (0, vec![]));
        assert_eq!(play.shrink(0, 0, 400, 32), (0, vec![]), "it does not grow");
        assert_eq!(play.shrink(401, 0, 400, 32), (700, areas[..2].to_vec()));
        assert_eq!(play.shrink(1000, 0, 400, 32), (300, vec![areas[3]]));
        assert_eq!((play.large.pages(), play.large.memory(), play.budget.free()), (900, 900, 9_100));
        assert_eq!(play.shrink(1, 0, 900, 0), (0, vec![]), "no more than the most");
    }

    #[test]
    fn while_too_much_is_cached_areas_of_any_size_go_behind_the_small_ones() {
        let mut play = Play::of(10_000);
        let areas = [area(0x1000, 900), area(0x2000, 800), area(0x3000, 300), area(0x4000, 700)];
        areas.iter().for_each(|area| _ = play.put(*area));
        assert_eq!(play.shrink(5000, 301, 400, 32), (1200, vec![areas[2], areas[0]]));
        assert_eq!(play.shrink(1, 5000, 400, 32), (800, vec![areas[1]]), "no more than growth");
        assert_eq!((play.large.pages(), play.large.memory()), (700, 700));
    }

    #[test]
    fn decay_reaches_zero_and_spares_what_was_needed() {
        let mut play = Play::of(100_000);
        for nth in 0..8 {
            let _ = play.put(area(nth << 12, 300));
        }
        let mut out = Vec::new();
        let mut evict = |due, most| play.large.evict(Fraction::Idle, due, most, &mut out);
        assert_eq!(evict(None, 32), Evicted { memory: 0, due: 0 }, "all are new");
        assert_eq!(evict(None, 1), Evicted { memory: 300, due: 7 });
        assert_eq!(evict(Some(7), 32), Evicted { memory: 2100, due: 0 });
        assert_eq!(out.len(), 8);
        assert_eq!(out[..2], [area(0, 300), area(1 << 12, 300)]);
        for nth in 0..8 {
            let _ = play.put(area(nth << 12, 300));
        }
        while play.large.pages() > 0 {
            let _ = play.large.evict(Fraction::Quarter, None, 32, &mut out);
        }
        assert!(play.large.rest() && play.large.memory() == 0);
    }
}
