//! Lazy free and purge.
//!
//! A freed area is taken out of use at once, but its pages and its addresses are given back in bulk:
//!
//! ```text
//!   vfree ── retire ──► retained stacks ──(decay, pressure)──┐
//!               │                                            ▼
//!               └────────────────────────────────────────► lazy set ──► unmap all, flush once, release
//! ```
//!
//! Protocol:
//! 1. The **purge lock** is taken: one purge runs at a time, and whoever needs the addresses waits for it. So an
//!    allocation never fails while freed addresses are on their way back: the second of two callers, who would
//!    find the lazy set empty, waits until the first has given everything back.
//! 2. Retained areas that are to go are made lazy, [`BATCH`] at a time under the space's lock; then the whole lazy set
//!    is taken at once, and the lock is dropped before the platform is called.
//! 3. One `unmap` and one `flush` for the whole set, with its real, coalesced ranges.
//! 4. The areas are released, [`BATCH`] at a time under the space's lock. The lazy count falls as they are.
//!
//! When the platform fails, the set goes back to the lazy set whole: nothing is lost, and nothing that may
//! still be translated somewhere is handed out.

use super::Space;
use super::retained;
use crate::addr::PageRange;
use crate::error::PlatformError;
use crate::platform::Platform;
use alloc::vec::Vec;

/// Areas moved or given back under one hold of the space's lock (contract: at most 32).
const BATCH: usize = 32;

/// How much is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drain {
    /// What is lazy, and a quarter of what is retained.
    Decay,
    /// All that is lazy and all that is retained.
    All,
}

/// What a drain has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Nothing is lazy or retained: there is nothing to do before the next free.
    Nothing,
    /// Something is retained, or was freed meanwhile: drained again now and then, it goes by its age.
    Something,
}

impl Drain {
    /// How many of `count` retained areas of a size go: a quarter is rounded up, so that the last one drains too.
    fn share(self, count: usize) -> usize {
        match self {
            Self::Decay => count.div_ceil(4),
            Self::All => count,
        }
    }
}

impl<P: Platform> Space<P> {
    /// Gives back everything that is lazy or retained, and waits for a purge under way. After it returns no CPU
    /// holds a translation for anything freed before the call, and its addresses are free.
    ///
    /// O(n log n) in the areas given back, with one flush for all of them: the idea of Linux's lazy vunmap (Piggin, 2008).
    /// Others may allocate and free meanwhile.
    ///
    /// # Errors
    /// The platform's. What was not given back stays lazy, and is tried again at the next purge.
    #[doc(alias = "vm_unmap_aliases")]
    pub fn purge(&self) -> Result<(), PlatformError> {
        let _running = self.purge_lock.lock();
        self.drain_locked(Drain::All)
    }

    /// Purges what is lazy and gives back a quarter of what is retained, the longest unused: call it now and then
    /// where nothing else frees. Repeated, it reaches zero. Cost as [`purge`](Self::purge), for the areas given back.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn decay(&self) -> Result<(), PlatformError> {
        let _running = self.purge_lock.lock();
        self.drain_locked(Drain::Decay)
    }

    /// One round of the background drain that [`Platform::drain_later`] asks for: [`decay`](Self::decay), and whether
    /// another is of use a while later.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge): something is left then.
    pub fn drain(&self) -> Result<Rest, PlatformError> {
        self.decay()?;
        let state = self.state.lock();
        let left = state.lazy_areas + state.retained.areas();
        Ok(if left == 0 { Rest::Nothing } else { Rest::Something })
    }

    /// So many pages are lazy that they are due: in the background if the platform can and keeps up, else here.
    #[cold]
    pub(super) fn drain_due(&self, lazy_pages: u64) {
        let later = self.platform.drain_later();
        if !later || lazy_pages > self.lazy_max.saturating_mul(2) {
            self.purge_if_idle();
        }
    }

    /// Purges, unless somebody is at it.
    fn purge_if_idle(&self) {
        if let Some(_running) = self.purge_lock.try_lock() {
            // What failed stays lazy; the next allocation in need reports it.
            let _ = self.drain_locked(Drain::Decay);
        }
    }

    /// Takes one area that could not be entered in the lazy set back to the free space.
    #[cold]
    pub(super) fn purge_one(&self, area: PageRange) {
        let _running = self.purge_lock.lock();
        while self.unmap_and_flush(&[area]).is_err() {
            let mut state = self.state.lock();
            if state.lazy.try_reserve(1).is_ok() {
                state.lazy.push(area);
                return;
            }
        }
        self.give_back(&[area]);
    }

    /// One purge. The purge lock is held.
    fn drain_locked(&self, drain: Drain) -> Result<(), PlatformError> {
        // What an earlier purge could not finish comes first.
        let stuck = core::mem::take(&mut self.state.lock().stuck);
        self.purge_set(stuck)?;
        self.unretain(drain);
        let lazy = core::mem::take(&mut self.state.lock().lazy);
        self.purge_set(lazy)
    }

    fn purge_set(&self, mut areas: Vec<PageRange>) -> Result<(), PlatformError> {
        if areas.is_empty() {
            return Ok(());
        }
        areas.sort_unstable_by_key(PageRange::start);
        let joined = join(&areas);
        let ranges = if joined.is_empty() { &areas } else { &joined };
        if let Err(error) = self.unmap_and_flush(ranges) {
            self.state.lock().stuck = areas;
            return Err(error);
        }
        self.give_back(&areas);
        let mut state = self.state.lock();
        state.purges += 1;
        state.purged_areas += areas.len() as u64;
        if state.lazy.is_empty() && state.lazy.capacity() < areas.capacity() {
            // The memory serves the next set.
            areas.clear();
            state.lazy = areas;
        }
        Ok(())
    }

    fn unmap_and_flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the ranges are made of retired areas that were taken out of the lazy set: nobody else has them, their
        // owners gave them up, and they are not released before this has succeeded.
        unsafe {
            self.platform.unmap(ranges)?;
            self.platform.flush(ranges)
        }
    }

    /// Makes retained areas lazy, a batch under each hold of the lock.
    fn unretain(&self, drain: Drain) {
        if self.state.lock().retained.areas() == 0 {
            return;
        }
        for pages in 1..=retained::MAX_PAGES {
            let mut due = drain.share(self.state.lock().retained.count(pages));
            while due > 0 {
                let moved = self.state.lock().unretain(pages, due.min(BATCH));
                if moved == 0 {
                    // Somebody took them out again, or memory is short.
                    break;
                }
                due -= moved;
            }
        }
    }

    fn give_back(&self, areas: &[PageRange]) {
        for batch in areas.chunks(BATCH) {
            let mut state = self.state.lock();
            for area in batch {
                match state.map.release(area.start()) {
                    Ok(_) => {
                        state.lazy_pages -= area.len();
                        state.lazy_areas -= 1;
                    }
                    Err(damage) => self.platform.fatal(&damage),
                }
            }
            state.longest_hold = state.longest_hold.max(batch.len() as u64);
        }
    }
}

/// Neighbours joined; empty when memory is short.
fn join(areas: &[PageRange]) -> Vec<PageRange> {
    let mut joined: Vec<PageRange> = Vec::new();
    if joined.try_reserve_exact(areas.len()).is_err() {
        return joined;
    }
    for area in areas {
        match joined.last_mut() {
            Some(last) if last.end() == area.start() => *last = PageRange::of(last.start(), area.end()),
            _ => joined.push(*area),
        }
    }
    joined
}
