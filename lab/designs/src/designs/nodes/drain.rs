//! The drain: decay, one flush for all lazy sets, refill, and the rest back to the heaps in one go.
//!
//! ```text
//!    pools ──25 %──┐
//!    lazy sets ────┼─ flush lowest…highest ─┬─ main window, ≤ 256 pages ──► pool of the node that asked
//!                  │                        └─ others ──┐
//!                  └────────────────────────────────────┴────► heap, under one hold of its lock
//! ```
//!
//! * `D1` Each pool first loses a quarter of its areas, rounded down; one of fewer than four loses
//!   all. So do pools where nothing is lazy: a drain with nothing to flush still decays.
//! * `D2` Areas come to a pool in rising address order. A pool hands out the last that came, and
//!   loses that first.
//! * `D3` Frees that find too much lazy while a drain is under way ask for a second one, which
//!   follows at once.
//! * `D4` Where addresses are short the pools lose everything, and nothing goes to a pool. Where
//!   memory is, the pools lose everything, and what is lazy stays.

use super::node::Area;
use super::shared::Shared;
use crate::designs::pair::FreeSpace;
use crate::lock::Sleep;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use vmalloc::PageRange;

/// The holder of the purge lock.
type Purging<'a> = lock_api::MutexGuard<'a, Sleep, ()>;

/// The part that the pools lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decay {
    /// A quarter, or all of few (`D1`), and they get what was freed.
    Quarter,
    /// Everything, and they get nothing.
    All,
}

impl Decay {
    /// The areas that a pool loses of so many: `D1`.
    const fn of(self, areas: usize) -> usize {
        match self {
            Self::Quarter if areas >= 4 => areas / 4,
            Self::Quarter | Self::All => areas,
        }
    }
}

impl Shared {
    /// Moves all that was lazy before the call to a pool or to a heap.
    pub(super) fn drain(&self, _purging: &Purging<'_>, decay: Decay) {
        let mut back = self.decayed(decay);
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

    /// Gives everything pooled back: `D4`.
    pub(super) fn empty_pools(&self, _purging: &Purging<'_>) {
        self.give_back(&self.decayed(Decay::All));
    }

    /// Takes from each pool what it loses.
    fn decayed(&self, decay: Decay) -> Vec<PageRange> {
        let mut lost = Vec::new();
        for node in &self.nodes {
            node.pools.lock().decay(|areas| decay.of(areas), &mut lost);
        }
        lost
    }

    /// Takes the lazy sets of all nodes, by address: `D2`.
    fn take_lazy(&self) -> Vec<Area> {
        let mut lazy = Vec::new();
        for node in &self.nodes {
            let set = std::mem::take(&mut *node.lazy.lock());
            lazy.extend(set.iter().copied());
        }
        lazy.sort_unstable_by_key(|area| area.range.start());
        lazy
    }

    /// Each pool gets its own under one hold of its node's lock; the rest is left for the heaps.
    fn refill(&self, lazy: Vec<Area>, decay: Decay, back: &mut Vec<PageRange>) {
        let mut asked = vec![Vec::new(); self.nodes.len()];
        for area in lazy {
            if decay == Decay::Quarter && self.pools_take(area.range) {
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
        for window in &self.windows {
            let mine = || back.iter().filter(|range| window.span.covers(range));
            let count = mine().count();
            if count != 0 {
                let mut heap = window.heap.lock();
                mine().for_each(|&range| heap.give(range));
                drop(heap);
                self.note_hold(count);
            }
        }
    }

    /// So many areas were given back under one hold of a lock that allocations take.
    fn note_hold(&self, areas: usize) {
        self.longest_hold.fetch_max(areas as u64, Relaxed);
    }
}

/// Here every CPU would forget its translations from the lowest to the highest page of the set,
/// once. There is no memory and so nothing to forget.
fn flush(_lazy: &[Area]) {
    vmalloc_kit::hooks::flush();
}
