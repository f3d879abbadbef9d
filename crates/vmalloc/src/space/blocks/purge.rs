//! What a purge does with blocks.

use super::life::ANNOTATION;
use crate::addr::PageRange;
use crate::block::{Block, Hot, List, Place, Run, Slow, Window};
use crate::platform::{Platform, PlatformError};
use crate::space::Space;
use crate::space::node::{Padded, clear};
use crate::space::pools::Share;
use crate::sync::{Mutant, is};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// What a purge has taken of the blocks.
#[derive(Default)]
pub(in crate::space) struct Taken {
    blocks: Vec<Purged>,
    /// What is to be unmapped.
    pub(in crate::space) runs: Vec<PageRange>,
}

/// What became of blocks that were unmapped one by one.
#[derive(Default)]
pub(in crate::space) struct Parted {
    /// What the platform said last to one that it refused.
    pub(in crate::space) refusal: Option<PlatformError>,
    /// Whether there was memory to move all that were to move.
    pub(in crate::space) is_complete: bool,
}

/// A block in a purge.
#[derive(Clone, Copy)]
struct Purged {
    first: u64,
    /// Whether all its slots go, whatever its bytes say, and whether it was spent.
    is_whole: bool,
    is_spent: bool,
    /// How many of the runs are its own.
    runs: usize,
}

impl Taken {
    pub(in crate::space) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(in crate::space) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Moves the block at `index`, whose runs are `own`, to another set; `false` when memory is short.
    fn hand_over(&mut self, index: usize, own: Range<usize>, to: &mut Self) -> bool {
        let fits = to.blocks.try_reserve(1).is_ok() && to.runs.try_reserve(own.len()).is_ok();
        if fits {
            to.runs.extend(self.runs.drain(own));
            to.blocks.push(self.blocks.remove(index));
        }
        fits
    }
}

impl<P: Platform> Space<P> {
    /// Takes what is to be flushed of all blocks. With `everything` nothing stays in a queue, and all that may be mapped and is not live goes.
    pub(in crate::space) fn take_blocks(&self, taken: &mut Taken, everything: bool) {
        if self.blocks.shelf.0.lock().all.is_empty() {
            return;
        }
        if everything {
            self.close_windows();
        }
        let parts = core::mem::take(&mut self.blocks.shelf.0.lock().part);
        self.unshelve(parts);
        self.collect(taken, everything);
        if everything && self.blocks.replaces {
            // Only now: what became clean without a flush while the others were taken is here.
            let ready = core::mem::take(&mut self.blocks.shelf.0.lock().ready);
            self.unshelve([ready]);
            self.collect(taken, everything);
        }
    }

    fn collect(&self, taken: &mut Taken, everything: bool) {
        self.each_block(|shelf, first, block| {
            let wanted = match block.place() {
                Place::Spent => true,
                Place::Closed => self.is_due(block, everything),
                _ => false,
            };
            if wanted && self.take_runs(taken, first, block) {
                block.put(Place::Purging);
            } else if block.place() == Place::Closed {
                self.settle(shelf, block, first);
            }
        });
    }

    /// Whether something of a closed block may be mapped that has to go.
    fn is_due(&self, block: &Block, everything: bool) -> bool {
        let is_dirty = block.held() + block.clean() < self.blocks.slots();
        if self.blocks.replaces { everything && (is_dirty || block.is_stale()) } else { is_dirty }
    }

    /// Annotations what of a block is to be unmapped; `false` when memory is short.
    fn take_runs(&self, taken: &mut Taken, first: u64, block: &Block) -> bool {
        let is_spent = block.place() == Place::Spent;
        let is_whole = is_spent || block.clean() == self.blocks.slots();
        let before = taken.runs.len();
        let noted = taken.blocks.try_reserve(1).is_ok()
            && if is_whole {
                self.take_run(&mut taken.runs, before, self.blocks.range(first))
            } else {
                // Clean slots may be mapped where mappings replace what was there.
                let mut gone = block.runs(self.blocks.range(first).into());
                let goes = |run| run == Run::Dirty || self.blocks.replaces && run == Run::Clean;
                gone.all(|(run, state)| {
                    !goes(state) || self.take_run(&mut taken.runs, before, PageRange::of(run.start, run.end))
                })
            };
        if noted {
            taken.blocks.push(Purged { first, is_whole, is_spent, runs: taken.runs.len() - before });
        } else {
            taken.runs.truncate(before);
        }
        noted
    }

    /// Annotations one range, joined to the last one behind `from` if that ends there.
    fn take_run(&self, runs: &mut Vec<PageRange>, from: usize, range: PageRange) -> bool {
        if let Some(last) = runs[from..].last_mut().filter(|last| last.end() == range.start()) {
            *last = PageRange::of(last.start(), range.end());
            return true;
        }
        let fits = runs.try_reserve(1).is_ok();
        if fits {
            runs.push(range);
        }
        fits
    }

    /// Unmaps what was taken of each block by itself, and moves those to `to` for which that ends as `is_wanted` says:
    /// the refused ones out of what was taken, or the others back.
    #[cold]
    pub(in crate::space) fn part_blocks(
        &self,
        from: &mut Taken,
        to: &mut Taken,
        is_wanted: fn(&Result<(), PlatformError>) -> bool,
    ) -> Parted {
        let mut parted = Parted { refusal: None, is_complete: true };
        let mut end = from.runs.len();
        for index in (0..from.blocks.len()).rev() {
            let Purged { runs, is_spent, .. } = from.blocks[index];
            let own = end - runs..end;
            end = own.start;
            let unmapped = self.unmap_and_flush(&from.runs[own.clone()]);
            parted.refusal = unmapped.err().or(parted.refusal);
            if !is_wanted(&unmapped) {
                continue;
            }
            let has_moved = from.hand_over(index, own, to);
            parted.is_complete &= has_moved;
            let spent = u64::from(is_spent);
            match unmapped {
                _ if !has_moved => {}
                Ok(()) => self.move_from_refused(spent, spent * self.blocks.slots()),
                Err(_) => self.move_to_refused(spent, spent * self.blocks.slots()),
            }
        }
        parted
    }

    /// Lets the next purge find the blocks of a set, of which nothing is known to be unmapped: in a child of a fork, where they go
    /// anew to where they belong. How many of them are spent.
    pub(super) fn put_off(&self, taken: &mut Taken) -> u64 {
        taken.runs.clear();
        let purged = taken
            .blocks
            .drain(..)
            .filter_map(|purged| Some((self.blocks.get(purged.first)?, purged.is_spent)));
        let put = purged.map(|(block, is_spent)| {
            block.put(if is_spent { Place::Spent } else { Place::Closed });
            u64::from(is_spent)
        });
        put.sum()
    }

    /// What was taken is flushed: dirty slots are clean.
    pub(in crate::space) fn put_blocks(&self, taken: &mut Taken) {
        let mut runs = &taken.runs[..];
        for &Purged { first, is_whole, is_spent, runs: count } in &taken.blocks {
            let own;
            (own, runs) = runs.split_at(count);
            let Some(block) = self.blocks.get(first) else { continue };
            let mut shelf = self.blocks.shelf.0.lock();
            block.set_stale(false);
            if is_spent {
                shelf.spent -= 1;
                self.lazy_pages.0.fetch_sub(self.blocks.slots(), Ordering::Relaxed);
            }
            if is_whole {
                block.set_clean(self.blocks.slots());
            } else {
                let all = [self.blocks.range(first)];
                let flushed = if is(Mutant::EagerClean) { &all } else { own };
                let clean: u64 = flushed.iter().map(|&run| block.clear_dirty(run.into())).sum();
                block.set_clean(block.clean() + clean);
            }
            self.settle(shelf, block, first);
        }
        clear(&mut taken.blocks);
        clear(&mut taken.runs);
    }

    /// Gives a share of the blocks that are all clean to the map, at most so many.
    pub(in crate::space) fn release_blocks(&self, share: Option<Share>, most: u64) -> u64 {
        let ready = self.blocks.shelf.0.lock().ready.len();
        let part = match share {
            Some(Share::All) => ready,
            Some(_) => ready.div_ceil(4),
            None => 0,
        };
        self.release_ready(part.min(most))
    }

    /// Gives up to `most` blocks that are all clean to the map; how many.
    pub(super) fn release_ready(&self, most: u64) -> u64 {
        let blocks = &self.blocks;
        let (mut given, mut stale) = (0, List::default());
        while given < most {
            let mut shelf = blocks.shelf.0.lock();
            let Some((first, block)) = shelf.ready.pop(blocks) else { break };
            // Where mappings replace each other, clean slots may still be mapped. Such a block waits for the next purge.
            if blocks.replaces && block.is_stale() {
                stale.push(first, block);
                continue;
            }
            block.put(Place::Unused);
            shelf.leave(block, blocks);
            shelf.freed += 1;
            drop(shelf);
            self.give_up(blocks.range(first), ANNOTATION);
            given += 1;
        }
        let mut shelf = blocks.shelf.0.lock();
        while let Some((first, block)) = stale.pop(blocks) {
            shelf.ready.push(first, block);
        }
        given
    }

    /// Whether no block waits for a flush, or for being given back.
    pub(in crate::space) fn are_blocks_at_rest(&self) -> bool {
        let shelf = self.blocks.shelf.0.lock();
        shelf.spent == 0 && shelf.ready.len() == 0
    }

    /// Ends the windows of all queues, and what they keep.
    fn close_windows(&self) {
        for Padded(queue) in &self.blocks.queues {
            let mut slow = queue.slow.lock();
            let Slow { kept } = core::mem::take(&mut *slow);
            let hot = queue.hot.each_ref().map(Hot::close);
            drop(slow);
            kept.into_iter().for_each(|page| self.drop_kept_run(page));
            hot.into_iter().filter(Window::is_some).for_each(|window| self.close(Some(window)));
        }
    }

    /// Takes blocks from the shelf that a purge has to look at.
    fn unshelve(&self, lists: impl IntoIterator<Item = List>) {
        for mut list in lists {
            loop {
                let _shelf = self.blocks.shelf.0.lock();
                let Some((_, block)) = list.pop(&self.blocks) else { break };
                block.put(Place::Closed);
            }
        }
    }
}
