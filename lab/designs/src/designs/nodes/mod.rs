//! A3 `nodes` (2024): a node for each CPU before the global heap.
//!
//! ```text
//!    CPU 0          CPU 1          CPU 2
//!      │ asks         │              │
//!    ┌─▼────────┐   ┌─▼────────┐   ┌─▼────────┐
//!    │ pools    │   │ pools    │   │ pools    │   one stack for each size of 1…256 pages: only its head is looked at
//!    │──────────│   │──────────│   │──────────│
//!    │ busy     │   │ busy     │   │ busy     │   areas whose address is in one of the node's zones: zone % nodes,
//!    │ lazy     │   │ lazy     │   │ lazy     │   a zone is 16 pages
//!    └────▲─────┘   └────┬─────┘   └──────────┘
//!         │ refill       │ purge: all lazy sets, one flush, back to the pools of the nodes
//!    ─────┴──────────────▼──────────────────────  what is too large for a pool, and what pools lose, in one go:
//!                 heap: Augmented                 one global lock, for each window
//! ```
//!
//! * `N1` An area is in the busy tree or the lazy set of the node of its first page's zone, or in
//!   the pool of its size at the node that asked for it, or its pages are in the heap of its
//!   window. Only areas of the main window are in pools.
//! * `N2` `lazy` is at least the pages of all areas, of every window, that are neither busy, pooled
//!   nor free. It rises before an area leaves the busy tree, and falls after it has come to a pool
//!   or to the heap. While no call is under way it is exactly that.
//! * `N3` A request is refused only where, with the purge lock and the locks of all pools and of
//!   the heap held, no free range takes it, all pools are empty and `lazy` is 0: nothing is on its
//!   way back then, and nothing can begin to be.
//!
//! **Windows.** A kernel has one window for most areas and another for modules. They share the
//! nodes, the count of lazy pages and the drain; the main window alone, the largest, has pools.
//! [`drain`] has the rules of a drain.
//!
//! Locks, in this order: the purge lock, the pools by node, the heap; busy trees by node; a lazy
//! set last. No busy tree is locked while a pool or the heap is.
//!
//! A hit in a pool is O(1), and the busy tree of the zone O(log n). Source: the posting of 2024,
//! and the addresses in traces of Linux 6.12.

mod drain;
mod node;
mod shared;
mod show;

use super::areas::{Group, Want};
use super::pair::FreeSpace;
use crate::cpu;
use crate::design::{Ask, Counts, Design, Refusal, Segment, Setup};
use drain::Decay;
use shared::{Shared, Window};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::PageRange;

/// One window of the design. See the [module](self).
pub(super) struct Nodes {
    shared: Arc<Shared>,
    /// Its index.
    at: usize,
}

impl Nodes {
    /// Builds an empty one with a single window.
    pub(super) fn new(setup: &Setup) -> Self {
        Self { shared: Arc::new(Shared::new(setup, &[setup.span])), at: 0 }
    }

    /// Builds several windows that share all but their addresses.
    pub(super) fn of_windows(setup: &Setup, spans: &[PageRange]) -> Vec<Self> {
        let shared = Arc::new(Shared::new(setup, spans));
        (0..spans.len()).map(|at| Self { shared: Arc::clone(&shared), at }).collect()
    }

    fn window(&self) -> &Window {
        &self.shared.windows[self.at]
    }

    fn is_main(&self) -> bool {
        self.at == self.shared.main
    }

    fn holds(&self, page: u64) -> bool {
        self.window().span.contains(page)
    }
}

impl Design for Nodes {
    fn name(&self) -> &'static str {
        super::Name::Nodes.as_str()
    }

    fn span(&self) -> PageRange {
        self.window().span
    }

    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal> {
        let want = Want::new(ask, self.span())?;
        let shared = &*self.shared;
        let asked = cpu::current(shared.nodes.len());
        let pooled = if self.is_main() { shared.nodes[asked].take(&want) } else { None };
        let place = match pooled {
            Some(place) => place,
            None => shared.take(self.at, &want)?,
        };
        shared.record(place, asked);
        Ok(place.start())
    }

    fn free(&self, start: u64) -> Result<(), Refusal> {
        let lazy = if self.holds(start) { self.shared.retire(start) } else { None };
        self.shared.drain_if_much(lazy.ok_or(Refusal::NotAnArea)?);
        Ok(())
    }

    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal> {
        let group = Group::new(offsets, sizes, align, self.span())?;
        let base = self.shared.take_group(self.at, &group)?;
        let asked = cpu::current(self.shared.nodes.len());
        group.parts(base).for_each(|part| self.shared.record(part, asked));
        Ok(base)
    }

    fn free_congruent(&self, base: u64, offsets: &[u64], sizes: &[u64]) -> Result<(), Refusal> {
        if offsets.len() != sizes.len() {
            return Err(Refusal::Bad);
        }
        let part = |(&offset, &pages)| PageRange::from_len(base.checked_add(offset)?, pages);
        let areas: Option<Vec<_>> = offsets.iter().zip(sizes).map(part).collect();
        let areas = areas.filter(|areas| areas.iter().all(|area| self.holds(area.start())));
        let lazy = areas.and_then(|areas| self.shared.retire_group(&areas)).ok_or(Refusal::NotAnArea)?;
        self.shared.drain_if_much(lazy);
        Ok(())
    }

    /// Drains all windows, unless a drain is under way whose result the caller does not need. Call
    /// it on the main window: on others it does nothing.
    fn purge(&self) {
        if !self.is_main() {
            return;
        }
        if let Some(purging) = self.shared.purging.try_lock() {
            self.shared.drain(&purging, Decay::Quarter);
        }
    }

    fn relieve(&self) {
        self.shared.empty_pools(&self.shared.purging.lock());
    }

    /// Settles all windows.
    fn settle(&self) {
        let purging = self.shared.purging.lock();
        self.shared.drain(&purging, Decay::All);
    }

    /// The counts of this window. Purges are those of the main one, and so is the metadata of the
    /// nodes.
    fn counts(&self) -> Counts {
        let looked = self.window().heap.lock().ranges().tree().looked();
        Counts {
            purges: if self.is_main() { self.shared.purges.load(Relaxed) } else { 0 },
            longest_hold_areas: self.shared.longest_hold.load(Relaxed),
            missed_fits: self.window().missed_fits.load(Relaxed),
            looked,
            metadata_bytes: self.bytes() as u64,
            ..super::count(&self.segments())
        }
    }

    /// The lazy pages of all windows.
    fn lazy_pages(&self) -> u64 {
        self.shared.lazy.load(Relaxed)
    }

    fn free_pages(&self) -> Option<u64> {
        Some(self.window().heap.lock().ranges().pages())
    }

    fn segments(&self) -> Vec<Segment> {
        self.all_segments(self.window())
    }

    fn verify(&self) -> Result<(), String> {
        self.verify_all()
    }
}

#[cfg(test)]
mod tests;
