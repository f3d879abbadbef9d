//! What becomes of a block: from a new one to a window, from a window to where its slots can be flushed, and to a window again.

use crate::addr::PageRange;
use crate::block::{Block, BlockPolicy, MOST_PAGES, Place, Queue, Shelf, Window};
use crate::error::{AllocError, RequestError};
use crate::platform::Platform;
use crate::request::Fit;
use crate::space::alloc::Backing;
use crate::space::notes::Note;
use crate::space::{Kind, Space};
use crate::sync::size;
use core::sync::atomic::Ordering;
use lock_api::MutexGuard;

/// So many blocks are few.
const FEW: u64 = size(8, 2);

/// What a block's area is noted as.
pub(super) const NOTE: Note = Note { kind: Kind::Block, guard_pages: 0, slack: 0, tag: None };

impl<P: Platform> Space<P> {
    /// A window of at least `slots` slots in a block that is there.
    pub(super) fn open_part(&self, slots: u64) -> Option<Window> {
        let blocks = &self.blocks;
        let mut shelf = blocks.shelf.0.lock();
        if let Some((first, block)) = shelf.pop_part(slots, blocks) {
            let clean = block.clean_range(blocks.range(first).into(), MOST_PAGES);
            let window =
                clean.map_or(Window::default(), |clean| Window { next: clean.start, end: clean.end });
            block.put(Place::Open);
            blocks.forget(blocks.dirty_of(block));
            block.set_clean(block.clean() - window.len());
            block.hold(window.len());
            return Some(window);
        }
        let (first, block) = shelf.ready.pop(blocks)?;
        block.put(Place::Open);
        block.set_clean(0);
        block.hold(blocks.slots());
        Some(Window { next: first, end: first + blocks.slots() })
    }

    /// The next clean slots of the block whose window is used up, as the next window, if `slots` follow each other there: a block is read
    /// once from end to end, not once for each window.
    pub(super) fn advance(&self, queue: &mut Queue, slots: u64) -> bool {
        let (blocks, hot) = (&self.blocks, super::hot(queue, slots));
        let window = *hot;
        if window.len() != 0 || !window.is_some() {
            return false;
        }
        let end = blocks.first(window.end - 1) + blocks.slots();
        let Some(block) =
            blocks.get(window.end - 1).filter(|block| window.end < end && block.clean() >= slots)
        else {
            return false;
        };
        let _shelf = blocks.shelf.0.lock();
        let clean =
            block.clean_range(window.end..end, slots).filter(|clean| clean.end - clean.start >= slots);
        let Some(clean) = clean else { return false };
        *hot = Window { next: clean.start, end: clean.end };
        block.set_clean(block.clean() - hot.len());
        block.hold(hot.len());
        true
    }

    /// A new block, all window.
    pub(super) fn new_block(&self) -> Result<Window, AllocError> {
        let blocks = &self.blocks;
        let fit = Fit::plain(blocks.slots(), blocks.slots().ilog2());
        let area = self.claim_high(fit)?;
        self.describe_far(area, NOTE, Backing::None)?;
        let mut shelf = blocks.shelf.0.lock();
        let Some(block) = blocks.reach(area.start()).ok().filter(|_| shelf.all.try_reserve(1).is_ok()) else {
            drop(shelf);
            self.give_up(area, NOTE);
            return Err(AllocError::Metadata);
        };
        shelf.enter(area.start(), block);
        block.put(Place::Open);
        block.set_clean(0);
        block.hold(blocks.slots());
        Ok(Window { next: area.start(), end: area.end() })
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
        blocks.soil(blocks.dirty_of(block));
        self.settle(shelf, block, blocks.first(window.end - 1));
    }

    /// Puts a block without windows where it belongs.
    pub(super) fn settle(&self, mut shelf: MutexGuard<'_, P::RawLock, Shelf>, block: &Block, first: u64) {
        let blocks = &self.blocks;
        if block.held() == 0 && block.clean() < blocks.slots() {
            return self.spend(shelf, block, first);
        }
        let best = match blocks.policy {
            BlockPolicy::Recycle if block.clean() > 0 => {
                block.clean_range(blocks.range(first).into(), MOST_PAGES)
            }
            _ => None,
        };
        if block.clean() == blocks.slots() {
            block.put(Place::Ready);
            shelf.ready.push(first, block);
        } else if let Some(best) = best {
            block.put(Place::Part);
            shelf.list(best.end - best.start).push(first, block);
        } else {
            block.put(Place::Closed);
        }
    }

    /// Nothing of a block is held any more.
    pub(super) fn spend(&self, mut shelf: MutexGuard<'_, P::RawLock, Shelf>, block: &Block, first: u64) {
        let slots = self.blocks.slots();
        if self.blocks.replaces && self.blocks.policy == BlockPolicy::Recycle {
            block.set_clean(slots);
            block.put(Place::Ready);
            shelf.ready.push(first, block);
            let is_first = shelf.ready.len() == 1;
            drop(shelf);
            return self.see_to(0, is_first);
        }
        block.put(Place::Spent);
        shelf.spent += 1;
        shelf.freed += u64::from(self.blocks.policy != BlockPolicy::Recycle);
        let is_first = shelf.spent == 1;
        // Relaxed: a number that starts work. Added before a purge can take what it counts.
        let total = self.lazy_pages.0.fetch_add(slots, Ordering::Relaxed) + slots;
        drop(shelf);
        self.see_to(total, is_first);
    }

    /// Makes slots that were returned available, if there are so many that this is better than a new block; whether it did.
    pub(super) fn make_slots(&self) -> bool {
        let blocks = &self.blocks;
        let shelf = blocks.shelf.0.lock();
        let idle = shelf.spent + shelf.ready.len() + blocks.queues.len() as u64;
        let live = (shelf.all.len() as u64).saturating_sub(idle);
        drop(shelf);
        // Where few blocks have something live, a flush for eight blocks is cheap enough; where many have, what is dirty shall be
        // little against it.
        let worth = if live < FEW { FEW } else { (live / 16).max(1) } * blocks.slots();
        if blocks.policy != BlockPolicy::Recycle || blocks.dirty() < worth {
            return false;
        }
        if blocks.replaces {
            self.collect_replaceable();
            return true;
        }
        self.flush_if_idle()
    }

    /// Where mappings replace what was there, all that is dirty is clean.
    fn collect_replaceable(&self) {
        self.blocks.forget_all();
        self.each_block(|shelf, first, block| {
            if block.place() == Place::Closed && block.held() + block.clean() < self.blocks.slots() {
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
        let span = self.platform.span();
        let high = fit.within(span.start() + span.len() / 2, span.end());
        match high.map_err(AllocError::from).and_then(|fit| self.try_claim(&fit)) {
            Err(AllocError::NoSpace(_) | AllocError::Request(RequestError::LimitsReversed { .. })) => {
                self.claim(fit)
            }
            result => result,
        }
    }
}
