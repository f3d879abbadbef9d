//! Short mappings: slots of blocks. The theory is in [`block`](crate::block).
//!
//! Here is what every mapping does; `life` has what becomes of a block from one window to the next, `purge` what a purge does
//! with all of them.

mod fork;
mod life;
mod purge;
mod verify;

pub(super) use purge::Taken;

use super::{Kind, Space};
use crate::addr::PageRange;
use crate::block::{Block, MOST_KEPT, Mark, ORDERS, Place, Queue, Window, order_of, place, slots_for};
use crate::error::{AllocError, FreeError};
use crate::platform::Platform;
use crate::sync::{Mutant, is};

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
    /// # Safety
    /// Nothing uses the addresses any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no `pages` pages were handed out at `addr`; nothing is changed.
    #[inline(always)]
    pub unsafe fn block_free(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        self.return_slots(addr, pages)
    }

    /// Returns slots of a block, or frees a short mapping's own area.
    #[inline(always)]
    pub(super) fn return_slots(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        if self.give_slots(addr, pages) { Ok(()) } else { self.give_slots_far(addr, pages) }
    }

    /// The common case: this CPU's window for such requests is not used up. Else 0.
    #[inline(never)]
    fn take_slots(&self, pages: u64) -> usize {
        let order = order_of(pages);
        let hot = self.blocks.queues.get(self.platform.cpu()).and_then(|queue| queue.0.hot.get(order));
        let Some(start) = hot.and_then(|hot| hot.take(order)) else { return 0 };
        let Some(block) = self.blocks.near(start) else { return self.take_slots_beyond(start, pages) };
        block.take(start, pages);
        self.addr(start)
    }

    /// The same beyond the first blocks.
    #[inline(never)]
    fn take_slots_beyond(&self, start: u64, pages: u64) -> usize {
        self.mark_taken(start, pages);
        self.addr(start)
    }

    /// The common case: one of the first blocks.
    #[inline(never)]
    fn give_slots(&self, addr: usize, pages: u64) -> bool {
        let page = (addr >> self.shift) as u64;
        let Some(block) = self.blocks.near(page) else { return false };
        let order = order_of(pages);
        if addr & self.offset_mask != 0 || order >= ORDERS || !block.give_run(page, pages) {
            return false;
        }
        self.given(block, page, 1 << order);
        true
    }

    /// Slots of a block that were held are not any more: who gives the last of them says so.
    #[inline(always)]
    fn given(&self, block: &Block, page: u64, slots: u64) {
        if block.give(slots) == slots {
            self.emptied(block, page);
        }
    }

    #[inline(never)]
    fn emptied(&self, block: &Block, page: u64) {
        // If it is elsewhere, the purge under way or the next one sees to it.
        let shelf = self.blocks.shelf.0.lock();
        let is_closed = block.place() == Place::Closed || is(Mutant::SpendAnywhere);
        if is_closed && block.held() == 0 {
            self.spend(shelf, block, self.blocks.first(page));
        }
    }

    /// Any case.
    #[inline(never)]
    fn take_slots_far(&self, pages: u64) -> Result<usize, AllocError> {
        let order = order_of(pages);
        if order >= ORDERS {
            return self.claim_mapping(pages, 0, Kind::MapRam, None).map(|area| self.addr(area.start()));
        }
        let mut may_make = true;
        loop {
            let queue = &self.blocks.queues[self.platform.cpu() % self.blocks.queues.len()].0;
            let slow = queue.slow.lock();
            // Other CPUs exchange the word as well, so it may take more than one try.
            let hot = &queue.hot[order];
            let taken = core::iter::from_fn(|| (hot.window().len() > 0).then(|| hot.take(order)));
            if let Some(start) = { taken }.flatten().next() {
                self.mark_taken(start, pages);
                return Ok(self.addr(start));
            }
            let found = self.next_window(queue, order);
            drop(slow);
            match found {
                Some(left) => self.close(left),
                None if core::mem::take(&mut may_make) && self.make_slots() => {}
                None => return self.take_new(pages, order),
            }
        }
    }

    /// Opens the next window for requests of an order. Returns the one before, which has to be
    /// closed.
    fn next_window(&self, queue: &Queue<P::RawLock>, order: usize) -> Option<Option<Window>> {
        let before = queue.hot[order].window();
        if let Some(window) = self.advance(before, order) {
            queue.hot[order].open(window);
            return Some(None);
        }
        let window = self.open_part(order)?;
        queue.hot[order].open(window);
        Some(Some(before).filter(Window::is_some))
    }

    /// Takes slots from a new block, which is occupied at once.
    fn take_new(&self, pages: u64, order: usize) -> Result<usize, AllocError> {
        let mut window = self.new_block(order)?;
        let start = window.next;
        window.next += 1 << order;
        self.mark_taken(start, pages);
        let queue = &self.blocks.queues[self.platform.cpu() % self.blocks.queues.len()].0;
        let slow = queue.slow.lock();
        let before = queue.hot[order].close();
        queue.hot[order].open(window);
        drop(slow);
        self.close(Some(before).filter(Window::is_some));
        Ok(self.addr(start))
    }

    fn mark_taken(&self, start: u64, pages: u64) {
        match self.blocks.get(start) {
            Some(block) => block.take(start, pages),
            None => self.platform.fatal(&"a window without its block"),
        }
    }

    /// Whether runs of `pages` pages may be kept mapped for the next who maps the same frames.
    pub(super) fn may_keep(&self, pages: u64) -> bool {
        self.blocks.replaces && pages <= MOST_KEPT
    }

    /// Slots for `pages` pages that were kept by this CPU, of which the first may lead to frame `frame`; their address.
    pub(super) fn take_kept_run(&self, frame: u64, pages: u64) -> Option<usize> {
        let mut queue = self.blocks.queues.get(self.platform.cpu())?.0.slow.try_lock()?;
        let entry = &mut queue.kept[place(frame, pages)];
        let block = self.blocks.get(*entry)?;
        let page = block.revive_run(*entry, pages).then(|| core::mem::take(entry))?;
        Some(self.addr(page))
    }

    /// Keeps a live run as it is mapped, in the place of another; whether it was one.
    pub(super) fn keep_run(&self, page: u64, frame: u64, pages: u64) -> bool {
        let kept = self.blocks.get(page).is_some_and(|block| block.keep_run(page, pages));
        if kept {
            let queue = self.blocks.queues.get(self.platform.cpu()).and_then(|queue| queue.0.slow.try_lock());
            let other = match queue {
                Some(mut queue) => core::mem::replace(&mut queue.kept[place(frame, pages)], page),
                None => page,
            };
            self.drop_kept_run(other);
        }
        kept
    }

    /// Returns the slots of a run that was kept, if there is one.
    pub(super) fn drop_kept_run(&self, page: u64) {
        let block = if page == 0 { None } else { self.blocks.get(page) };
        let Some((block, Mark::Kept { pages })) = block.map(|block| (block, block.mark(page))) else {
            return;
        };
        if block.drop_run(page, pages) {
            self.given(block, page, slots_for(pages));
        }
    }

    /// What is mapped for somebody in the block at `first`, in address order.
    pub(super) fn live_ranges(&self, first: u64) -> impl Iterator<Item = PageRange> + '_ {
        let block = self.blocks.get(first).filter(|block| block.held() > 0);
        let runs =
            block.map(|block| block.runs(self.blocks.range(first).into()).map(move |run| (block, run)));
        runs.into_iter().flatten().filter_map(|(block, (run, _))| match block.mark(run.start) {
            Mark::Live { pages } => PageRange::from_len(run.start, pages),
            _ => None,
        })
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
            self.given(block, page, slots);
            return Ok(());
        }
        match block.mark(page) {
            Mark::Clean | Mark::Reserved { .. } => Err(FreeError::NotAnArea { page }),
            Mark::Live { pages: mapped } => Err(FreeError::WrongCount { page, mapped, given: pages }),
            Mark::Kept { .. } | Mark::Dirty { .. } => Err(FreeError::AlreadyFreed { page }),
        }
    }
}
