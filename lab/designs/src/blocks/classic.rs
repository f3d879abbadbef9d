//! The two of Linux. What they have in common is all but where a new block goes. Which slots are
//! dirty, a flush asks; here there is none, so they are only counted.
//!
//! Locks: a queue before a block; the index and a block one after the other. A block is off its
//! queue before its last slots are handed out, so its last free meets no other thread.

use super::{Blocks, MAX_PAGES};
use crate::cpu;
use crate::design::{Ask, Design, Refusal, Setup};
use crate::designs::Name;
use crate::lock::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the [module](super).
pub(super) struct Classic {
    /// True before 2015: a new block goes to the head of its queue.
    at_head: bool,
    addresses: Box<dyn Design>,
    slots: u64,
    queues: Box<[Mutex<VecDeque<Arc<Block>>>]>,
    /// By block number from the start of the span. The lowest addresses are used first, so it stays
    /// short.
    index: Mutex<Vec<Option<Arc<Block>>>>,
    made: AtomicU64,
    freed: AtomicU64,
}

struct Block {
    start: u64,
    state: Mutex<Slots>,
}

struct Slots {
    /// Handed out so far: the lowest ones.
    used: u64,
    dirty: u64,
}

impl Classic {
    pub(super) fn new(setup: &Setup, slots: u64, at_head: bool) -> Self {
        Self {
            at_head,
            addresses: Name::Augmented.build(setup),
            slots,
            queues: (0..setup.cpus).map(|_| Mutex::new(VecDeque::new())).collect(),
            index: Mutex::new(Vec::new()),
            made: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    /// From the first block in the queue with room. A block that is full then leaves it.
    fn map_queued(&self, cpu: usize, slots: u64) -> Option<u64> {
        let mut queue = self.queues[cpu].lock();
        for at in 0..queue.len() {
            let block = &queue[at];
            let mut state = block.state.lock();
            if state.used + slots > self.slots {
                continue;
            }
            let start = block.start + state.used;
            state.used += slots;
            let full = state.used == self.slots;
            drop(state);
            if full {
                queue.remove(at);
            }
            return Some(start);
        }
        None
    }

    /// Slots of a new block, for a request that no block in the queue has room for.
    fn map_anew(&self, cpu: usize, slots: u64) -> Result<u64, Refusal> {
        loop {
            let block = self.make()?;
            let mut queue = self.queues[cpu].lock();
            if !self.at_head {
                block.state.lock().used = slots;
                let start = block.start;
                queue.push_back(block);
                return Ok(start);
            }
            queue.push_front(block);
            drop(queue);
            if let Some(start) = self.map_queued(cpu, slots) {
                return Ok(start);
            }
        }
    }

    /// An empty block, known by its addresses, in no queue.
    fn make(&self) -> Result<Arc<Block>, Refusal> {
        let start = self.addresses.alloc(&Ask::new(self.slots).align(self.slots))?;
        let state = Mutex::new(Slots { used: 0, dirty: 0 });
        let block = Arc::new(Block { start, state });
        let (mut index, number) = (self.index.lock(), self.number(start));
        if index.len() <= number {
            index.resize(number + 1, None);
        }
        index[number] = Some(block.clone());
        drop(index);
        self.made.fetch_add(1, Relaxed);
        Ok(block)
    }

    fn find(&self, page: u64) -> Option<Arc<Block>> {
        let inside = self.addresses.span().contains(page);
        if inside { self.index.lock().get(self.number(page))?.clone() } else { None }
    }

    fn discard(&self, block: &Block) -> Result<(), Refusal> {
        self.index.lock()[self.number(block.start)] = None;
        self.freed.fetch_add(1, Relaxed);
        self.addresses.free(block.start)
    }

    fn number(&self, page: u64) -> usize {
        (page / self.slots - self.addresses.span().start() / self.slots) as usize
    }
}

impl Blocks for Classic {
    fn map(&self, pages: u64) -> Result<u64, Refusal> {
        let slots = slots_for(pages)?;
        let cpu = cpu::current(self.queues.len());
        match self.map_queued(cpu, slots) {
            Some(start) => Ok(start),
            None => self.map_anew(cpu, slots),
        }
    }

    fn unmap(&self, start: u64, pages: u64) -> Result<(), Refusal> {
        let slots = slots_for(pages)?;
        let block = self.find(start).ok_or(Refusal::NotAnArea)?;
        let mut state = block.state.lock();
        let slot = start - block.start;
        if slot + slots > state.used {
            return Err(Refusal::NotAnArea);
        }
        state.dirty += slots;
        let dirty = state.dirty;
        drop(state);
        if dirty == self.slots { self.discard(&block) } else { Ok(()) }
    }

    fn counts(&self) -> (u64, u64) {
        (self.made.load(Relaxed), self.freed.load(Relaxed))
    }
}

/// The next power of two.
fn slots_for(pages: u64) -> Result<u64, Refusal> {
    if (1..=MAX_PAGES).contains(&pages) { Ok(pages.next_power_of_two()) } else { Err(Refusal::Bad) }
}
