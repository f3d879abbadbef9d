//! Those of Linux. They have all in common but where a new block goes, and what they know of dirty
//! slots. A flush asks for these; nothing is mapped here, so it is only counted.
//!
//! Locks: a queue before a block; the index and a block one after the other. A block is off its
//! queue before its last slots are handed out, so its last free meets no other thread.

use super::dirty::Dirty;
use super::{Blocks, Counts, Flush, MAX_PAGES};
use crate::cpu;
use crate::design::{Ask, Design, Refusal, Setup};
use crate::designs::Name;
use crate::lock::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the [module](super).
pub(super) struct Classic<D> {
    /// True before 2015: a new block goes to the head of its queue.
    at_head: bool,
    addresses: Box<dyn Design>,
    slots: u64,
    queues: Box<[Queue<D>]>,
    /// By block number from the start of the span. The lowest addresses are used first, so it stays
    /// short.
    index: Mutex<Vec<Option<Arc<Block<D>>>>>,
    made: AtomicU64,
    freed: AtomicU64,
    walked: AtomicU64,
}

/// The blocks of a CPU with room.
type Queue<D> = Mutex<VecDeque<Arc<Block<D>>>>;

struct Block<D> {
    start: u64,
    state: Mutex<Slots<D>>,
}

#[derive(Default)]
struct Slots<D> {
    /// Handed out so far: the lowest ones.
    used: u64,
    /// Returned so far.
    returned: u64,
    dirty: D,
}

impl<D: Dirty> Classic<D> {
    pub(super) fn new(setup: &Setup, slots: u64, at_head: bool) -> Self {
        Self {
            at_head,
            addresses: Name::Augmented.build(setup),
            slots,
            queues: (0..setup.cpus).map(|_| Mutex::new(VecDeque::new())).collect(),
            index: Mutex::new(Vec::new()),
            made: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            walked: AtomicU64::new(0),
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
            self.walked.fetch_max(at as u64 + 1, Relaxed);
            state.used += slots;
            let full = state.used == self.slots;
            drop(state);
            if full {
                queue.remove(at);
            }
            return Some(start);
        }
        self.walked.fetch_max(queue.len() as u64, Relaxed);
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
    fn make(&self) -> Result<Arc<Block<D>>, Refusal> {
        let start = self.addresses.alloc(&Ask::new(self.slots).align(self.slots))?;
        let state = Mutex::new(Slots::default());
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

    fn find(&self, page: u64) -> Option<Arc<Block<D>>> {
        let inside = self.addresses.span().contains(page);
        if inside { self.index.lock().get(self.number(page))?.clone() } else { None }
    }

    fn discard(&self, block: &Block<D>) -> Result<(), Refusal> {
        self.index.lock()[self.number(block.start)] = None;
        self.freed.fetch_add(1, Relaxed);
        self.addresses.free(block.start)
    }

    fn number(&self, page: u64) -> usize {
        (page / self.slots - self.addresses.span().start() / self.slots) as usize
    }
}

impl<D: Dirty> Blocks for Classic<D> {
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
        state.dirty.add(slot, slots);
        state.returned += slots;
        let returned = state.returned;
        drop(state);
        if returned == self.slots { self.discard(&block) } else { Ok(()) }
    }

    fn counts(&self) -> Counts {
        let [made, freed, walked] = [&self.made, &self.freed, &self.walked].map(|count| count.load(Relaxed));
        Counts { made, freed, walked }
    }

    fn flush(&self) -> Option<Flush> {
        let mut work = Flush::default();
        let index = self.index.lock();
        index.iter().flatten().for_each(|block| block.state.lock().dirty.flush(&mut work));
        Some(work)
    }
}

/// The next power of two.
fn slots_for(pages: u64) -> Result<u64, Refusal> {
    if (1..=MAX_PAGES).contains(&pages) { Ok(pages.next_power_of_two()) } else { Err(Refusal::Bad) }
}
