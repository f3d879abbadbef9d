//! Short mappings: slots of blocks. The theory is in [`block`](crate::block).
//!
//! Here is what every mapping does; `life` has what becomes of a block from one window to the next, `purge` what a purge does
//! with all of them.

mod life;
mod purge;
mod verify;

pub(super) use purge::Taken;

use super::{Kind, Space};
use crate::block::{Block, BlockPolicy, DIRTY, PORTION, Place, Queue, Window, order_of, slots_for};
use crate::error::{AllocError, FreeError};
use crate::platform::Platform;
use crate::sync::{Mutant, is};
use lock_api::MutexGuard;

impl<P: Platform> Space<P> {
    /// Addresses for `pages` pages, up to 64 of them from a block: for what the caller maps himself and for a short while, without guard
    /// page. More come as an area of their own. O(1), and some 30 instructions as a rule.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline(always)]
    pub fn block_alloc(&self, pages: u64) -> Result<usize, AllocError> {
        match self.take_slots(pages) {
            0 => self.take_slots_far(pages),
            addr => Ok(addr),
        }
    }

    /// Returns what [`block_alloc`](Self::block_alloc) gave for `pages` pages, on whatever CPU. It is unmapped and flushed before
    /// it is handed out again. O(1), without a lock as a rule.
    ///
    /// # Errors
    /// [`FreeError`] when no `pages` pages were handed out at `addr`; nothing is changed.
    #[inline(always)]
    pub fn block_free(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        if self.give_slots(addr, pages) { Ok(()) } else { self.give_slots_far(addr, pages) }
    }

    /// The common case: this CPU's queue is free and its hot window long enough. Else 0.
    #[inline(never)]
    fn take_slots(&self, pages: u64) -> usize {
        let queue = self.blocks.queues.get(self.platform.cpu()).and_then(|queue| queue.0.try_lock());
        let Some(mut queue) = queue else { return 0 };
        let order = order_of(pages);
        let Some(window) = queue.hot.get_mut(order) else { return leave(queue) };
        let start = window.next;
        let Some(block) = self.blocks.near(start).filter(|_| window.len() >= 1 << order) else {
            return leave(queue);
        };
        window.next = start + (1 << order);
        block.take(start, pages);
        drop(queue);
        self.addr(start)
    }

    /// The common case: one of the first blocks, and not the last slots of a portion.
    #[inline(never)]
    fn give_slots(&self, addr: usize, pages: u64) -> bool {
        let page = (addr >> self.shift) as u64;
        let Some(block) = self.blocks.near(page) else { return false };
        let slots = slots_for(pages);
        if addr & self.offset_mask != 0 || slots == 0 || !block.give_run(page, pages) {
            return false;
        }
        self.given(block, page, block.give(slots), slots);
        true
    }

    /// Sees to it that slots of a block that were held, and are not any more, are counted, and the last of them noticed.
    #[inline(always)]
    fn given(&self, block: &Block, page: u64, old: u64, slots: u64) {
        let new = old - slots;
        if old.wrapping_sub(1) ^ new.wrapping_sub(1) >= PORTION {
            self.given_portion(block, page, old, new);
        }
    }

    #[inline(never)]
    fn given_portion(&self, block: &Block, page: u64, old: u64, new: u64) {
        if block.place() != Place::Open {
            self.blocks.soil((old.div_ceil(PORTION) - new.div_ceil(PORTION)) * PORTION);
        }
        if new == 0 {
            // If it is elsewhere, the purge under way or the next one sees to it.
            let shelf = self.blocks.shelf.0.lock();
            let is_closed = block.place() == Place::Closed || is(Mutant::SpendAnywhere);
            if is_closed && block.held() == 0 {
                self.spend(shelf, block, self.blocks.first(page));
            }
        }
    }

    /// Any case.
    #[inline(never)]
    fn take_slots_far(&self, pages: u64) -> Result<usize, AllocError> {
        let slots = slots_for(pages);
        if slots == 0 {
            return self.claim_mapping(pages, 0, Kind::MapRam, None).map(|area| self.addr(area.start()));
        }
        let mut may_flush = true;
        loop {
            let mut queue = self.queue();
            if let Some((start, used_up)) = self.take_queued(&mut queue, slots) {
                self.mark_taken(start, pages);
                drop(queue);
                self.close(used_up);
                return Ok(self.addr(start));
            }
            if self.advance(&mut queue, slots) {
                continue;
            }
            if let Some(window) = self.open_part(slots) {
                let left = self.enter(&mut queue, window, slots);
                drop(queue);
                self.close(left);
                continue;
            }
            drop(queue);
            if !core::mem::take(&mut may_flush) || !self.make_slots() {
                return self.take_new(pages, slots);
            }
        }
    }

    /// From a new block, which is occupied at once.
    fn take_new(&self, pages: u64, slots: u64) -> Result<usize, AllocError> {
        let mut window = self.new_block()?;
        if self.blocks.policy == BlockPolicy::ClassicHead {
            let left = self.enter(&mut self.queue(), window, slots);
            self.close(left);
            // As it was done then: the search begins anew, and finds it.
            return self.take_slots_far(pages);
        }
        let start = window.next;
        window.take(slots);
        self.mark_taken(start, pages);
        let left = self.enter(&mut self.queue(), window, slots);
        self.close(left);
        Ok(self.addr(start))
    }

    fn mark_taken(&self, start: u64, pages: u64) {
        match self.blocks.get(start) {
            Some(block) => block.take(start, pages),
            None => self.platform.fatal(&"a window without its block"),
        }
    }

    /// Slots of a window of the queue, and that window if it has to be closed.
    fn take_queued(&self, queue: &mut Queue, slots: u64) -> Option<(u64, Option<Window>)> {
        match self.blocks.policy {
            BlockPolicy::Recycle => Some((hot(queue, slots).take(slots)?, None)),
            BlockPolicy::ClassicTail | BlockPolicy::ClassicHead => queue.take_in_line(slots),
        }
    }

    /// Enters a window for requests of `slots` slots; returns the one that has to be closed for that.
    #[must_use]
    fn enter(&self, queue: &mut Queue, window: Window, slots: u64) -> Option<Window> {
        if self.blocks.policy == BlockPolicy::Recycle {
            return Some(core::mem::replace(hot(queue, slots), window)).filter(Window::is_some);
        }
        if window.len() == 0 || queue.line.try_reserve(1).is_err() {
            return Some(window);
        }
        let place = if self.blocks.policy == BlockPolicy::ClassicHead { 0 } else { queue.line.len() };
        queue.line.insert(place, window);
        None
    }

    /// This CPU's queue, held.
    fn queue(&self) -> MutexGuard<'_, P::RawLock, Queue> {
        self.blocks.queues[self.platform.cpu() % self.blocks.queues.len()].0.lock()
    }

    /// What is wrong with `pages` pages at `addr`, or an area of its own freed.
    #[inline(never)]
    fn give_slots_far(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let Some(block) = self.blocks.get(page).filter(|_| self.is_in_block(page)) else {
            return self.free_large(page, pages);
        };
        let slots = slots_for(pages);
        if slots != 0 && block.give_run(page, pages) {
            self.given(block, page, block.give(slots), slots);
            return Ok(());
        }
        let mark = block.mark(page);
        match u64::from(mark & !DIRTY) {
            0 => Err(FreeError::NotAnArea { page }),
            _ if mark & DIRTY != 0 => Err(FreeError::AlreadyFreed { page }),
            mapped => Err(FreeError::WrongCount { page, mapped, given: pages }),
        }
    }
}

/// The window for requests of `slots` slots, a power of two.
fn hot(queue: &mut Queue, slots: u64) -> &mut Window {
    &mut queue.hot[slots.trailing_zeros() as usize]
}

/// Apart, so that the common way has nothing to remember over the release.
#[cold]
#[inline(never)]
fn leave<L: lock_api::RawMutex>(queue: MutexGuard<'_, L, Queue>) -> usize {
    drop(queue);
    0
}
