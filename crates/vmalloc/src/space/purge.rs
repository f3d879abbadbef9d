//! Lazy free and purge.
//!
//! A freed area is taken out of use at once, but its pages and its addresses are given back in bulk:
//!
//! ```text
//!   vfree ── retire ──► cached ──(decay, pressure)──┐
//!               │                                     ▼
//!               └─────────────────────────────────► lazy ──► unmap all, flush once ──► pools ──(decay, pressure)──► map
//! ```
//!
//! Protocol:
//! 1. The **purger** is locked: one purge runs at a time, and whoever needs the addresses waits for it. So an
//!    allocation never fails while freed addresses are on their way back: the second of two callers, who would
//!    find nothing lazy, waits until the first has given everything back.
//! 2. The lazy sets of all nodes are taken, each by exchanging two lists under its node's lock.
//! 3. One `unmap` and one `flush` for all of it, with the real, coalesced ranges.
//! 4. Pools decay: a quarter goes back to the map, at most [`BATCH`] areas under one hold of a lock.
//! 5. What was flushed goes to the pools of the nodes that asked for it, or to the map, in such batches too. The lazy
//!    count falls as it does.
//!
//! A set is kept in the purger from the moment when it is taken until each area is given back. So when the platform fails
//! nothing is lost, and nothing that may still be translated somewhere is handed out. An area that the platform refuses
//! stays back alone, and every later purge tries it again: see [`refused`](super::refused).

use super::Space;
use super::blocks::Taken;
use super::drain::{Done, Drain, DrainStatus};
use super::keys::Keys;
use super::node::{Lazy, clear};
use super::pools::{Cursor, First, Pools, Share};
use super::refused::Refused;
use crate::addr::PageRange;
use crate::area_map::Leaf;
use crate::platform::{Platform, PlatformError};
use crate::sync::{AtomicU64, Mutant, is, size, unlocked};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Areas moved or given back under one hold of a lock that allocations and frees take (contract: at most 32).
pub(super) const BATCH: usize = size(32, 2) as usize;

/// What the one purge under way works on.
pub(super) struct Purger {
    /// For each node, what was taken from it and is not given back yet.
    pub(super) taken: Vec<Lazy>,
    /// Pages of areas in use that the platform refused to unmap or to flush.
    pub(super) torn: Vec<PageRange>,
    /// What was taken of the blocks.
    pub(super) blocks: Taken,
    /// What was taken, and is refused by the platform.
    pub(super) refused: Refused,
    /// Memory for the ranges to unmap, and for sorting them.
    pub(super) ranges: Vec<PageRange>,
    pub(super) keys: Vec<u64>,
    /// Memory for areas on the way from one lock to another; for [`BATCH`] of them.
    pub(super) batch: Vec<PageRange>,
}

/// Counts over the life of a space.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) purges: AtomicU64,
    pub(super) purged_areas: AtomicU64,
    /// The most areas that a purge moved or gave back under one hold of a lock.
    pub(super) longest_hold: AtomicU64,
    /// Areas that the purger has.
    pub(super) taken_areas: AtomicU64,
    /// Areas among them that the platform refused, and spent blocks.
    pub(super) refused_areas: AtomicU64,
    /// Pages of these. They start no purge, so the space's count of lazy pages is without them.
    pub(super) refused_pages: AtomicU64,
    /// Blocks that the platform refused, spent or not.
    pub(super) refused_blocks: AtomicU64,
    /// Bytes of the purger's lists.
    pub(super) list_bytes: AtomicU64,
}

impl Purger {
    /// One for `nodes` nodes; `None` when memory is short.
    pub(super) fn new(nodes: usize) -> Option<Self> {
        let (mut taken, mut batch) = (Vec::new(), Vec::new());
        taken.try_reserve_exact(nodes).ok()?;
        for _ in 0..nodes {
            taken.push(Lazy::new()?);
        }
        batch.try_reserve_exact(BATCH).ok()?;
        Some(Self {
            taken,
            torn: Vec::new(),
            blocks: Taken::default(),
            refused: Refused::new()?,
            ranges: Vec::new(),
            keys: Vec::new(),
            batch,
        })
    }

    /// Where areas go that no node's list had.
    pub(super) fn remote(&mut self) -> &mut Vec<PageRange> {
        &mut self.taken[0].remote
    }

    /// Whether there is nothing to unmap, but what was refused before.
    fn is_empty(&self) -> bool {
        self.taken.iter().all(Lazy::is_empty) && self.blocks.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PageRange> {
        self.taken.iter().flat_map(Lazy::iter).chain(self.refused.areas())
    }

    fn bytes(&self) -> usize {
        let lists: usize = self.taken.iter().map(|lazy| lazy.bytes() + size_of::<Lazy>()).sum();
        let ranges = (self.ranges.capacity() + self.batch.capacity()) * size_of::<PageRange>();
        lists + ranges + self.keys.capacity() * size_of::<u64>() + self.refused.bytes()
    }
}

impl<P: Platform> Space<P> {
    /// Gives back everything that is lazy, cached or pooled, and waits for a purge under way. After it returns no CPU
    /// holds a translation for anything freed before the call, and its addresses are free.
    ///
    /// O(n log n) in the areas given back, with one flush for all of them: the idea of Linux's lazy vunmap (Piggin, 2008).
    /// Others may allocate and free meanwhile.
    ///
    /// # Errors
    /// The platform's, if it refuses some areas. All others are given back all the same. Those stay lazy, are counted in
    /// [`Stats::refused_areas`](super::Stats::refused_areas), and every later purge tries them again. So it is for parts of
    /// areas in use, and for short mappings: this is an error as long as `refused_areas`, `refused_blocks` or `torn_ranges`
    /// is not 0.
    pub fn purge(&self) -> Result<(), PlatformError> {
        self.purge_with(Drain::ALL)?.complete()
    }

    /// Unmaps everything that is lazy or cached, and waits for a purge under way: after it returns no CPU holds a
    /// translation for anything freed before the call. Its addresses may wait in pools. Cost as [`purge`](Self::purge).
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge): some CPU may hold a translation for an area that it refuses.
    #[doc(alias = "vm_unmap_aliases")]
    pub fn flush_unmap_aliases(&self) -> Result<(), PlatformError> {
        self.purge_with(Drain::UNMAP)?.complete()
    }

    /// Unmaps what is lazy and gives back a quarter of what is cached and pooled, the longest unused; waits for a purge under
    /// way. Call it now and then where nothing else frees: repeated, it reaches zero. Cost as [`purge`](Self::purge), for
    /// the areas given back.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn decay(&self) -> Result<(), PlatformError> {
        self.purge_with(Drain::DECAY)?.complete()
    }

    /// What a platform calls that was asked to [`drain later`](Platform::drain_later), or that lets areas decay by age. Where
    /// much is lazy it purges, and gives back a quarter of what was kept and not needed since the last time; else it is
    /// [`decay`](Self::decay). Says whether there is a reason to come again. It may wait; nobody waits for it but who runs out
    /// of addresses or memory.
    ///
    /// # Errors
    /// The platform's, if it refuses areas and there is no memory to set these aside: then nothing else is purged before
    /// them. Otherwise areas that are refused are a reason to come again, and no error.
    pub fn drain(&self) -> Result<DrainStatus, PlatformError> {
        let much = self.lazy_pages.0.load(Ordering::Relaxed) > self.lazy_max;
        self.purge_with(if much { Drain::MAKE_ROOM } else { Drain::DECAY })?;
        let busy = self.nodes.iter().filter(|node| !self.rest(&mut node.0.lock())).count();
        let is_done = busy == 0 && self.are_blocks_at_rest() && !self.is_anything_refused();
        Ok(if is_done { DrainStatus::Done } else { DrainStatus::More })
    }

    /// Lets a node in which nothing waits tell the platform of the next free; whether nothing does.
    fn rest(&self, node: &mut super::Node) -> bool {
        let idle = node.lazy.is_empty() && node.cached.is_empty() && node.pools.is_empty();
        if idle {
            node.alarm = 0;
            self.ungranted.0.fetch_add(core::mem::take(&mut node.grant), Ordering::Relaxed);
        }
        idle
    }

    /// One purge, after the one under way.
    pub(super) fn purge_with(&self, drain: Drain) -> Result<Done, PlatformError> {
        if is(Mutant::NoWait) && self.purger.0.is_locked() {
            return Ok(Done::default());
        }
        self.run(&mut self.purger.0.lock(), drain)
    }

    /// Purges because much is lazy, unless somebody is at it.
    #[cold]
    pub(super) fn purge_if_idle(&self) {
        if let Some(mut purger) = self.purger.0.try_lock() {
            // What failed stays with the purger; the next allocation in need reports it.
            let _ = self.run(&mut purger, Drain::MAKE_ROOM);
        }
    }

    /// Purges for the sake of blocks, unless somebody is at it; whether that worked.
    pub(super) fn flush_if_idle(&self) -> bool {
        self.purger.0.try_lock().is_some_and(|mut purger| self.run(&mut purger, Drain::FLUSH).is_ok())
    }

    fn run(&self, purger: &mut Purger, drain: Drain) -> Result<Done, PlatformError> {
        let mut done = Done { refusal: self.mend_with(purger), ..Done::default() };
        if !purger.refused.is_empty() {
            self.retry(purger, drain, &mut done);
        }
        if !purger.is_empty() {
            // What an earlier purge could not finish comes first.
            self.unmap_taken(purger, &mut done)?;
            done.given += self.give_back(purger, drain);
        }
        // First the shares in lots, then the areas: their lists had them before.
        let left = self.lots.lock().left();
        self.deferred.see();
        self.take(purger);
        self.take_deferred(purger);
        self.take_blocks(&mut purger.blocks, drain.sweep);
        if let Some(share) = drain.cached {
            done.shed += self.take_cached(purger, share, drain.most);
        }
        let some = !purger.is_empty();
        if some {
            self.unmap_taken(purger, &mut done)?;
        }
        if let Some(share) = drain.pools {
            let pooled = self.decay_pools(purger, share, drain.most - done.shed);
            (done.given, done.shed) = (done.given + pooled, done.shed + pooled);
        }
        if some {
            done.given += self.give_back(purger, drain);
            clear(&mut purger.ranges);
            clear(&mut purger.keys);
            self.counts.purges.fetch_add(1, Ordering::Relaxed);
            self.counts.list_bytes.store(purger.bytes() as u64, Ordering::Relaxed);
        }
        self.settle_lots(left, purger);
        let blocks = self.release_blocks(drain.pools, drain.most - done.shed);
        Ok(Done { given: done.given + blocks, shed: done.shed + blocks, ..done })
    }

    /// Ends the first `count` shares in lots whose areas were flushed, and gives frames back that nothing leads to any more.
    fn settle_lots(&self, count: usize, purger: &Purger) {
        for _ in 0..count {
            let lot = self.lots.lock().settle(|page| purger.refused.has(page));
            if let Some(lot) = lot {
                lot.give_back(&self.platform);
            }
        }
    }

    /// Takes the lazy sets of all nodes.
    fn take(&self, purger: &mut Purger) {
        for (node, taken) in self.nodes.iter().zip(&mut purger.taken) {
            let mut node = unlocked(Mutant::UnlockedTake, || node.0.lock());
            if !node.lazy.is_empty() {
                core::mem::swap(&mut node.lazy, taken);
                let unpublished = core::mem::take(&mut node.unpublished);
                self.lazy_pages.0.fetch_add(unpublished, Ordering::Relaxed);
                self.counts.taken_areas.fetch_add(taken.areas(), Ordering::Relaxed);
                if is(Mutant::EarlyCount) {
                    self.lazy_pages.0.fetch_sub(taken.iter().map(PageRange::len).sum(), Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes a share of what is cached, `most` areas at most; how many.
    fn take_cached(&self, purger: &mut Purger, share: Share, most: u64) -> u64 {
        let Purger { taken, batch, .. } = purger;
        let mut count = 0;
        for (node, taken) in self.nodes.iter().zip(taken) {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && count < most && taken.remote.try_reserve(BATCH).is_ok() {
                batch.clear();
                let mut node = node.0.lock();
                more = node.cached.shed(share, First::Oldest, &mut cursor, batch_of(most - count), batch);
                let pages = batch.iter().map(PageRange::len).sum();
                node.grant += pages;
                self.count_taken(batch.len() as u64, pages);
                drop(node);
                taken.remote.extend_from_slice(batch);
                count += batch.len() as u64;
                self.held(batch.len());
            }
        }
        count
    }

    /// Counts areas that go to the purger; how many pages are lazy now.
    pub(super) fn count_taken(&self, areas: u64, pages: u64) -> u64 {
        self.counts.taken_areas.fetch_add(areas, Ordering::Relaxed);
        self.lazy_pages.0.fetch_add(pages, Ordering::Relaxed) + pages
    }

    /// Step 3: what was taken is reachable no more, but for what is refused, which is taken no more.
    fn unmap_taken(&self, purger: &mut Purger, done: &mut Done) -> Result<(), PlatformError> {
        let Purger { taken, ranges, keys, blocks, .. } = purger;
        let areas = || taken.iter().flat_map(Lazy::iter).chain(&blocks.runs);
        let joined =
            Keys { base: self.geometry.span.start(), keys }.sort(areas()).and_then(|keys| keys.join(ranges));
        let unmapped = match joined {
            Some(()) => self.unmap_and_flush(ranges),
            // One by one it takes no memory.
            None => areas().try_for_each(|area| self.unmap_and_flush(&[*area])),
        };
        // What is torn overlaps areas that must not be given back before it is mended.
        if unmapped.is_ok() && purger.torn.is_empty() { Ok(()) } else { self.sift(purger, done) }
    }

    pub(super) fn unmap_and_flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the ranges are made of retired areas that were taken out of the lazy sets: nobody else has them, their
        // owners gave them up, and they are not given back before this has succeeded.
        unsafe {
            self.platform.unmap(ranges)?;
            self.platform.flush(ranges)
        }
    }

    /// Step 4, `most` areas at most; how many.
    fn decay_pools(&self, purger: &mut Purger, share: Share, most: u64) -> u64 {
        let (batch, mut given) = (&mut purger.batch, 0);
        for node in &self.nodes {
            let (mut cursor, mut more) = (Cursor::default(), true);
            while more && given < most {
                batch.clear();
                more = node.0.lock().pools.shed(
                    share,
                    First::Newest,
                    &mut cursor,
                    batch_of(most - given),
                    batch,
                );
                given += self.release(batch);
            }
        }
        given
    }

    /// Step 5; how many areas went to the map.
    fn give_back(&self, purger: &mut Purger, drain: Drain) -> u64 {
        let Purger { taken, batch, blocks, .. } = purger;
        let (mut given, mut purged) = (0, 0);
        self.put_blocks(blocks);
        for (id, taken) in taken.iter_mut().enumerate() {
            purged += taken.areas();
            for areas in taken.own.chunks(BATCH) {
                given += if drain.refill { self.refill(id, areas, batch) } else { self.release(areas) };
                self.count_given(areas);
            }
            given += self.give_remote(&taken.remote, drain, batch);
            taken.clear();
        }
        self.counts.purged_areas.fetch_add(purged, Ordering::Relaxed);
        given
    }

    /// Gives areas back that were asked for anywhere; how many went to the map.
    pub(super) fn give_remote(&self, areas: &[PageRange], drain: Drain, batch: &mut Vec<PageRange>) -> u64 {
        let give = |areas: &[PageRange]| {
            let given = if drain.refill { self.take_home(areas, batch) } else { self.release(areas) };
            self.count_given(areas);
            given
        };
        areas.chunks(BATCH).map(give).sum()
    }

    fn count_given(&self, areas: &[PageRange]) {
        let pages = if is(Mutant::EarlyCount) { 0 } else { areas.iter().map(PageRange::len).sum() };
        self.lazy_pages.0.fetch_sub(pages, Ordering::Relaxed);
        self.counts.taken_areas.fetch_sub(areas.len() as u64, Ordering::Relaxed);
    }

    /// Puts areas of one node into its pools; what does not go in goes to the map.
    fn refill(&self, id: usize, areas: &[PageRange], rest: &mut Vec<PageRange>) -> u64 {
        rest.clear();
        let mut node = self.nodes[id].0.lock();
        rest.extend(areas.iter().filter(|area| !node.pools.put(**area)));
        drop(node);
        self.held(areas.len());
        self.release(rest)
    }

    /// Puts areas into the pools of the nodes that asked for them.
    fn take_home(&self, areas: &[PageRange], rest: &mut Vec<PageRange>) -> u64 {
        let owner_node = |area: &PageRange| {
            let home = self.bitmaps.sure_home(area.start()).filter(|_| Pools::takes(area.len()));
            home.and_then(Leaf::owner_node).map(|owner_node| owner_node % self.nodes.len())
        };
        let mut given = 0;
        for areas in areas.chunk_by(|a, b| owner_node(a) == owner_node(b)) {
            given += match areas.first().and_then(owner_node) {
                Some(id) => self.refill(id, areas, rest),
                None => self.release(areas),
            };
        }
        given
    }

    /// Gives at most [`BATCH`] areas to the map; how many.
    pub(super) fn release(&self, areas: &[PageRange]) -> u64 {
        if areas.is_empty() {
            return 0;
        }
        let mut map = self.map();
        for area in areas {
            if let Err(damage) = map.release(area.start()) {
                self.platform.fatal(&damage);
            }
        }
        drop(map);
        self.held(areas.len());
        areas.len() as u64
    }

    /// Remembers how long a lock was held, in areas.
    fn held(&self, areas: usize) {
        self.counts.longest_hold.fetch_max(areas as u64, Ordering::Relaxed);
    }
}

/// How many of `wanted` areas are moved under one hold of a lock.
fn batch_of(wanted: u64) -> usize {
    wanted.min(BATCH as u64) as usize
}
