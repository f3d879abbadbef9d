//! The lists of blocks that all queues share.

use super::Blocks;
use super::slots::Block;
use super::windows::ORDERS;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

/// Blocks that can be opened, and counts. Lists are linked through the records, so entering one
/// takes no memory.
#[derive(Default)]
pub(crate) struct Lists {
    /// Blocks with some clean slots, by the order that their longest clean range has at least.
    pub(crate) part: [List; ORDERS],
    /// Blocks that are all clean.
    pub(crate) ready: List,
    /// Every block there is, by its first page, in no order.
    pub(crate) all: Vec<u64>,
    /// True while a purge looks for everything that was returned. Meanwhile no block is opened
    /// that may have returned slots, for the purge passes open ones by.
    pub(crate) is_swept: bool,
    /// How many are spent, or were when the purge under way took them.
    pub(crate) spent: u64,
    /// Blocks that were needed since it was last looked for dirty slots.
    pub(crate) unseen: u64,
    /// As many dirty blocks were worth a flush then.
    pub(crate) worth: u64,
    /// Blocks made and freed so far.
    pub(crate) made: u64,
    pub(crate) freed: u64,
}

/// A stack of blocks, by their first page.
#[derive(Default)]
pub(crate) struct List {
    /// 0: none, for no block is at page 0.
    head: u64,
    len: u64,
}

impl List {
    pub(crate) fn push(&mut self, first: u64, block: &Block) {
        // Relaxed, here and below: the lists is locked.
        block.next.store(self.head, Relaxed);
        self.head = first;
        self.len += 1;
    }

    pub(crate) fn pop<'b, L: lock_api::RawMutex>(
        &mut self,
        blocks: &'b Blocks<L>,
    ) -> Option<(u64, &'b Block)> {
        let first = self.head;
        let block = if first == 0 { None } else { blocks.get(first) }?;
        self.head = block.next.load(Relaxed);
        self.len -= 1;
        Some((first, block))
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl Lists {
    /// Enters a new block; the caller has made room for it.
    pub(crate) fn enter(&mut self, first: u64, block: &Block) {
        block.index.store(self.all.len() as u64, Relaxed);
        self.all.push(first);
        self.made += 1;
    }

    /// Returns whether there is a block at `first`, whose record is `block`.
    pub(crate) fn has(&self, first: u64, block: &Block) -> bool {
        self.all.get(block.index.load(Relaxed) as usize) == Some(&first)
    }

    /// Forgets a block.
    pub(crate) fn leave<L: lock_api::RawMutex>(&mut self, block: &Block, blocks: &Blocks<L>) {
        let index = block.index.load(Relaxed) as usize;
        self.all.swap_remove(index);
        if let Some(moved) = self.all.get(index).and_then(|&first| blocks.get(first)) {
            moved.index.store(index as u64, Relaxed);
        }
    }

    /// Returns the list of blocks whose longest clean range has `slots` slots.
    pub(crate) fn part_for(&mut self, slots: u64) -> &mut List {
        &mut self.part[(slots.ilog2() as usize).min(ORDERS - 1)]
    }

    /// Takes a block that has a clean range for requests of an order.
    pub(crate) fn pop_part<'b, L: lock_api::RawMutex>(
        &mut self,
        order: usize,
        blocks: &'b Blocks<L>,
    ) -> Option<(u64, &'b Block)> {
        self.part[order..].iter_mut().find_map(|list| list.pop(blocks))
    }
}
