//! Blocks in a purge: taking what is to be flushed, and putting it back clean.

use super::{AtomicWindow, Block, BlockState, List, QueueState, Run, ShortMaps};
use crate::PageRange;
use crate::cache::{Fraction, LazyPages, Padded, Trigger, clear};
use crate::platform::{Platform, PlatformError};
use crate::sync::{Mutant, is};
use alloc::vec::Vec;
use core::ops::Range;
use lock_api::RawMutex;

/// The blocks that a purge has taken.
#[derive(Default)]
pub(crate) struct Taken {
    blocks: Vec<Purged>,
    /// The ranges of them that have to be unmapped.
    pub(crate) runs: Vec<PageRange>,
    /// True if there was no memory to note a block.
    is_short: bool,
}

/// The result of unmapping blocks one by one.
#[derive(Default)]
pub(crate) struct Parted {
    /// The platform's error for the last block that it refused.
    pub(crate) refusal: Option<PlatformError>,
    /// True if memory sufficed to move all blocks that were to move.
    pub(crate) is_complete: bool,
    /// Spent blocks among those that moved.
    pub(crate) spent: u64,
}

/// A block in a purge.
#[derive(Clone, Copy)]
struct Purged {
    first: u64,
    /// True if all its slots go, whatever its bytes say.
    is_whole: bool,
    /// True if it was spent.
    is_spent: bool,
    /// How many of the runs are its own.
    runs: usize,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns whether a block was left out that was to be flushed, for want of memory.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Moves the block at `index`, whose runs are `own`, to another set. Returns false when memory
    /// is short.
    fn hand_over(&mut self, index: usize, own: Range<usize>, to: &mut Self) -> bool {
        let fits = to.blocks.try_reserve(1).is_ok() && to.runs.try_reserve(own.len()).is_ok();
        if fits {
            to.runs.extend(self.runs.drain(own));
            to.blocks.push(self.blocks.remove(index));
        }
        fits
    }

    /// Unmaps each block by itself, and moves those to `to` whose result `is_wanted`: the refused
    /// ones out of a purge, or the others back into one.
    #[cold]
    pub(crate) fn part(
        &mut self,
        to: &mut Self,
        unmap: impl Fn(&[PageRange]) -> Result<(), PlatformError>,
        is_wanted: fn(&Result<(), PlatformError>) -> bool,
    ) -> Parted {
        let mut parted = Parted { refusal: None, is_complete: true, spent: 0 };
        let mut end = self.runs.len();
        for index in (0..self.blocks.len()).rev() {
            let Purged { runs, is_spent, .. } = self.blocks[index];
            let own = end - runs..end;
            end = own.start;
            let unmapped = unmap(&self.runs[own.clone()]);
            parted.refusal = unmapped.err().or(parted.refusal);
            if is_wanted(&unmapped) {
                let has_moved = self.hand_over(index, own, to);
                parted.is_complete &= has_moved;
                parted.spent += u64::from(is_spent && has_moved);
            }
        }
        parted
    }

    /// Notes one range, joined to the last one behind `from` if that ends there. Returns false when
    /// memory is short.
    fn take_run(&mut self, from: usize, range: PageRange) -> bool {
        if let Some(last) = self.runs[from..].last_mut().filter(|last| last.end() == range.start()) {
            *last = PageRange::of(last.start(), range.end());
            return true;
        }
        let fits = self.runs.try_reserve(1).is_ok();
        if fits {
            self.runs.push(range);
        }
        fits
    }
}

impl<L: RawMutex> ShortMaps<L> {
    /// Takes all of the blocks that is to be flushed. With `everything` no window stays open, and
    /// every slot that may be mapped and is not live goes.
    pub(crate) fn take_blocks<P: Platform>(
        &self,
        platform: &P,
        lazy: &LazyPages,
        taken: &mut Taken,
        everything: bool,
    ) -> Trigger {
        let mut trigger = Trigger::NONE;
        taken.is_short = false;
        if self.lists.lock().all.is_empty() {
            return trigger;
        }
        if everything {
            self.lists.lock().is_swept = true;
            trigger = self.close_windows(platform, lazy);
        }
        let parts = core::mem::take(&mut self.lists.lock().part);
        self.unlist(parts);
        trigger = trigger.and(self.collect(lazy, taken, everything));
        if everything && self.remaps_atomically {
            // Only now: blocks that became clean without a flush meanwhile are here.
            let ready = core::mem::take(&mut self.lists.lock().ready);
            self.unlist([ready]);
            trigger = trigger.and(self.collect(lazy, taken, everything));
        }
        if everything {
            self.lists.lock().is_swept = false;
        }
        trigger
    }

    fn collect(&self, lazy: &LazyPages, taken: &mut Taken, everything: bool) -> Trigger {
        let mut trigger = Trigger::NONE;
        self.each_block(|lists, first, block| {
            let state = block.state();
            let wanted = match state {
                BlockState::Spent => true,
                BlockState::Closed => self.is_due(block, everything),
                _ => false,
            };
            if wanted && self.take_runs(taken, first, block) {
                block.set_state(BlockState::Purging);
                return;
            }
            taken.is_short |= wanted;
            if state == BlockState::Closed {
                trigger = trigger.and(self.settle(lists, lazy, block, first));
            }
        });
        trigger
    }

    /// Returns whether a closed block may have something mapped that has to go.
    fn is_due(&self, block: &Block, everything: bool) -> bool {
        let is_dirty = block.held() + block.clean() < self.slots();
        if self.remaps_atomically { everything && (is_dirty || block.is_stale()) } else { is_dirty }
    }

    /// Notes which ranges of a block have to be unmapped. Returns false when memory is short.
    fn take_runs(&self, taken: &mut Taken, first: u64, block: &Block) -> bool {
        let is_spent = block.state() == BlockState::Spent;
        let is_whole = is_spent || block.clean() == self.slots();
        let before = taken.runs.len();
        let noted = taken.blocks.try_reserve(1).is_ok()
            && if is_whole {
                taken.take_run(before, self.range(first))
            } else {
                // Clean slots may be mapped where mapping replaces what was there.
                let goes = |run| run == Run::Dirty || self.remaps_atomically && run == Run::Clean;
                block.runs(self.range(first).into()).all(|(run, state)| {
                    !goes(state) || taken.take_run(before, PageRange::of(run.start, run.end))
                })
            };
        if noted {
            let runs = taken.runs.len() - before;
            taken.blocks.push(Purged { first, is_whole, is_spent, runs });
        } else {
            taken.runs.truncate(before);
        }
        noted
    }

    /// Puts blocks back that were flushed: their dirty slots are clean.
    pub(crate) fn put_blocks(&self, lazy: &LazyPages, taken: &mut Taken) -> Trigger {
        let (mut runs, mut trigger) = (&taken.runs[..], Trigger::NONE);
        for &Purged { first, is_whole, is_spent, runs: count } in &taken.blocks {
            let own;
            (own, runs) = runs.split_at(count);
            let Some(block) = self.get(first) else { continue };
            let mut lists = self.lists.lock();
            block.set_stale(false);
            if is_spent {
                lists.spent -= 1;
                lazy.sub(self.slots());
            }
            if is_whole {
                block.set_clean(self.slots());
            } else {
                let all = [self.range(first)];
                let flushed = if is(Mutant::EagerClean) { &all } else { own };
                let clean: u64 = flushed.iter().map(|&run| block.clear_dirty(run.into())).sum();
                block.set_clean(block.clean() + clean);
            }
            trigger = trigger.and(self.settle(lists, lazy, block, first));
        }
        clear(&mut taken.blocks);
        clear(&mut taken.runs);
        trigger
    }

    /// Returns how many of the blocks that are all clean such a fraction is.
    pub(crate) fn ready_part(&self, fraction: Option<Fraction>) -> u64 {
        let ready = self.lists.lock().ready.len();
        match fraction {
            Some(Fraction::All) => ready,
            Some(_) => ready.div_ceil(4),
            None => 0,
        }
    }

    /// Takes up to `most` blocks that are all clean apart, and hands their addresses to `release`.
    /// Returns how many.
    pub(crate) fn release_ready(&self, most: u64, mut release: impl FnMut(PageRange)) -> u64 {
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
        given
    }

    /// Returns whether no block waits for a flush, or for being released.
    pub(crate) fn are_at_rest(&self) -> bool {
        let lists = self.lists.lock();
        lists.spent == 0 && lists.ready.len() == 0
    }

    /// Ends all windows, and drops all runs that are kept mapped.
    fn close_windows<P: Platform>(&self, platform: &P, lazy: &LazyPages) -> Trigger {
        let mut trigger = Trigger::NONE;
        for Padded(queue) in &self.queues {
            let mut state = queue.state.lock();
            let QueueState { kept } = core::mem::take(&mut *state);
            let windows = queue.windows.each_ref().map(AtomicWindow::close);
            drop(state);
            for page in kept.pages() {
                trigger = trigger.and(self.drop_kept_run(lazy, page));
            }
            for window in windows {
                trigger = trigger.and(self.close(platform, lazy, window));
            }
        }
        trigger
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

    /// Makes the blocks of a set, of which nothing is known to be unmapped, ready for the next
    /// purge. Returns how many of them are spent.
    pub(super) fn put_off(&self, taken: &mut Taken) -> u64 {
        taken.runs.clear();
        let blocks = taken.blocks.drain(..);
        let known = blocks.filter_map(|purged| Some((self.get(purged.first)?, purged.is_spent)));
        known
            .map(|(block, is_spent)| {
                block.set_state(if is_spent { BlockState::Spent } else { BlockState::Closed });
                u64::from(is_spent)
            })
            .sum()
    }
}
