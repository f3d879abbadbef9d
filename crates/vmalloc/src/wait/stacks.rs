//! Freed areas kept for reuse, by size: one stack for each number of pages.
//!
//! ```text
//!   pages     1    2    3    4   …  257
//!   stacks   ┌─┐       ┌─┐  ┌─┐             an area stays in the area map while it waits here: reuse flips one bit
//!            │▓│       │▓│  │▓│             top: freed last, warmest, taken first
//!            │▓│       └─┘  │▓│             bottom: has lain longest, given up first
//!            └─┘            └─┘
//!   some      1    0    1    1   …          a bit for each stack that is not empty
//! ```
//!
//! A node has two such sets: areas that kept their memory, and addresses without memory that every
//! CPU has flushed.

#[cfg(test)]
mod tests;

use super::policy::{BATCH, MAX_PAGES};
use super::{Node, PIECE_BYTES};
use crate::PageRange;
use alloc::vec::Vec;
use core::mem::{self, offset_of};
use lock_api::{MutexGuard, RawMutex};

/// Sizes that a set of stacks begins with.
const SMALL: u64 = 16;
/// Sizes that a hand goes over so that it meets each twice.
pub(crate) const TWICE: u64 = 2 * MAX_PAGES;
/// Words with a bit for each stack.
const WORDS: usize = MAX_PAGES.div_ceil(64) as usize;

/// Areas by their size.
#[derive(Default)]
pub(crate) struct SizeStacks {
    /// Those of the sizes up to the largest that came so far, and some more.
    stacks: Vec<Stack>,
    /// Set for every stack with something in it, and perhaps for some that have been emptied since.
    some: [u64; WORDS],
    /// The size that has to make way next.
    hand: usize,
}

/// Areas of one size.
#[derive(Default)]
struct Stack {
    /// Their first pages, the one freed last at the end; then zeros, which is room for more. Empty
    /// while the bit of this size is not set.
    starts: Vec<u64>,
    count: u32,
    /// The fewest that there were since areas were last evicted: so many were not needed.
    least: u32,
    /// Quarters of areas that past decays have left undone.
    owed: u8,
    /// Areas of new addresses that come along with one, the next time.
    along: u8,
}

/// The room that a stack begins with, and the least that it grows by.
const ROOM: usize = 8;

/// The fraction of the areas that is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fraction {
    /// A quarter of each size, but none that was needed since the last decay. A remainder is owed
    /// to the next time, so that the last area goes as well.
    Quarter,
    /// All that were not needed since the last decay.
    Idle,
    /// Everything.
    All,
}

/// The position of a walk over the sizes.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    size: usize,
    /// Areas of this size that are still to go; `None` before they were counted.
    due: Option<usize>,
    /// The memory of a stack that is empty, which the caller drops with no lock held.
    pub(crate) gone: Vec<u64>,
}

/// Memory for the lists of areas of one size: made, and dropped, with no lock held.
#[derive(Default)]
struct Room {
    stacks: Vec<Stack>,
    starts: Vec<u64>,
}

impl Room {
    /// Makes so many stacks, and places in one; `None` when memory is short, or they are no piece.
    fn new([stacks, places]: [usize; 2]) -> Option<Self> {
        let mut room = Self::default();
        (places <= PIECE_BYTES / size_of::<u64>()).then_some(())?;
        room.stacks.try_reserve_exact(stacks).ok()?;
        room.starts.try_reserve_exact(places).ok()?;
        room.stacks.resize_with(stacks, Stack::default);
        room.starts.resize(places, 0);
        Some(room)
    }
}

type Held<'a, L> = MutexGuard<'a, L, Node>;
type List = fn(&mut Node) -> &mut SizeStacks;

/// Makes room for `more` areas of `pages` pages in a list of a node. Others may have the node
/// meanwhile. Returns whether there is room.
#[inline]
pub(crate) fn make_room<L: RawMutex>(node: &mut Held<'_, L>, list: List, pages: u64, more: usize) -> bool {
    list(node).room(pages) >= more || lengthen(node, list, pages, more)
}

#[cold]
fn lengthen<L: RawMutex>(node: &mut Held<'_, L>, list: List, pages: u64, more: usize) -> bool {
    while let Some(lack) = list(node).lacks(pages, more) {
        let Some(mut room) = MutexGuard::unlocked(node, || Room::new(lack)) else { break };
        list(node).move_to(pages, &mut room);
        MutexGuard::unlocked(node, || drop(room));
    }
    list(node).room(pages) >= more
}

impl SizeStacks {
    /// The places of the list of stacks, and of the starts and their count in each, and the size of
    /// a stack: for an outline.
    pub(crate) const FIELDS: [usize; 4] =
        [offset_of!(Self, stacks), offset_of!(Stack, starts), offset_of!(Stack, count), size_of::<Stack>()];

    /// Returns the pages of all areas. O(sizes).
    pub(crate) fn pages(&self) -> u64 {
        self.stacks.iter().zip(1..).map(|(stack, pages)| u64::from(stack.count) * pages).sum()
    }

    /// Returns how many areas there are. O(sizes).
    pub(crate) fn areas(&self) -> u64 {
        self.stacks.iter().map(|stack| u64::from(stack.count)).sum()
    }

    /// Returns the areas of `size` + 1 pages.
    pub(crate) fn of_size(&self, size: usize) -> impl Iterator<Item = PageRange> + '_ {
        let starts = self.stacks.get(size).map_or(&[][..], |stack| &stack.starts[..stack.count as usize]);
        starts.iter().map(move |&start| PageRange::of(start, start + size as u64 + 1))
    }

    /// Returns whether there are none. O(sizes).
    pub(crate) fn is_empty(&self) -> bool {
        self.stacks.iter().all(|stack| stack.count == 0)
    }

    /// Returns whether areas of that many pages can be kept at all.
    #[inline(always)]
    pub(crate) const fn takes(pages: u64) -> bool {
        pages <= MAX_PAGES
    }

    /// Keeps `area`, if there is [room](make_room). Returns whether it does.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put(&mut self, area: PageRange) -> bool {
        match self.top(area.len() - 1) {
            Some(top) => {
                top.fill(area.start());
                true
            }
            None => false,
        }
    }

    /// Returns the place for the first page of an area of `size` + 1 pages; `None` when that takes
    /// more than writing it.
    #[inline(always)]
    pub(crate) fn top(&mut self, size: u64) -> Option<Top<'_>> {
        let stack = self.stacks.get_mut(size as usize)?;
        let place = stack.starts.get_mut(stack.count as usize)?;
        Some(Top { place, count: &mut stack.count })
    }

    /// Returns how many more areas of `pages` pages there is room for.
    #[inline]
    pub(crate) fn room(&self, pages: u64) -> usize {
        self.stacks.get(pages as usize - 1).map_or(0, |stack| stack.starts.len() - stack.count as usize)
    }

    /// Returns the stacks, and the places in that of `pages` pages, that there have to be for
    /// `more` areas. `None` where there are as many, or none are kept.
    fn lacks(&self, pages: u64, more: usize) -> Option<[usize; 2]> {
        if self.room(pages) >= more || !Self::takes(pages) {
            return None;
        }
        let stack = self.stacks.get(pages as usize - 1);
        let sizes = pages.next_power_of_two().clamp(SMALL, MAX_PAGES) as usize;
        let places = stack.map_or(0, |stack| stack.starts.len());
        Some([stack.map_or(sizes, |_| 0), places + places.max(ROOM).max(more)])
    }

    /// Goes on in longer lists, which become those that were.
    fn move_to(&mut self, pages: u64, room: &mut Room) {
        if self.stacks.len() < room.stacks.len() {
            self.stacks.iter_mut().zip(&mut room.stacks).for_each(|(old, new)| mem::swap(old, new));
            mem::swap(&mut self.stacks, &mut room.stacks);
        }
        let size = pages as usize - 1;
        let Some(stack) = self.stacks.get_mut(size) else { return };
        let count = stack.count as usize;
        if stack.starts.len() < room.starts.len() {
            room.starts[..count].copy_from_slice(&stack.starts[..count]);
            mem::swap(&mut stack.starts, &mut room.starts);
            self.some[size / 64] |= 1 << (size % 64);
        }
    }

    /// Makes room for `more` areas where no lock is held anyway.
    #[cfg(test)]
    pub(super) fn with_room(&mut self, pages: u64, more: usize) -> &mut Self {
        if let Some(mut room) = self.lacks(pages, more).and_then(Room::new) {
            self.move_to(pages, &mut room);
        }
        self
    }

    /// Takes an area of exactly `pages` pages that starts at a multiple of `align` pages.
    #[inline]
    pub(crate) fn take(&mut self, pages: u64, align: u64) -> Option<u64> {
        self.take_at(usize::try_from(pages - 1).ok()?, align)
    }

    /// Takes an area of `size` + 1 pages that starts at a multiple of `align` pages, if there is
    /// such a size.
    #[inline(always)]
    pub(crate) fn take_at(&mut self, size: usize, align: u64) -> Option<u64> {
        let stack = self.stacks.get_mut(size)?;
        if align <= 1 { stack.pop() } else { stack.take_aligned(align) }
    }

    /// Takes the smallest area of more than `pages` and at most `most` pages that starts at a
    /// multiple of `align`.
    pub(crate) fn take_larger(&mut self, pages: u64, most: u64, align: u64) -> Option<PageRange> {
        let mut size = pages as usize;
        loop {
            size = self.next_size(size).filter(|&size| (size as u64) < most)?;
            let pages = size as u64 + 1;
            if let Some(start) = self.take(pages, align) {
                return Some(PageRange::of(start, start + pages));
            }
            size += 1;
        }
    }

    /// Returns the first size from `from` on that has an area, both counted from 0.
    #[inline]
    fn next_size(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.some.get(word)? & u64::MAX << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.some.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// Moves areas to `out`, those that have lain longest first, until that holds `most`. `cursor`
    /// says where to begin, and then where to go on. Returns false at the end of all sizes.
    pub(crate) fn evict(
        &mut self,
        fraction: Fraction,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<PageRange>,
    ) -> bool {
        while let Some(size) = self.next_size(cursor.size) {
            if size != cursor.size {
                (cursor.size, cursor.due) = (size, None);
            }
            let stack = &mut self.stacks[size];
            // Between two batches areas may have been taken from the rest.
            let due = cursor.due.unwrap_or_else(|| stack.due(fraction)).min(stack.count as usize);
            let count = due.min(most.saturating_sub(out.len()));
            stack.evict(count, size as u64 + 1, out);
            if stack.count == 0 && fraction != Fraction::Idle {
                cursor.gone = mem::take(&mut stack.starts);
                self.some[size / 64 % WORDS] &= !(1 << (size % 64));
                (cursor.size, cursor.due) = (size + 1, None);
                return true;
            } else if count < due {
                cursor.due = Some(due - count);
                return true;
            }
            (cursor.size, cursor.due) = (size + 1, None);
            if out.len() >= most {
                return true;
            }
        }
        false
    }

    /// Moves at most `most` areas that were not needed lately to `out`, until they have `pages`
    /// pages. Returns how many pages they have.
    ///
    /// A hand goes over the sizes, as in the CLOCK of page replacement, for `sizes` of them: the
    /// areas that it finds where it passed before, it takes. O(sizes) at worst.
    pub(crate) fn make_way(&mut self, pages: u64, most: usize, sizes: u64, out: &mut Vec<PageRange>) -> u64 {
        let (mut freed, most) = (0, out.len() + most);
        for _ in 0..sizes {
            let room = most - out.len();
            let next = self.next_size(self.hand).or_else(|| self.next_size(0));
            let Some(size) = next.filter(|_| freed < pages && room != 0) else { break };
            let (stack, each) = (&mut self.stacks[size], size as u64 + 1);
            let (idle, wanted) = (stack.least, (pages - freed).div_ceil(each));
            let count = wanted.min(idle.into()).min(room as u64) as u32;
            stack.evict(count as usize, each, out);
            stack.least = idle - count;
            freed += u64::from(count) * each;
            self.hand = size;
            if stack.least == 0 {
                stack.least = stack.count;
                self.hand = size + 1;
            }
        }
        freed
    }

    /// Returns how many areas of `pages` pages are taken of the map along with one: more each time,
    /// and fewer where they were not needed.
    pub(crate) fn along(&mut self, pages: u64) -> usize {
        let Some(stack) = self.stacks.get_mut(pages as usize - 1) else { return 0 };
        let more = (2 * stack.along + 1).min(BATCH as u8);
        mem::replace(&mut stack.along, more).into()
    }

    /// Returns how many areas of exactly `pages` pages there are.
    pub(crate) fn count(&self, pages: u64) -> u32 {
        self.stacks.get(pages as usize - 1).map_or(0, |stack| stack.count)
    }

    pub(crate) fn bytes(&self) -> usize {
        let stacks: usize = self.stacks.iter().map(|stack| stack.starts.capacity() * size_of::<u64>()).sum();
        stacks + self.stacks.capacity() * size_of::<Stack>()
    }
}

/// The place for one more area.
pub(crate) struct Top<'a> {
    place: &'a mut u64,
    count: &'a mut u32,
}

impl Top<'_> {
    #[inline(always)]
    pub(crate) fn fill(self, start: u64) {
        *self.place = start;
        *self.count += 1;
    }
}

impl Stack {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        let last = self.count.wrapping_sub(1);
        let start = *self.starts.get(last as usize)?;
        self.count = last;
        if last < self.least {
            self.least = last;
        }
        Some(start)
    }

    /// Returns how many areas are to go.
    fn due(&mut self, fraction: Fraction) -> usize {
        let due = match fraction {
            Fraction::All => return self.count as usize,
            Fraction::Idle => self.least,
            Fraction::Quarter => {
                let quarters = self.count + u32::from(self.owed);
                self.owed = (quarters % 4) as u8;
                self.least.min(quarters / 4)
            }
        };
        self.along >>= u32::from(due != 0);
        self.least = self.count - due;
        due as usize
    }

    /// Moves `count` areas of `pages` pages to `out`.
    fn evict(&mut self, count: usize, pages: u64, out: &mut Vec<PageRange>) {
        out.extend(self.starts[..count].iter().map(|&start| PageRange::of(start, start + pages)));
        self.starts.copy_within(count..self.count as usize, 0);
        self.count -= count as u32;
        self.least = self.least.min(self.count);
    }

    /// Takes the least aligned area that fits, of the last [`BATCH`]. The others are left to
    /// requests that need them, which would else take new addresses far away. Measured with 10,000
    /// live areas of alignments of 1 … 512 pages (`W6b`):
    ///
    /// | choice | span of the live areas, in multiples of their pages |
    /// |---|---|
    /// | the first of 8 that fits | 63 |
    /// | the least aligned of 8 | 35 |
    /// | the least aligned of 32 | 20 |
    /// | the least aligned of 64 | 17 |
    /// | no pool | 13 |
    #[inline(never)]
    fn take_aligned(&mut self, align: u64) -> Option<u64> {
        let count = self.count as usize;
        let first = count.saturating_sub(BATCH);
        let (mut least, mut found) = (1 << 63, None);
        for (place, &start) in self.starts.get(first..count)?.iter().enumerate().rev() {
            // Its own alignment; no area starts at page 0. Too small a one counts as very large.
            let more = (start & start.wrapping_neg()).wrapping_sub(align);
            if more < least {
                (least, found) = (more, Some(first + place));
                if more == 0 {
                    break;
                }
            }
        }
        self.starts.swap(found?, count - 1);
        self.pop()
    }
}
