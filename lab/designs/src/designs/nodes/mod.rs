//! A3 `nodes` (2024): a node for each CPU before the global heap.
//!
//! ```text
//!    CPU 0          CPU 1          CPU 2
//!      │ asks         │              │
//!    ┌─▼────────┐   ┌─▼────────┐   ┌─▼────────┐
//!    │ pools    │   │ pools    │   │ pools    │   one queue for each size of 1…256 pages: only the head is looked at
//!    │──────────│   │──────────│   │──────────│
//!    │ busy     │   │ busy     │   │ busy     │   areas whose address is in one of the node's zones: zone % nodes,
//!    │ lazy     │   │ lazy     │   │ lazy     │   a zone is 16 pages
//!    └────▲─────┘   └────┬─────┘   └──────────┘
//!         │ refill       │ purge: all lazy sets, one flush, back to the pools of the askers
//!    ─────┴──────────────▼──────────────────────  what is too large for a pool, and what pools lose, in one go:
//!                 heap: Augmented                 one global lock
//! ```
//!
//! * `N1` An area is in the busy tree or the lazy set of the node of its first page's zone, or in the pool of its size at the node
//!   that asked for it, or its pages are in the heap.
//! * `N2` `lazy` is at least the pages of all areas that are neither busy, pooled nor free. It rises before an area leaves
//!   the busy tree, and falls after it has come to a pool or to the heap. While no call is under way it is exactly that.
//! * `N3` A request is refused only where, with the purge lock and the locks of all pools and of the heap held, no free range
//!   takes it, all pools are empty and `lazy` is 0: nothing is on its way back then, and nothing can begin to be.
//!
//! Locks, in this order: the purge lock, the pools by node, the heap; busy trees by node; a lazy
//! set last. No busy tree is locked while a pool or the heap is.
//!
//! A hit in a pool is O(1), and the busy tree of the zone O(log n). Source: the posting of 2024.

mod drain;
mod node;
mod show;

use super::areas::{Group, Want};
use super::augmented::Augmented;
use super::pair::FreeSpace;
use crate::cpu;
use crate::design::{Ask, Counts, Design, Refusal, Segment, Setup};
use crate::lock::{Mutex, SleepMutex};
use drain::Decay;
use node::{Area, Node};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use vmalloc::PageRange;

/// Pages of a zone.
const ZONE_PAGES: u64 = 16;

/// See the [module](self).
pub(super) struct Nodes {
    span: PageRange,
    lazy_max: u64,
    nodes: Box<[Node]>,
    heap: Mutex<Augmented>,
    purging: SleepMutex<()>,
    /// `N2`. Sequentially consistent where it rises and where it decides; both sides also hold
    /// locks in between.
    lazy: AtomicU64,
    purges: AtomicU64,
    longest_hold: AtomicU64,
    missed_fits: AtomicU64,
}

impl Nodes {
    pub(super) fn new(setup: &Setup) -> Self {
        assert!((1..=128).contains(&setup.cpus), "{} CPUs", setup.cpus);
        Self {
            span: setup.span,
            lazy_max: setup.lazy_max_pages,
            nodes: (0..setup.cpus).map(|_| Node::new()).collect(),
            heap: Mutex::new(Augmented::new(setup.span)),
            purging: SleepMutex::new(()),
            lazy: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            longest_hold: AtomicU64::new(0),
            missed_fits: AtomicU64::new(0),
        }
    }

    /// The node of a zone.
    fn home(&self, page: u64) -> usize {
        (page / ZONE_PAGES % self.nodes.len() as u64) as usize
    }

    fn record(&self, range: PageRange, asked: usize) {
        self.nodes[self.home(range.start())].record(Area { range, asked: asked as u8 });
    }

    /// From the heap, where there is no room after purges.
    fn take(&self, want: &Want) -> Result<PageRange, Refusal> {
        if let Some(place) = self.heap.lock().take(want) {
            return Ok(place);
        }
        self.take_under_pressure(|heap| heap.take(want), |heap| heap.ranges().holds(want))
    }

    /// Purges and empties all pools until `take` has found a place or nothing is left to come back:
    /// `N3`.
    fn take_under_pressure<T>(
        &self,
        take: impl Fn(&mut Augmented) -> Option<T>,
        missed: impl FnOnce(&Augmented) -> bool,
    ) -> Result<T, Refusal> {
        loop {
            let purging = self.purging.lock();
            self.drain(&purging, Decay::All);
            let pools: Vec<_> = self.nodes.iter().map(|node| node.pools.lock()).collect();
            let mut heap = self.heap.lock();
            if let Some(taken) = take(&mut heap) {
                return Ok(taken);
            }
            if self.lazy.load(SeqCst) == 0 && pools.iter().all(|pools| pools.is_empty()) {
                self.missed_fits.fetch_add(missed(&heap).into(), Relaxed);
                return Err(Refusal::NoSpace);
            }
        }
    }

    fn take_group(&self, group: &Group<'_>) -> Result<u64, Refusal> {
        let take = |heap: &mut Augmented| {
            let base = heap.ranges().highest_base(group)?;
            group.parts(base).for_each(|part| heap.take_exactly(part));
            Some(base)
        };
        let taken = take(&mut self.heap.lock());
        taken.map_or_else(|| self.take_under_pressure(take, |_| false), Ok)
    }

    /// Makes a busy area lazy: `N2`.
    fn retire(&self, start: u64) -> Option<u64> {
        let node = &self.nodes[self.home(start)];
        let mut busy = node.busy.lock();
        let id = busy.at(start)?;
        let area = Area { range: busy.range(id), asked: busy.tag(id) };
        let pages = area.range.len();
        let lazy = self.lazy.fetch_add(pages, SeqCst) + pages;
        busy.remove(id);
        drop(busy);
        node.lazy.lock().push(area);
        Some(lazy)
    }

    fn purge_if_much(&self, lazy: u64) {
        if lazy > self.lazy_max {
            self.purge();
        }
    }

    /// Areas of a group leave the busy trees, all or none: the nodes concerned are locked together.
    fn retire_group(&self, areas: &[PageRange]) -> Option<u64> {
        let mut homes: Vec<_> = areas.iter().map(|area| self.home(area.start())).collect();
        homes.sort_unstable();
        homes.dedup();
        let mut busy: Vec<_> = homes.iter().map(|&home| self.nodes[home].busy.lock()).collect();
        let at = |area: &PageRange| homes.binary_search(&self.home(area.start())).expect("a home");
        let is_busy = |area: &PageRange| {
            let tree = &busy[at(area)];
            tree.at(area.start()).is_some_and(|id| tree.range(id) == *area)
        };
        if !areas.iter().all(is_busy) {
            return None;
        }
        let pages: u64 = areas.iter().map(PageRange::len).sum();
        let lazy = self.lazy.fetch_add(pages, SeqCst) + pages;
        for area in areas {
            let tree = &mut busy[at(area)];
            let id = tree.at(area.start()).expect("it was there");
            let asked = tree.tag(id);
            tree.remove(id);
            self.nodes[self.home(area.start())].lazy.lock().push(Area { range: *area, asked });
        }
        Some(lazy)
    }
}

impl Design for Nodes {
    fn name(&self) -> &'static str {
        super::Name::Nodes.as_str()
    }

    fn span(&self) -> PageRange {
        self.span
    }

    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal> {
        let want = Want::new(ask, self.span)?;
        let asked = cpu::current(self.nodes.len());
        let place = match self.nodes[asked].take(&want) {
            Some(place) => place,
            None => self.take(&want)?,
        };
        self.record(place, asked);
        Ok(place.start())
    }

    fn free(&self, start: u64) -> Result<(), Refusal> {
        let lazy = self.retire(start).ok_or(Refusal::NotAnArea)?;
        self.purge_if_much(lazy);
        Ok(())
    }

    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal> {
        let group = Group::new(offsets, sizes, align, self.span)?;
        let base = self.take_group(&group)?;
        let asked = cpu::current(self.nodes.len());
        group.parts(base).for_each(|part| self.record(part, asked));
        Ok(base)
    }

    fn free_congruent(&self, base: u64, offsets: &[u64], sizes: &[u64]) -> Result<(), Refusal> {
        if offsets.len() != sizes.len() {
            return Err(Refusal::Bad);
        }
        let part = |(&offset, &pages)| PageRange::from_len(base.checked_add(offset)?, pages);
        let areas: Option<Vec<_>> = offsets.iter().zip(sizes).map(part).collect();
        let lazy = areas.and_then(|areas| self.retire_group(&areas)).ok_or(Refusal::NotAnArea)?;
        self.purge_if_much(lazy);
        Ok(())
    }

    /// Purges, unless a purge is under way whose result the caller does not need.
    fn purge(&self) {
        if let Some(purging) = self.purging.try_lock() {
            self.drain(&purging, Decay::Quarter);
        }
    }

    fn settle(&self) {
        let purging = self.purging.lock();
        self.drain(&purging, Decay::All);
    }

    fn counts(&self) -> Counts {
        Counts {
            purges: self.purges.load(Relaxed),
            longest_hold_areas: self.longest_hold.load(Relaxed),
            missed_fits: self.missed_fits.load(Relaxed),
            metadata_bytes: self.bytes() as u64,
            ..super::count(&self.segments())
        }
    }

    fn lazy_pages(&self) -> u64 {
        self.lazy.load(Relaxed)
    }

    fn segments(&self) -> Vec<Segment> {
        self.all_segments()
    }

    fn verify(&self) -> Result<(), String> {
        self.verify_all()
    }
}

#[cfg(test)]
mod tests;
