//! The purge: decay, one flush for all lazy sets, refill, and the rest back to the heap in one go.
//!
//! ```text
//!    pools ──25 %──┐
//!    lazy sets ────┼─ flush lowest…highest ─┬─ ≤ 256 pages ──► pool of the node that asked
//!                  │                        └─ larger ──┐
//!                  └────────────────────────────────────┴────► heap, under one hold of its lock
//! ```
//!
//! Under pressure the pools lose everything, and nothing goes to a pool.

use super::Nodes;
use super::node::{Area, Pools};
use crate::designs::pair::FreeSpace;
use crate::lock::Sleep;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use vmalloc::PageRange;

/// The holder of the purge lock.
type Purging<'a> = lock_api::MutexGuard<'a, Sleep, ()>;

/// The part that the pools lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decay {
    /// 25 %, rounded down, and they get what was freed.
    Quarter,
    /// Everything, and they get nothing.
    All,
}

impl Decay {
    const fn of(self, areas: usize) -> usize {
        match self {
            Self::Quarter => areas / 4,
            Self::All => areas,
        }
    }
}

impl Nodes {
    /// Moves all that was lazy before the call to a pool or to the heap.
    pub(super) fn drain(&self, _purging: &Purging<'_>, decay: Decay) {
        let mut back = Vec::new();
        for node in &self.nodes {
            node.pools.lock().decay(|areas| decay.of(areas), &mut back);
        }
        let pages = |ranges: &[PageRange]| ranges.iter().map(PageRange::len).sum::<u64>();
        let decayed = pages(&back);
        let lazy = self.take_lazy();
        if !lazy.is_empty() {
            self.purges.fetch_add(1, Relaxed);
            flush(&lazy);
        }
        self.refill(lazy, decay, &mut back);
        let large = pages(&back) - decayed;
        self.give_back(&back);
        self.lazy.fetch_sub(large, SeqCst);
    }

    fn take_lazy(&self) -> Vec<Area> {
        let mut lazy = Vec::new();
        for node in &self.nodes {
            let set = std::mem::take(&mut *node.lazy.lock());
            lazy.extend(set.iter().copied());
        }
        lazy
    }

    /// Each pool gets its own under one hold of its node's lock; the rest is left for the heap.
    fn refill(&self, lazy: Vec<Area>, decay: Decay, back: &mut Vec<PageRange>) {
        let mut asked = vec![Vec::new(); self.nodes.len()];
        for area in lazy {
            if decay == Decay::Quarter && Pools::take_in(area.range) {
                asked[usize::from(area.asked)].push(area.range);
            } else {
                back.push(area.range);
            }
        }
        for (node, ranges) in self.nodes.iter().zip(asked).filter(|(_, ranges)| !ranges.is_empty()) {
            let mut pools = node.pools.lock();
            ranges.iter().for_each(|&range| pools.put(range));
            drop(pools);
            self.note_hold(ranges.len());
            self.lazy.fetch_sub(ranges.iter().map(PageRange::len).sum(), SeqCst);
        }
    }

    fn give_back(&self, back: &[PageRange]) {
        if back.is_empty() {
            return;
        }
        let mut heap = self.heap.lock();
        back.iter().for_each(|&range| heap.give(range));
        drop(heap);
        self.note_hold(back.len());
    }

    /// So many areas were given back under one hold of a lock that allocations take.
    fn note_hold(&self, areas: usize) {
        self.longest_hold.fetch_max(areas as u64, Relaxed);
    }
}

/// Here every CPU would forget its translations from the lowest to the highest page of the set,
/// once. There is no memory and so nothing to forget.
fn flush(_lazy: &[Area]) {}
