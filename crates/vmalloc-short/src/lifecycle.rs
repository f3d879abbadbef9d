//! The life of a block: from a new one to windows, from windows to a flush, and to windows again.

use super::{Block, BlockState, Blocks, Lists, MOST_PAGES, Window};
use core::ops::Range;
use lock_api::{MutexGuard, RawMutex};
use vmalloc::lists::{lacks_one, lengthen};
use vmalloc::sync::size;
use vmalloc::tenant::Tally;

/// As many dirty blocks are always worth a flush.
const FEW: u64 = size(16, 2);

/// The ways to make returned slots available.
pub(crate) enum Recycling {
    /// A new block is better.
    None,
    /// It was done, without a flush.
    Done,
    /// A flush makes so many blocks clean, as are worth one.
    Flush(u64),
}

impl<L: RawMutex> Blocks<L> {
    /// Opens a window for requests of an order in a block that is on a list.
    pub(crate) fn open_part(&self, order: usize) -> Option<Window> {
        let mut lists = self.lists.lock();
        let part = if lists.is_swept { None } else { lists.pop_part(order, self) };
        let (range, block) = match part {
            // By its list it has such a range.
            Some((first, block)) => (self.clean_runs(block, self.range(first).into(), order)?, block),
            None => {
                let (first, block) = self.pop_ready(&mut lists)?;
                (self.range(first).into(), block)
            }
        };
        block.set_state(BlockState::Open);
        Some(self.open_window(&lists, block, range, order))
    }

    /// Takes a block that is all clean, and may be opened now.
    fn pop_ready(&self, lists: &mut Lists) -> Option<(u64, &Block)> {
        let (first, block) = lists.ready.pop(self)?;
        if lists.is_swept && self.remaps_atomically && block.is_stale() {
            lists.ready.push(first, block);
            return None;
        }
        Some((first, block))
    }

    /// Opens the next window in the block of `before`, which is used up. So a block is read once
    /// from end to end, not once for each window.
    pub(crate) fn advance(&self, before: Window, order: usize) -> Option<Window> {
        if before.len() != 0 || !before.is_some() {
            return None;
        }
        let end = self.first(before.end - 1) + self.slots();
        let block = self.get(before.end - 1).filter(|block| before.end < end && block.clean() > 0)?;
        let lists = self.lists.lock();
        let range = self.clean_runs(block, before.end..end, order)?;
        Some(self.open_window(&lists, block, range, order))
    }

    /// Returns the first range of clean slots in `range` that is enough for an order, in whole
    /// runs.
    fn clean_runs(&self, block: &Block, range: Range<u64>, order: usize) -> Option<Range<u64>> {
        let clean = block.clean_range(range, 1 << order)?;
        let runs = (clean.end - clean.start) >> order;
        (runs > 0).then(|| clean.start..clean.start + (runs << order))
    }

    /// Makes clean slots a window.
    fn open_window(&self, _: &Lists, block: &Block, range: Range<u64>, order: usize) -> Window {
        let window = Window { next: range.start, end: range.end };
        block.reserve(range, order as u32);
        block.set_clean(block.clean().saturating_sub(window.len()));
        block.hold(window.len());
        window
    }

    /// Makes the area at `first` a block, all of it a window. Returns `None` when memory is short.
    pub(crate) fn enter(&self, first: u64, pages: u64) -> Option<Window> {
        let block = self.reach(first).ok()?;
        let mut lists = self.lists.lock();
        lengthen(&mut lists, |lists| &mut lists.all, |lists| lacks_one(&lists.all)).then_some(())?;
        lists.enter(first, block);
        block.set_state(BlockState::Open);
        block.set_clean(0);
        let order = super::order_of(pages);
        Some(self.open_window(&lists, block, self.range(first).into(), order))
    }

    /// Ends a window, and puts its block where it belongs now.
    pub(crate) fn close(&self, tally: &mut Tally<'_>, window: Window) {
        let block = if window.is_some() { self.get(window.end - 1) } else { None };
        let Some(block) = block else { return };
        block.clear(window.next..window.end);
        let lists = self.lists.lock();
        block.set_clean(block.clean() + window.len());
        block.set_stale(true);
        block.give(window.len());
        self.settle(lists, tally, block, self.first(window.end - 1));
    }

    /// Puts a block without windows where it belongs.
    pub(crate) fn settle(
        &self,
        mut lists: MutexGuard<'_, L, Lists>,
        tally: &mut Tally<'_>,
        block: &Block,
        first: u64,
    ) {
        let (clean, slots) = (block.clean(), self.slots());
        if block.held() == 0 && clean < slots {
            return self.spend(lists, tally, block, first);
        }
        if clean == slots {
            block.set_state(BlockState::Ready);
            return lists.ready.push(first, block);
        }
        let has_clean = (clean > 0).then(|| self.range(first).into());
        match has_clean.and_then(|range| block.clean_range(range, MOST_PAGES)) {
            Some(best) => {
                block.set_state(BlockState::Part);
                lists.part_for(best.end - best.start).push(first, block);
            }
            None => block.set_state(BlockState::Closed),
        }
    }

    /// Puts a block of which nothing is held any more where it belongs.
    pub(crate) fn spend(
        &self,
        mut lists: MutexGuard<'_, L, Lists>,
        tally: &mut Tally<'_>,
        block: &Block,
        first: u64,
    ) {
        let slots = self.slots();
        if self.remaps_atomically {
            block.set_clean(slots);
            block.set_stale(true);
            block.set_state(BlockState::Ready);
            lists.ready.push(first, block);
            return tally.add(0);
        }
        block.set_state(BlockState::Spent);
        lists.spent += 1;
        // Added before a purge can take what it counts: the lists are held.
        tally.add(slots);
    }

    /// Decides whether returned slots are so many that recycling them is better than a new block.
    pub(crate) fn recycle(&self, tally: &mut Tally<'_>) -> Recycling {
        let mut lists = self.lists.lock();
        lists.unseen += 1;
        // Where there are many, they are looked through once for each thirty-second that comes.
        let may_look = lists.unseen * 32 >= lists.all.len() as u64;
        if !may_look && lists.spent < lists.worth {
            return Recycling::None;
        }
        lists.unseen = 0;
        drop(lists);
        let (dirty, live) = self.idle_slots();
        // Where nothing lives long, a flush for a few blocks is cheap enough. Where much does,
        // dirty slots shall be few against it.
        let is_idle = live < self.slots() / 2;
        let worth = if is_idle { FEW } else { (live / self.slots() / 32).max(1) };
        self.lists.lock().worth = worth;
        match dirty < worth * self.slots() {
            true => Recycling::None,
            false if self.remaps_atomically => {
                self.clean_replaceable(tally);
                Recycling::Done
            }
            false => Recycling::Flush(worth),
        }
    }

    /// Counts the slots that a flush would make clean, and the slots in use, of blocks without
    /// windows.
    fn idle_slots(&self) -> (u64, u64) {
        let (mut dirty, mut live) = (0, 0);
        self.each_block(|_, _, block| {
            if matches!(block.state(), BlockState::Closed | BlockState::Part | BlockState::Spent) {
                dirty += self.dirty_of(block);
                live += block.held();
            }
        });
        (dirty, live)
    }

    /// Makes all dirty slots clean, where mapping replaces what was there.
    fn clean_replaceable(&self, tally: &mut Tally<'_>) {
        self.each_block(|lists, first, block| {
            let is_dirty = block.held() + block.clean() < self.slots();
            if block.state() == BlockState::Closed && is_dirty && !lists.is_swept {
                block.set_stale(true);
                block.set_clean(block.clean() + block.clear_dirty(self.range(first).into()));
                self.settle(lists, tally, block, first);
            }
        });
    }

    /// Calls `act` for every block, with the lists locked again each time. Blocks made meanwhile
    /// are not among them.
    pub(crate) fn each_block(&self, mut act: impl FnMut(MutexGuard<'_, L, Lists>, u64, &Block)) {
        let mut index = self.lists.lock().all.len();
        // Downwards: a block that leaves is replaced by one from further up.
        while index > 0 {
            index -= 1;
            let lists = self.lists.lock();
            let first = lists.all.get(index).copied();
            if let Some((first, block)) = first.and_then(|first| Some((first, self.get(first)?))) {
                act(lists, first, block);
            }
        }
    }
}
