//! One node: pools, busy areas and lazy areas, each behind a lock of its own.

use super::super::areas::Want;
use super::super::tree::{Plain, Tree};
use crate::designs::stack::Stack;
use crate::lock::Mutex;
use std::collections::VecDeque;
use vmalloc::PageRange;

/// The largest area that a pool keeps, in pages, and so how many pools there are.
pub(super) const POOLS: usize = 256;

/// An area and the node that asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) range: PageRange,
    pub(super) asked: u8,
}

/// See the [module](super).
#[derive(Debug)]
pub(super) struct Node {
    pub(super) pools: Mutex<Pools>,
    /// By address, with the node that asked.
    pub(super) busy: Mutex<Tree<Plain, u8>>,
    /// In no order: a flush needs to know the ends, the trees that areas go to next order them
    /// anyway.
    pub(super) lazy: Mutex<Stack<Area>>,
}

impl Node {
    pub(super) fn new() -> Self {
        Self {
            pools: Mutex::new(Pools::new()),
            busy: Mutex::new(Tree::new()),
            lazy: Mutex::new(Stack::default()),
        }
    }

    /// From the pool of this size, if there is one and its head will do.
    pub(super) fn take(&self, want: &Want) -> Option<PageRange> {
        if want.pages > POOLS as u64 {
            return None;
        }
        self.pools.lock().take(want)
    }

    pub(super) fn record(&self, area: Area) {
        let mut busy = self.busy.lock();
        let spot = busy.spot(area.range.start());
        busy.insert(spot, area.range, area.asked);
    }
}

/// Areas of 1 to 256 pages that wait for requests of exactly their size.
#[derive(Debug)]
pub(super) struct Pools {
    /// By pages − 1. The head is at the back.
    queues: Box<[VecDeque<PageRange>]>,
}

impl Pools {
    fn new() -> Self {
        Self { queues: (0..POOLS).map(|_| VecDeque::new()).collect() }
    }

    /// The head, if it is inside the limits and aligned; a misaligned one moves to the tail.
    fn take(&mut self, want: &Want) -> Option<PageRange> {
        let queue = &mut self.queues[want.pages as usize - 1];
        let head = *queue.back()?;
        if !want.within.covers(&head) {
            return None;
        }
        queue.pop_back();
        if head.start() & (want.align - 1) != 0 {
            queue.push_front(head);
            return None;
        }
        Some(head)
    }

    /// Returns true if there is a pool for areas of so many pages.
    pub(super) fn take_in(range: PageRange) -> bool {
        range.len() <= POOLS as u64
    }

    /// Adds an area of a size that there is a pool for: it is the head then.
    pub(super) fn put(&mut self, range: PageRange) {
        self.queues[range.len() as usize - 1].push_back(range);
    }

    /// Each pool loses so many of its areas, from its head on.
    pub(super) fn decay(&mut self, part: impl Fn(usize) -> usize, lost: &mut Vec<PageRange>) {
        for queue in &mut self.queues {
            let kept = queue.len() - part(queue.len());
            lost.extend(queue.drain(kept..).rev());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = (usize, PageRange)> + '_ {
        self.queues.iter().enumerate().flat_map(|(at, queue)| queue.iter().map(move |&range| (at + 1, range)))
    }

    pub(super) fn bytes(&self) -> usize {
        let areas: usize = self.queues.iter().map(VecDeque::capacity).sum();
        size_of_val(&*self.queues) + areas * size_of::<PageRange>()
    }
}
