//! Handing slots out and taking them back: what every short mapping does.

use super::{
    AtomicWindow, Block, BlockState, Blocks, Kept, Key, MOST_KEPT, Queue, SlotState, Window, order_of,
    slots_for,
};
use crate::UnmapError;
use lock_api::RawMutex;
use vmalloc::tenant::Tally;
use vmalloc::{FreeError, PageRange, Platform};

impl<L: RawMutex> Blocks<L> {
    /// Takes slots for `pages` pages from this CPU's window, if it is not used up. Returns their
    /// first page, or 0.
    #[inline(never)]
    pub(crate) fn take<P: Platform>(&self, platform: &P, pages: u64) -> u64 {
        let order = order_of(pages);
        let window = self.queues.get(platform.cpu()).and_then(|queue| queue.0.windows.get(order));
        let Some(start) = window.and_then(|window| window.take(order)) else { return 0 };
        // Not a call and more: the common way out has nothing to remember over one.
        let Some(block) = self.near(start) else { return self.take_slow(platform, start, pages) };
        block.take(start, pages);
        start
    }

    #[inline(never)]
    fn take_slow<P: Platform>(&self, platform: &P, start: u64, pages: u64) -> u64 {
        self.mark_taken(platform, start, pages);
        start
    }

    /// Takes slots for `pages` pages from this CPU's window, or from the next ones that it opens.
    /// Returns their first page; `None` if no block has clean slots.
    pub(crate) fn take_opened<P: Platform>(
        &self,
        platform: &P,
        tally: &mut Tally<'_>,
        pages: u64,
    ) -> Option<u64> {
        let order = order_of(pages);
        let queue = self.queue(platform);
        // Held to the end: a purge that has had the queue finds no open block without a window in
        // it.
        let _state = queue.state.lock();
        let window = &queue.windows[order];
        loop {
            // Other CPUs exchange the word as well, so it may take more than one try.
            while window.window().len() > 0 {
                if let Some(start) = window.take(order) {
                    self.mark_taken(platform, start, pages);
                    return Some(start);
                }
            }
            let before = self.open_next(queue, order)?;
            self.close(tally, before);
        }
    }

    /// Takes slots for `pages` pages from `window`, that of a new block, and puts the rest of it
    /// into this CPU's queue. Returns their first page.
    pub(crate) fn take_new<P: Platform>(
        &self,
        platform: &P,
        tally: &mut Tally<'_>,
        mut window: Window,
        pages: u64,
    ) -> u64 {
        let order = order_of(pages);
        let start = window.next;
        window.next += 1 << order;
        self.mark_taken(platform, start, pages);
        let queue = self.queue(platform);
        let state = queue.state.lock();
        let before = queue.windows[order].close();
        queue.windows[order].open(window);
        self.close(tally, before);
        drop(state);
        start
    }

    fn queue<P: Platform>(&self, platform: &P) -> &Queue<L> {
        &self.queues[platform.cpu() % self.queues.len()].0
    }

    /// Opens the next window for requests of an order. Returns the one before, which has to be
    /// closed if there is anything left to close of it.
    fn open_next(&self, queue: &Queue<L>, order: usize) -> Option<Window> {
        let before = queue.windows[order].window();
        if let Some(window) = self.advance(before, order) {
            queue.windows[order].open(window);
            return Some(Window::default());
        }
        queue.windows[order].open(self.open_part(order)?);
        Some(before)
    }

    #[inline(never)]
    fn mark_taken<P: Platform>(&self, platform: &P, start: u64, pages: u64) {
        match self.get(start) {
            Some(block) => block.take(start, pages),
            None => platform.fatal(&"a window without its block"),
        }
    }

    /// Returns the live slots of `pages` pages at `page`, if the block is one of the first. Says
    /// whether it did.
    #[inline(always)]
    pub(crate) fn give_near(&self, page: u64, pages: u64) -> Given<'_> {
        let Some(block) = self.near(page) else { return Given::Not };
        let Some(slots) = slots_for(pages).filter(|_| block.give_run(page, pages)) else { return Given::Not };
        if block.give(slots) == slots { Given::Last(block) } else { Given::Some }
    }

    /// Notes that nothing of `block`, in which `page` is, is held any more.
    #[inline(never)]
    pub(crate) fn emptied(&self, tally: &mut Tally<'_>, block: &Block, page: u64) {
        // If it is elsewhere, the purge under way or the next one sees to it.
        let lists = self.lists.lock();
        if block.state() == BlockState::Closed && block.held() == 0 {
            self.spend(lists, tally, block, self.first(page));
        }
    }

    /// Returns the live slots of `pages` pages at `page`, which is in a block and has the address
    /// `addr`.
    ///
    /// # Errors
    /// [`UnmapError`] when no `pages` pages are mapped there; nothing is changed.
    pub(crate) fn give_slow(
        &self,
        tally: &mut Tally<'_>,
        block: &Block,
        addr: usize,
        page: u64,
        pages: u64,
    ) -> Result<(), UnmapError> {
        if let Some(slots) = slots_for(pages).filter(|_| block.give_run(page, pages)) {
            self.given(tally, block, page, slots);
            return Ok(());
        }
        match block.slot(page) {
            SlotState::Clean | SlotState::Reserved { .. } => Err(FreeError::NotAnArea { addr }.into()),
            SlotState::Live { pages: mapped } => Err(UnmapError::WrongCount { addr, mapped, given: pages }),
            SlotState::Kept { .. } | SlotState::Dirty { .. } => Err(FreeError::AlreadyFreed { addr }.into()),
        }
    }

    /// Counts slots off that were held.
    fn given(&self, tally: &mut Tally<'_>, block: &Block, page: u64, slots: u64) {
        let is_last = block.give(slots) == slots;
        if is_last {
            self.emptied(tally, block, page);
        }
    }

    /// Returns the record of the block in use that `page` is in.
    pub(crate) fn in_use(&self, page: u64) -> Option<&Block> {
        self.get(page).filter(|block| block.state() != BlockState::Unused)
    }

    /// Returns whether runs of `pages` pages may stay mapped for the next caller that maps the same
    /// frames.
    pub(crate) fn may_keep(&self, pages: u64) -> bool {
        self.remaps_atomically && pages <= MOST_KEPT
    }

    /// Takes a run of `pages` pages that this CPU has kept mapped, if there is one for the caller
    /// who maps `frame` and others there. Returns its first page.
    pub(crate) fn take_kept_run<P: Platform>(&self, platform: &P, frame: u64, pages: u64) -> Option<u64> {
        let mut queue = self.queues.get(platform.cpu())?.0.state.try_lock()?;
        let run = queue.kept.best(Key::new(frame, pages))?;
        let block = self.get(run.page)?;
        block.revive_run(run.page, pages).then(|| core::mem::take(run).page)
    }

    /// Keeps a live run mapped, perhaps in the place of another. Returns false if there is no such
    /// run.
    pub(crate) fn keep_run<P: Platform>(
        &self,
        platform: &P,
        tally: &mut Tally<'_>,
        page: u64,
        frame: u64,
        pages: u64,
    ) -> bool {
        if !self.get(page).is_some_and(|block| block.keep_run(page, pages)) {
            return false;
        }
        let mut queue = self.queues.get(platform.cpu()).and_then(|queue| queue.0.state.try_lock());
        let other = match &mut queue {
            Some(queue) => queue.kept.put(Kept { key: Key::new(frame, pages), page }),
            None => page,
        };
        // With the queue held: a purge finds each kept run that was returned before in a queue.
        self.drop_kept_run(tally, other);
        true
    }

    /// Returns the slots of the run at `page` if it is kept.
    pub(crate) fn drop_kept_run(&self, tally: &mut Tally<'_>, page: u64) {
        let block = if page == 0 { None } else { self.get(page) };
        match block.map(|block| (block, block.slot(page))) {
            Some((block, SlotState::Kept { pages })) if block.drop_run(page, pages) => {
                self.given(tally, block, page, 1 << order_of(pages));
            }
            _ => {}
        }
    }

    /// Returns the ranges that are mapped for an owner in the block at `first`, in address order.
    pub(crate) fn live_ranges(&self, first: u64) -> impl Iterator<Item = PageRange> + '_ {
        let block = self.get(first).filter(|block| block.held() > 0);
        let runs = block.map(|block| block.runs(self.range(first).into()).map(move |run| (block, run)));
        runs.into_iter().flatten().filter_map(|(block, (run, _))| match block.slot(run.start) {
            SlotState::Live { pages } => PageRange::from_len(run.start, pages),
            _ => None,
        })
    }

    /// Returns all windows that are open, used up or not. The caller holds the queues.
    pub(crate) fn open_windows(&self) -> impl Iterator<Item = Window> + '_ {
        let queues = self.queues.iter().flat_map(|queue| queue.0.windows.iter());
        queues.map(AtomicWindow::window).filter(Window::is_some)
    }
}

/// The answer of [`Blocks::give_near`].
pub(crate) enum Given<'a> {
    /// Nothing was returned.
    Not,
    /// Some slots were returned.
    Some,
    /// The last slots that were held of this block were returned.
    Last(&'a Block),
}
