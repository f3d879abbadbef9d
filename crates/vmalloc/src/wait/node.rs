//! A node: what one CPU, or a few, free and take without meeting the others.

use super::BATCH;
use super::stacks::{Cursor, Fraction, SizeStacks, Top};
use crate::{PageRange, SpaceError};
use alloc::vec::Vec;
use core::mem;
use lock_api::{MutexGuard, RawMutex};

/// The state that a node's lock protects.
#[derive(Default)]
pub(crate) struct Node {
    /// Freed areas that kept their memory.
    pub(crate) cached: SizeStacks,
    /// Addresses without memory that no CPU translates any more.
    pub(crate) pooled: SizeStacks,
    /// Areas freed here, to be unmapped.
    pub(crate) lazy: Lazy,
    /// Pages of these that the shared count does not know of yet.
    unpublished: u64,
    /// Unpublished pages at which they are published; 0 while the node [rests](Self::rest).
    publish_at: u64,
    /// Pages that may be cached here, of the budget that all nodes share; 0 while the node rests.
    pub(crate) credit: u64,
    /// Pages of the pooled areas.
    pub(super) pooled_pages: u64,
    /// Areas that waited here and were handed out again, so far.
    pub(crate) reused: u64,
    /// The node that was looked at last for memory of a size that this one has none of.
    pub(crate) looked_at: u16,
    /// How often no credit was given.
    refusals: u16,
}

/// Freed areas that are not unmapped yet, wherever they were allocated.
#[derive(Default)]
pub(crate) struct Lazy {
    /// Those that came last.
    pub(crate) areas: Vec<PageRange>,
    /// The lists that were full before this one: a long one would be a large piece of the heap.
    pub(crate) full: Vec<Vec<PageRange>>,
    /// Pages of all these behind which there is no memory.
    pub(crate) absent: u64,
}

impl Node {
    pub(crate) fn cached(&mut self) -> &mut SizeStacks {
        &mut self.cached
    }

    pub(crate) fn pooled(&mut self) -> &mut SizeStacks {
        &mut self.pooled
    }

    /// Returns whether it is time to look at other nodes for credit that they do not use: not for
    /// every area that is refused.
    pub(crate) fn may_search(&mut self) -> bool {
        self.refusals = self.refusals.wrapping_add(1);
        self.refusals % BATCH as u16 == 1
    }

    /// Takes a cached area of `pages` pages at a multiple of `align`, or of up to `extra` pages
    /// more.
    pub(crate) fn take_cached(&mut self, pages: u64, align: u64, extra: u64) -> Option<PageRange> {
        let exact = self.cached.take(pages, align).map(|start| PageRange::of(start, start + pages));
        let area = match exact {
            None if extra != 0 => self.cached.take_larger(pages, pages + extra, align),
            exact => exact,
        }?;
        self.credit += area.len();
        self.reused += 1;
        Some(area)
    }

    /// Takes the first page of a pooled area of `size` + 1 pages at a multiple of `align`.
    #[inline(always)]
    pub(crate) fn take_pooled(&mut self, size: usize, align: u64) -> Option<u64> {
        let start = self.pooled.take_at(size, align)?;
        self.pooled_pages -= size as u64 + 1;
        self.reused += 1;
        Some(start)
    }

    /// Puts an area into the pool. Returns whether it is there.
    #[must_use]
    pub(crate) fn pool(&mut self, area: PageRange) -> bool {
        let is_pooled = self.pooled.put(area);
        self.pooled_pages += if is_pooled { area.len() } else { 0 };
        is_pooled
    }

    /// Moves a fraction of the pooled areas to `out`, as [`SizeStacks::evict`] does.
    pub(crate) fn evict_pooled(
        &mut self,
        fraction: Fraction,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<PageRange>,
    ) -> bool {
        let is_more = self.pooled.evict(fraction, cursor, most, out);
        self.pooled_pages -= out.iter().map(PageRange::len).sum::<u64>();
        is_more
    }

    /// Puts an area back that was just taken. Returns whether it is there again.
    #[must_use]
    pub(crate) fn put_back(&mut self, area: PageRange, is_cached: bool) -> bool {
        let is_back = if is_cached { self.cached.put(area) } else { self.pool(area) };
        self.reused -= u64::from(is_back);
        if is_back && is_cached {
            self.credit -= area.len();
        }
        is_back
    }

    /// Brings half of the areas of `pages` pages along that `other` has, a batch at most: a node
    /// that has none of a size will need more than one, and each look takes the other CPU's cache
    /// lines. Areas below `apart_end` stay.
    pub(crate) fn bring(&mut self, other: &mut Self, pages: u64, are_cached: bool, apart_end: u64) {
        let from = if are_cached { &mut other.cached } else { &mut other.pooled };
        for _ in 0..(from.count(pages) / 2).min(BATCH as u32) {
            let Some(start) = from.take(pages, 1) else { break };
            let area = PageRange::of(start, start + pages);
            let goes = start >= apart_end && if are_cached { self.cached.put(area) } else { self.pool(area) };
            if !goes {
                // It has left a place there.
                let _ = from.put(area);
                break;
            }
            other.pooled_pages -= if are_cached { 0 } else { pages };
        }
    }

    /// Makes an area lazy, for which there is [room](Lazy::has_room). `memory` of its pages have
    /// memory behind them.
    #[inline]
    pub(crate) fn enter_lazy(&mut self, area: PageRange, memory: u64) {
        self.lazy.areas.push(area);
        self.count_lazy(area.len(), memory);
    }

    /// Counts pages that became lazy here.
    pub(crate) fn count_lazy(&mut self, pages: u64, memory: u64) {
        self.unpublished += memory;
        self.lazy.absent += pages - memory;
    }

    /// Returns whether `pages` more lazy pages are to be published, or their area has no room.
    #[inline(always)]
    pub(crate) fn is_lazy_special(&self, pages: u64) -> bool {
        // `pages` may be of an address that is not of this space.
        self.unpublished.wrapping_add(pages) >= self.publish_at || !self.lazy.has_much_room()
    }

    /// Returns whether lazy pages are to be published.
    #[inline]
    pub(crate) fn is_publishing(&self) -> bool {
        self.unpublished >= self.publish_at
    }

    /// Has the lazy pages published in any case.
    pub(crate) fn publish_next(&mut self) {
        self.publish_at = 0;
    }

    /// Returns lazy pages that the shared count does not know of yet.
    pub(crate) fn unpublished(&self) -> u64 {
        self.unpublished
    }

    /// Takes the lazy pages that are to be published. The next ones are when they are `next`.
    pub(super) fn take_unpublished(&mut self, next: u64) -> u64 {
        self.publish_at = next;
        mem::take(&mut self.unpublished)
    }

    /// Exchanges the lazy areas with an empty set. Returns the pages that are not published.
    pub(crate) fn take_lazy(&mut self, taken: &mut Lazy) -> u64 {
        mem::swap(&mut self.lazy, taken);
        mem::take(&mut self.unpublished)
    }

    /// Returns the place of an area of `size` + 1 pages that is freed in the common case, and the
    /// credit, of which it takes these pages; `None` where there is no place or no credit.
    #[inline(always)]
    pub(crate) fn place(&mut self, size: u64) -> Option<(Top<'_>, &mut u64)> {
        let top = self.cached.top(size)?;
        (self.credit > size).then_some((top, &mut self.credit))
    }

    /// Takes the first page of a cached area of `size` + 1 pages at a multiple of `align`.
    #[inline(always)]
    pub(crate) fn reuse(&mut self, size: usize, align: u64) -> Option<u64> {
        let start = self.cached.take_at(size, align)?;
        self.credit += size as u64 + 1;
        self.reused += 1;
        Some(start)
    }

    /// Moves a fraction of the cached areas to `out`, as [`SizeStacks::evict`] does. Their pages
    /// are credit then.
    pub(crate) fn evict_cached(
        &mut self,
        fraction: Fraction,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<PageRange>,
    ) -> bool {
        let is_more = self.cached.evict(fraction, cursor, most, out);
        self.credit += out.iter().map(PageRange::len).sum::<u64>();
        is_more
    }

    /// Returns the pages of the budget that this node has: cached ones, and credit.
    pub(crate) fn budget(&self) -> u64 {
        self.cached.pages() + self.credit
    }

    /// Has the next free here take the slow way, where the platform is told. Returns the credit,
    /// which the node has no longer.
    pub(super) fn rest(&mut self) -> u64 {
        self.publish_at = 0;
        mem::take(&mut self.credit)
    }

    /// Returns how many areas are in its lists.
    pub(crate) fn areas(&self) -> u64 {
        self.cached.areas() + self.pooled.areas() + self.lazy.len()
    }

    /// Returns whether nothing waits in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.lazy.is_empty() && self.cached.is_empty() && self.pooled.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.cached.bytes() + self.pooled.bytes() + self.lazy.bytes()
    }
}

impl Lazy {
    /// Returns an empty set with room for a batch, which it keeps: for times when memory is short,
    /// and for frees that are not to wait.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    pub(crate) fn new() -> Result<Self, SpaceError> {
        let mut areas = Vec::new();
        areas.try_reserve_exact(BATCH).map_err(|_| SpaceError::Metadata)?;
        Ok(Self { areas, ..Self::default() })
    }

    /// Returns the lists of its areas.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &[PageRange]> {
        self.full.iter().chain([&self.areas]).map(Vec::as_slice)
    }

    pub(crate) fn lists_mut(&mut self) -> impl Iterator<Item = &mut Vec<PageRange>> {
        self.full.iter_mut().chain([&mut self.areas])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PageRange> {
        self.lists().flatten()
    }

    pub(crate) fn len(&self) -> u64 {
        self.lists().map(<[_]>::len).sum::<usize>() as u64
    }

    /// Returns whether there is room for one area and for those of frees that are not to wait.
    #[inline(always)]
    fn has_much_room(&self) -> bool {
        self.areas.capacity() - self.areas.len() > BATCH
    }

    /// Returns whether one more area would take memory.
    pub(crate) fn is_full(&self) -> bool {
        self.areas.len() == self.areas.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lists().all(<[_]>::is_empty)
    }

    /// Empties it, and keeps memory for a list the next time.
    pub(crate) fn clear(&mut self) {
        self.absent = 0;
        let last = self.full.pop().filter(|last| last.len() > self.areas.len());
        self.areas = last.unwrap_or_else(|| mem::take(&mut self.areas));
        self.full.clear();
        clear(&mut self.areas, BATCH);
    }

    pub(crate) fn bytes(&self) -> usize {
        let areas: usize = self.full.iter().chain([&self.areas]).map(Vec::capacity).sum();
        areas * size_of::<PageRange>() + self.full.capacity() * size_of::<Vec<PageRange>>()
    }
}

/// Makes room for one more lazy area in a node, and for those of frees that are not to wait, if the
/// heap has memory. Others may have the node meanwhile. Returns whether there is room for one.
#[inline]
pub(crate) fn make_lazy_room<L: RawMutex>(node: &mut MutexGuard<'_, L, Node>) -> bool {
    node.lazy.has_much_room() || add_list(node)
}

/// Gives a node one more list for lazy areas. Returns whether there is room for one.
#[cold]
fn add_list<L: RawMutex>(node: &mut MutexGuard<'_, L, Node>) -> bool {
    while !node.lazy.has_much_room()
        && lengthen(node, |node| &mut node.lazy.full, |node| lacks_one(&node.lazy.full))
    {
        let room = (2 * node.lazy.areas.capacity()).clamp(2 * BATCH, PIECE);
        let mut list = Vec::new();
        if MutexGuard::unlocked(node, || list.try_reserve_exact(room)).is_err() {
            break;
        }
        // Others had the node meanwhile.
        if !node.lazy.has_much_room() && node.lazy.full.len() < node.lazy.full.capacity() {
            let Lazy { areas, full, .. } = &mut node.lazy;
            mem::swap(areas, &mut list);
            if !list.is_empty() {
                full.push(mem::take(&mut list));
            }
        }
        MutexGuard::unlocked(node, || drop(list));
    }
    !node.lazy.is_full()
}

/// Lengthens a list behind a lock for as long as it `lacks` room, and memory is not short. It calls
/// the heap without the lock, which others may take meanwhile. Returns whether there is room.
#[cold]
pub fn lengthen<L: RawMutex, T, E>(
    held: &mut MutexGuard<'_, L, T>,
    list: fn(&mut T) -> &mut Vec<E>,
    lacks: impl Fn(&T) -> Option<usize>,
) -> bool {
    while let Some(room) = lacks(held) {
        let mut longer = Vec::new();
        if MutexGuard::unlocked(held, || longer.try_reserve_exact(room)).is_err() {
            return false;
        }
        let shorter = list(held);
        if shorter.capacity() < longer.capacity() {
            longer.append(shorter);
            mem::swap(shorter, &mut longer);
        }
        MutexGuard::unlocked(held, || drop(longer));
    }
    true
}

/// Returns how long a list has to be for one more, if it is not.
pub fn lacks_one<E>(list: &Vec<E>) -> Option<usize> {
    (list.len() == list.capacity()).then(|| (2 * list.len()).max(8))
}

/// Empties a list. If its memory is much more than it held, it keeps memory for `least`.
pub(crate) fn clear<T>(list: &mut Vec<T>, least: usize) {
    let is_too_large = list.capacity() > 4 * list.len().max(LIST);
    list.clear();
    let mut small = Vec::new();
    // Without memory for less it keeps what it has.
    if is_too_large && small.try_reserve_exact(least).is_ok() {
        *list = small;
    }
}

/// Returns whether a list has room for `more`, or gets it in a piece of 64 KiB at most.
pub(crate) fn has_piece(list: &mut Vec<PageRange>, more: usize) -> bool {
    list.len() + more <= PIECE && list.try_reserve(more).is_ok()
}

/// The most bytes of a list, which every heap has in one piece.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// The most areas in one.
const PIECE: usize = PIECE_BYTES / size_of::<PageRange>();
/// The room that lists keep in any case: a page or two.
const LIST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 5;

    fn area(number: u64) -> PageRange {
        PageRange::of(number * PAGES, (number + 1) * PAGES)
    }

    fn node(areas: core::ops::Range<u64>, are_cached: bool) -> Node {
        let mut node = Node::default();
        for area in areas.map(area) {
            let list = if are_cached { &mut node.cached } else { &mut node.pooled };
            list.with_room(PAGES, 1);
            assert!(if are_cached { node.cached.put(area) } else { node.pool(area) });
        }
        node
    }

    fn listed(stacks: &SizeStacks) -> Vec<PageRange> {
        stacks.of_size(PAGES as usize - 1).collect()
    }

    /// Half go along, a batch at most; the others stay, and none is in both or lost. Credit is for
    /// areas that a node may still cache, so it stays where it is.
    #[test]
    fn half_of_the_areas_go_along_and_a_batch_at_most() {
        for (count, brought) in [(0, 0), (1, 0), (2, 1), (7, 3), (64, 32), (100, 32)] {
            for are_cached in [false, true] {
                let (mut own, mut other) = (Node::default(), node(10..10 + count, are_cached));
                let list = if are_cached { &mut own.cached } else { &mut own.pooled };
                list.with_room(PAGES, BATCH);
                own.bring(&mut other, PAGES, are_cached, 0);
                let brought = brought.min(BATCH as u64);
                assert_eq!((own.areas(), other.areas()), (brought, count - brought), "of {count}");
                let of = |node: &Node| if are_cached { listed(&node.cached) } else { listed(&node.pooled) };
                let mut all = [of(&own), of(&other)].concat();
                all.sort_unstable_by_key(PageRange::start);
                assert_eq!(all, (10..10 + count).map(area).collect::<Vec<_>>());
                assert_eq!((own.credit, other.credit), (0, 0));
            }
        }
    }

    #[test]
    fn areas_of_leaves_apart_stay() {
        let (mut own, mut other) = (Node::default(), node(10..30, false));
        own.pooled.with_room(PAGES, 3);
        (0..3).for_each(|_| own.bring(&mut other, PAGES, false, area(27).start()));
        assert_eq!((own.areas(), other.areas()), (3, 17));
    }
}
