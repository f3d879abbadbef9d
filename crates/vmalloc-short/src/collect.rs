//! Blocks in a purge: taking what is to be flushed, and putting it back clean.

use super::{AtomicWindow, Block, BlockState, Blocks, List, Padded, QueueState, Run};
use lock_api::RawMutex;
use vmalloc::PageRange;
use vmalloc::tenant::{Part, Parts, Sweep, Tally};

impl<L: RawMutex> Blocks<L> {
    /// Enters all of the blocks that is to be flushed. With `Sweep::Everything` no window stays
    /// open, and every slot that may be mapped and is not live goes.
    pub(crate) fn collect_blocks(&self, sweep: Sweep, parts: &mut Parts, tally: &mut Tally<'_>) {
        if self.lists.lock().all.is_empty() {
            return;
        }
        let everything = sweep == Sweep::Everything;
        if everything {
            self.lists.lock().is_swept = true;
            self.close_windows(tally);
        }
        let part = core::mem::take(&mut self.lists.lock().part);
        self.unlist(part);
        self.collect_closed(sweep, parts, tally);
        if everything && self.remaps_atomically {
            // Only now: blocks that became clean without a flush meanwhile are here.
            let ready = core::mem::take(&mut self.lists.lock().ready);
            self.unlist([ready]);
            self.collect_closed(sweep, parts, tally);
        }
        if everything {
            self.lists.lock().is_swept = false;
        }
    }

    fn collect_closed(&self, sweep: Sweep, parts: &mut Parts, tally: &mut Tally<'_>) {
        // Each other slot may begin a range. The heap is called with no lock held.
        let most = self.slots() as usize / 2 + 1;
        parts.make_room(most);
        self.each_block(|lists, first, block| {
            let state = block.state();
            let wanted = match state {
                BlockState::Spent => true,
                BlockState::Closed => self.is_due(block, sweep),
                _ => false,
            };
            if wanted && self.enter_part(parts, first, block) {
                block.set_state(BlockState::Purging);
                drop(lists);
                parts.make_room(most);
            } else if state == BlockState::Closed {
                self.settle(lists, tally, block, first);
            }
        });
    }

    /// Returns whether a closed block may have something mapped that has to go.
    fn is_due(&self, block: &Block, sweep: Sweep) -> bool {
        let is_dirty = self.dirty_of(block) != 0;
        match self.remaps_atomically {
            true => sweep == Sweep::Everything && (is_dirty || block.is_stale()),
            false => is_dirty,
        }
    }

    /// Enters the ranges of a block that have to be unmapped. Returns false when memory is short.
    fn enter_part(&self, parts: &mut Parts, first: u64, block: &Block) -> bool {
        let range = self.range(first);
        if block.state() == BlockState::Spent {
            return parts.add(first, self.slots(), [range]);
        }
        if block.clean() == self.slots() {
            return parts.add(first, 0, [range]);
        }
        // Clean slots may be mapped where mapping replaces what was there.
        let goes = |run| run == Run::Dirty || self.remaps_atomically && run == Run::Clean;
        let runs = block.runs(range.into()).filter(|(_, state)| goes(*state));
        parts.add(first, 0, runs.filter_map(|(run, _)| PageRange::new(run.start, run.end)))
    }

    /// Puts a block back that was flushed: its dirty slots are clean. It was spent if it counted as
    /// lazy.
    pub(crate) fn put_flushed(&self, part: &Part, flushed: &[PageRange], tally: &mut Tally<'_>) {
        let Some(block) = self.get(part.area) else { return };
        let (mut lists, all) = (self.lists.lock(), [self.range(part.area)]);
        block.set_stale(false);
        lists.spent -= u64::from(part.lazy_pages != 0);
        if flushed == all {
            block.set_clean(self.slots());
        } else {
            let clean: u64 = flushed.iter().map(|&run| block.clear_dirty(run.into())).sum();
            block.set_clean(block.clean() + clean);
        }
        self.settle(lists, tally, block, part.area);
    }

    /// Takes up to `most` blocks that are all clean apart, and hands their addresses to `release`.
    pub(crate) fn release_ready(&self, most: u64, mut release: impl FnMut(PageRange)) {
        let (mut given, mut stale) = (0, List::default());
        while given < most {
            let mut lists = self.lists.lock();
            let Some((first, block)) = lists.ready.pop(self) else { break };
            // Where mapping replaces what was there, clean slots may still be mapped. Such a block
            // waits for the next purge.
            if self.remaps_atomically && block.is_stale() {
                stale.push(first, block);
                continue;
            }
            block.set_state(BlockState::Unused);
            lists.leave(block, self);
            lists.freed += 1;
            drop(lists);
            release(self.range(first));
            given += 1;
        }
        let mut lists = self.lists.lock();
        while let Some((first, block)) = stale.pop(self) {
            lists.ready.push(first, block);
        }
    }

    /// Ends all windows, and drops all runs that are kept mapped.
    fn close_windows(&self, tally: &mut Tally<'_>) {
        for Padded(queue) in &self.queues {
            let mut state = queue.state.lock();
            let QueueState { kept } = core::mem::take(&mut *state);
            let windows = queue.windows.each_ref().map(AtomicWindow::close);
            drop(state);
            kept.pages().for_each(|page| self.drop_kept_run(tally, page));
            windows.into_iter().for_each(|window| self.close(tally, window));
        }
    }

    /// Takes blocks from lists, for a purge to look at them.
    fn unlist(&self, lists: impl IntoIterator<Item = List>) {
        for mut list in lists {
            loop {
                let _lists = self.lists.lock();
                let Some((_, block)) = list.pop(self) else { break };
                block.set_state(BlockState::Closed);
            }
        }
    }
}
