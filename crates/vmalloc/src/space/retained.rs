//! Freed areas that keep their pages: handed out again without a call to the platform, within a budget.
//!
//! One stack for each size in pages, as the pools of Linux's nodes have (2024), here for mapped areas: the one
//! freed last is the warmest and is taken first; decay takes from the other end.

use crate::addr::PageRange;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The largest area that is kept, in pages: 256 and a guard page.
pub(super) const MAX_PAGES: u64 = 257;
/// How many areas of a size are looked at for one that is aligned. With more of them fewer aligned places are wasted
/// and more time: 10,000 live areas with alignments of 1 … 512 pages (`W6b`) span 63 times their pages when the first
/// of 8 that fits is taken, 35 with the least aligned of 8, 20 with that of 32, 17 with that of 64; 13 without retention.
const LOOKED_AT: usize = 32;

/// The areas kept, by size.
pub(super) struct Retained {
    /// Starts of areas of `index + 1` pages, the one freed last at the back.
    stacks: Vec<VecDeque<u64>>,
    /// Pages in all stacks.
    pages: u64,
    areas: u64,
    /// The most pages to keep.
    budget: u64,
}

impl Retained {
    pub(super) const fn new(budget: u64) -> Self {
        Self { stacks: Vec::new(), pages: 0, areas: 0, budget }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn areas(&self) -> u64 {
        self.areas
    }

    /// Keeps `area` if size, budget and memory allow; whether it did.
    #[inline]
    #[must_use]
    pub(super) fn keep(&mut self, area: PageRange) -> bool {
        if area.len() > MAX_PAGES || self.pages + area.len() > self.budget {
            return false;
        }
        if self.stacks.is_empty() && self.set_up().is_none() {
            return false;
        }
        let stack = &mut self.stacks[area.len() as usize - 1];
        if stack.len() == stack.capacity() && stack.try_reserve(1).is_err() {
            return false;
        }
        stack.push_back(area.start());
        self.pages += area.len();
        self.areas += 1;
        true
    }

    #[cold]
    fn set_up(&mut self) -> Option<()> {
        self.stacks.try_reserve_exact(MAX_PAGES as usize).ok()?;
        self.stacks.resize_with(MAX_PAGES as usize, VecDeque::new);
        Some(())
    }

    /// An area of exactly `pages` pages that starts at a multiple of `align` pages.
    #[inline]
    pub(super) fn take(&mut self, pages: u64, align: u64) -> Option<u64> {
        let stack = self.stacks.get_mut(usize::try_from(pages - 1).ok()?)?;
        let start = if align == 1 { stack.pop_back()? } else { Self::take_aligned(stack, align)? };
        self.pages -= pages;
        self.areas -= 1;
        Some(start)
    }

    /// The least aligned of those that fit: the others are left to requests that need them, which would else take new
    /// addresses far away.
    #[inline(never)]
    fn take_aligned(stack: &mut VecDeque<u64>, align: u64) -> Option<u64> {
        let (mut least, mut least_depth) = (u64::MAX, None);
        for (depth, &start) in stack.iter().rev().take(LOOKED_AT).enumerate() {
            // Its own alignment; no area starts at page 0.
            let aligned = start & start.wrapping_neg();
            if aligned >= align && aligned < least {
                (least, least_depth) = (aligned, Some(depth));
                if aligned == align {
                    break;
                }
            }
        }
        let depth = least_depth?;
        stack.swap_remove_back(stack.len() - 1 - depth)
    }

    /// How many areas of `pages` pages are kept.
    pub(super) fn count(&self, pages: u64) -> usize {
        self.stacks.get(pages as usize - 1).map_or(0, VecDeque::len)
    }

    /// Moves up to `at_most` areas of `pages` pages to `lazy`, those that have lain longest; how many. What does not
    /// fit stays.
    pub(super) fn give_up(&mut self, pages: u64, at_most: usize, lazy: &mut Vec<PageRange>) -> usize {
        let Some(stack) = self.stacks.get_mut(pages as usize - 1) else { return 0 };
        let count = at_most.min(stack.len());
        if lazy.try_reserve(count).is_err() {
            return 0;
        }
        lazy.extend(stack.drain(..count).map(|start| PageRange::of(start, start + pages)));
        self.pages -= count as u64 * pages;
        self.areas -= count as u64;
        count
    }

    pub(super) fn bytes(&self) -> usize {
        let stacks: usize = self.stacks.iter().map(|stack| stack.capacity() * size_of::<u64>()).sum();
        stacks + self.stacks.capacity() * size_of::<VecDeque<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, len: u64) -> PageRange {
        PageRange::of(start, start + len)
    }

    #[test]
    fn keeps_within_the_budget_and_gives_the_warmest_first() {
        let mut kept = Retained::new(10);
        assert!(kept.keep(area(16, 4)));
        assert!(kept.keep(area(10, 4)));
        assert!(!kept.keep(area(20, 4)), "over the budget");
        assert!(!Retained::new(1 << 20).keep(area(0, MAX_PAGES + 1)));
        assert_eq!(kept.take(4, 16), Some(16));
        assert_eq!(kept.take(4, 16), None);
        assert_eq!(kept.take(3, 1), None);
        assert_eq!(kept.take(4, 1), Some(10));
        assert_eq!((kept.pages(), kept.areas()), (0, 0));
    }

    #[test]
    fn aligned_places_are_left_to_who_needs_them() {
        let mut kept = Retained::new(1 << 20);
        for start in [64, 6, 16, 9, 512] {
            assert!(kept.keep(area(start, 2)));
        }
        assert_eq!(
            [2, 4, 4, 4, 4].map(|align| kept.take(2, align)),
            [Some(6), Some(16), Some(64), Some(512), None]
        );
        assert_eq!(kept.take(2, 1), Some(9));
    }

    #[test]
    fn the_oldest_are_given_up_first_and_no_more_than_asked_for() {
        let mut kept = Retained::new(1 << 20);
        assert_eq!((kept.count(2), kept.give_up(2, 1, &mut Vec::new())), (0, 0));
        for start in 0..5 {
            assert!(kept.keep(area(start * 10, 2)));
        }
        let mut lazy = Vec::new();
        assert_eq!(kept.give_up(2, 2, &mut lazy), 2);
        assert_eq!(lazy, [area(0, 2), area(10, 2)]);
        assert_eq!((kept.count(2), kept.areas(), kept.pages()), (3, 3, 6));
        assert_eq!(kept.give_up(2, 9, &mut lazy), 3);
        assert_eq!((kept.pages(), lazy.len()), (0, 5));
    }
}
