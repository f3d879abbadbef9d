//! What becomes of a block: from a new one to a window, from a window to where its slots can be flushed, and to a window again.

use crate::addr::PageRange;
use crate::block::{Block, MOST_PAGES, Place, Shelf, Window};
use crate::error::{AllocError, RequestError};
use crate::platform::Platform;
use crate::request::Fit;
use crate::space::alloc::Backing;
use crate::space::annotations::Annotation;
use crate::space::{Kind, Space};
use crate::sync::size;
use core::ops::Range;
use core::sync::atomic::Ordering;
use lock_api::MutexGuard;

/// So many blocks are few.
const FEW: u64 = size(16, 2);

/// What a block's area is noted as.
pub(super) const ANNOTATION: Annotation =
    Annotation { kind: Kind::Block, guard_pages: 0, slack: 0, tag: None };

impl<P: Platform> Space<P> {
    /// A window for requests of an order in a block that is there.
    pub(super) fn open_part(&self, order: usize) -> Option<Window> {
        let blocks = &self.blocks;
        let mut shelf = blocks.shelf.0.lock();
        let (range, block) = match shelf.pop_part(order, blocks) {
            // By its list it has such a range.
            Some((first, block)) => (self.clean_runs(block, blocks.range(first).into(), order)?, block),
            None => {
                let (first, block) = shelf.ready.pop(blocks)?;
                (blocks.range(first).into(), block)
            }
        };
        block.put(Place::Open);
        Some(self.open_window(block, range, order))
    }

    /// The next window in the block of `before`, which is used up, if there is one behind it: so a block is read once from end to end, not once
    /// for each window.
    pub(super) fn advance(&self, before: Window, order: usize) -> Option<Window> {
        let blocks = &self.blocks;
        if before.len() != 0 || !before.is_some() {
            return None;
        }
        let end = blocks.first(before.end - 1) + blocks.slots();
        let block = blocks.get(before.end - 1).filter(|block| before.end < end && block.clean() > 0)?;
        let _shelf = blocks.shelf.0.lock();
        let range = self.clean_runs(block, before.end..end, order)?;
        Some(self.open_window(block, range, order))
    }

    /// The first range of clean slots in `range` that is enough for an order, in whole runs.
    fn clean_runs(&self, block: &Block, range: Range<u64>, order: usize) -> Option<Range<u64>> {
        let clean = block.clean_range(range, 1 << order)?;
        let runs = (clean.end - clean.start) >> order;
        (runs > 0).then(|| clean.start..clean.start + (runs << order))
    }

    /// Makes clean slots a window. The shelf is locked.
    fn open_window(&self, block: &Block, range: Range<u64>, order: usize) -> Window {
        let window = Window { next: range.start, end: range.end };
        block.reserve(range, order as u32);
        block.set_clean(block.clean().saturating_sub(window.len()));
        block.hold(window.len());
        window
    }

    /// A new block, all window.
    pub(super) fn new_block(&self, order: usize) -> Result<Window, AllocError> {
        let blocks = &self.blocks;
        let fit = Fit::plain(blocks.slots(), blocks.slots().ilog2());
        let area = self.claim_high(fit)?;
        self.hand_out(area, ANNOTATION, Backing::None)?;
        let mut shelf = blocks.shelf.0.lock();
        let Some(block) = blocks.reach(area.start()).ok().filter(|_| shelf.all.try_reserve(1).is_ok()) else {
            drop(shelf);
            self.give_up(area, ANNOTATION);
            return Err(AllocError::Metadata);
        };
        shelf.enter(area.start(), block);
        block.put(Place::Open);
        block.set_clean(0);
        Ok(self.open_window(block, area.into(), order))
    }

    /// Ends a window, and sees where its block belongs now.
    pub(super) fn close(&self, window: Option<Window>) {
        let Some(window) = window else { return };
        let blocks = &self.blocks;
        let Some(block) = blocks.get(window.end - 1) else {
            self.platform.fatal(&"a window without its block")
        };
        block.clear(window.next..window.end);
        let shelf = blocks.shelf.0.lock();
        block.set_clean(block.clean() + window.len());
        block.set_stale(true);
        block.give(window.len());
        self.settle(shelf, block, blocks.first(window.end - 1));
    }

    /// Puts a block without windows where it belongs.
    pub(super) fn settle(&self, mut shelf: MutexGuard<'_, P::RawLock, Shelf>, block: &Block, first: u64) {
        let blocks = &self.blocks;
        if block.held() == 0 && block.clean() < blocks.slots() {
            return self.spend(shelf, block, first);
        }
        if block.clean() == blocks.slots() {
            block.put(Place::Ready);
            return shelf.ready.push(first, block);
        }
        let has_clean = (block.clean() > 0).then(|| blocks.range(first).into());
        let best = has_clean.and_then(|range| block.clean_range(range, MOST_PAGES));
        match best {
            Some(best) => {
                block.put(Place::Part);
                shelf.list(best.end - best.start).push(first, block);
            }
            None => block.put(Place::Closed),
        }
    }

    /// Nothing of a block is held any more.
    pub(super) fn spend(&self, mut shelf: MutexGuard<'_, P::RawLock, Shelf>, block: &Block, first: u64) {
        let slots = self.blocks.slots();
        if self.blocks.replaces {
            block.set_clean(slots);
            block.set_stale(true);
            block.put(Place::Ready);
            shelf.ready.push(first, block);
            let is_first = shelf.ready.len() == 1;
            drop(shelf);
            return self.see_to(0, 0, is_first);
        }
        block.put(Place::Spent);
        shelf.spent += 1;
        let is_first = shelf.spent == 1;
        // Relaxed: a number that starts work. Added before a purge can take what it counts.
        let total = self.lazy_pages.0.fetch_add(slots, Ordering::Relaxed) + slots;
        drop(shelf);
        self.see_to(total, slots, is_first);
    }

    /// Makes slots that were returned available, if there are so many that this is better than a new block; whether it did.
    pub(super) fn make_slots(&self) -> bool {
        let blocks = &self.blocks;
        let mut shelf = blocks.shelf.0.lock();
        shelf.unseen += 1;
        // Where there are many, they are looked through once for each thirty-second that comes.
        let may_look = shelf.unseen * 32 >= shelf.all.len() as u64;
        if !may_look && shelf.spent < shelf.worth {
            return false;
        }
        shelf.unseen = 0;
        drop(shelf);
        let (dirty, live) = self.idle_slots();
        // Where nothing lives long, a flush for a few blocks is cheap enough; where much does, what is dirty shall be little
        // against it.
        let worth = if live < blocks.slots() / 2 { FEW } else { (live / blocks.slots() / 32).max(1) };
        blocks.shelf.0.lock().worth = worth;
        if dirty < worth * blocks.slots() {
            return false;
        }
        if blocks.replaces {
            self.collect_replaceable();
            return true;
        }
        let flushed = self.flush_if_idle();
        let ready = blocks.shelf.0.lock().ready.len();
        self.release_ready(ready.saturating_sub(worth));
        flushed
    }

    /// Slots that a flush would make clean, and slots in use, of blocks without windows.
    fn idle_slots(&self) -> (u64, u64) {
        let (mut dirty, mut live) = (0, 0);
        self.each_block(|_, _, block| {
            if matches!(block.place(), Place::Closed | Place::Part | Place::Spent) {
                dirty += self.blocks.dirty_of(block);
                live += block.held();
            }
        });
        (dirty, live)
    }

    /// Where mappings replace what was there, all that is dirty is clean.
    fn collect_replaceable(&self) {
        self.each_block(|shelf, first, block| {
            if block.place() == Place::Closed && block.held() + block.clean() < self.blocks.slots() {
                block.set_stale(true);
                block.set_clean(block.clean() + block.clear_dirty(self.blocks.range(first).into()));
                self.settle(shelf, block, first);
            }
        });
    }

    /// Calls `act` for every block, with the shelf locked anew each time. Blocks made meanwhile are not among them.
    pub(super) fn each_block(&self, mut act: impl FnMut(MutexGuard<'_, P::RawLock, Shelf>, u64, &Block)) {
        let mut index = self.blocks.shelf.0.lock().all.len();
        // Downwards: who leaves is replaced by one from further up.
        while index > 0 {
            index -= 1;
            let shelf = self.blocks.shelf.0.lock();
            let first = shelf.all.get(index).copied();
            if let Some((first, block)) = first.and_then(|first| Some((first, self.blocks.get(first)?))) {
                act(shelf, first, block);
            }
        }
    }

    /// An area of its own for `pages` pages, from the middle of the span upwards: where mappings lie they are not in the way
    /// of ordinary areas, which begin at its start.
    pub(in crate::space) fn claim_high(&self, fit: Fit) -> Result<PageRange, AllocError> {
        let span = self.geometry.span;
        let high = fit.within(span.start() + span.len() / 2, span.end());
        match high.map_err(AllocError::from).and_then(|fit| self.try_claim(&fit)) {
            Err(AllocError::NoSpace(_) | AllocError::Request(RequestError::LimitsReversed { .. })) => {
                self.claim(fit)
            }
            result => result,
        }
    }
}
