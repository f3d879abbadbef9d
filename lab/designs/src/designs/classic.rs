//! One global lock: the whole allocator, until 2024.
//!
//! ```text
//!    alloc ──► lock: take ────────────── no room, and something lazy ──► purge, wait, again
//!    free  ──► lock: busy → lazy ─────── much is lazy ──► purge            ┊
//!    purge ──► lock: the lazy set leaves │ flush │ lock: free ▒ free ▒ free …  (▒: the lock is offered)
//! ```
//!
//! * `C1` `lazy` is the sum of all areas that are neither busy nor free, those that a purge has in hand included. It changes
//!   only under the lock, together with the area. So busy + lazy + free is the span, at any moment when the lock is held.
//! * `C2` A request is refused only under the lock, where no free range takes it and `lazy` is 0: never while freed space is on
//!   its way back, by any thread. Until then the caller purges and waits for the purges of others.
//!
//! [`Purge`](super::purge::Purge) says what a purge does with the lock.

use super::areas::{Areas, Group, Want};
use super::purge::Purge;
use super::stack::Stack;
use crate::design::{Ask, Counts, Design, Refusal, Segment, Setup, State};
use crate::lock::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::PageRange;
use vmalloc::sync::AtomicU64;

/// See the [module](self).
pub(super) struct Classic<S: Areas> {
    name: &'static str,
    span: PageRange,
    pub(super) lazy_max: u64,
    pub(super) purge: Purge,
    pub(super) held: Mutex<Held<S>>,
    /// Relaxed everywhere: changed under the lock, and read there where it decides.
    pub(super) lazy: AtomicU64,
    pub(super) purges: AtomicU64,
    pub(super) longest_hold: AtomicU64,
    missed_fits: AtomicU64,
}

/// The state that the lock guards.
pub(super) struct Held<S: Areas> {
    pub(super) areas: S,
    pub(super) lazy: Stack<S::Freed>,
}

impl<S: Areas> Classic<S> {
    pub(super) fn new(name: &'static str, setup: &Setup, purge: Purge) -> Self {
        let held = Held { areas: S::new(setup.span), lazy: Stack::default() };
        Self {
            name,
            span: setup.span,
            lazy_max: setup.lazy_max_pages,
            purge,
            held: Mutex::new(held),
            lazy: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            longest_hold: AtomicU64::new(0),
            missed_fits: AtomicU64::new(0),
        }
    }

    /// Takes what `take` takes, or counts whether `missed` a fit.
    fn obtain(
        &self,
        take: impl Fn(&mut S) -> Option<u64>,
        missed: impl FnOnce(&S) -> bool,
    ) -> Result<u64, Refusal> {
        loop {
            let mut held = self.held.lock();
            if let Some(start) = take(&mut held.areas) {
                return Ok(start);
            }
            if self.lazy.load(Relaxed) == 0 {
                self.missed_fits.fetch_add(missed(&held.areas).into(), Relaxed);
                return Err(Refusal::NoSpace);
            }
            drop(held);
            self.purge_and_wait();
        }
    }

    /// Makes busy areas lazy, which are known to be there, and purges if much is lazy then.
    fn retire(&self, held: &mut Held<S>, starts: impl Iterator<Item = u64>) -> u64 {
        let mut lazy = self.lazy.load(Relaxed);
        for start in starts {
            let (freed, pages) = held.areas.retire(start).expect("a busy area");
            held.lazy.push(freed);
            lazy += pages;
        }
        self.lazy.store(lazy, Relaxed);
        lazy
    }

    fn purge_if_much(&self, lazy: u64) {
        if lazy > self.lazy_max {
            self.purge_if_nobody_does();
        }
    }
}

impl<S: Areas> Design for Classic<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn span(&self) -> PageRange {
        self.span
    }

    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal> {
        let want = Want::new(ask, self.span)?;
        self.obtain(|areas| areas.take(&want), |areas| areas.holds(&want))
    }

    fn free(&self, start: u64) -> Result<(), Refusal> {
        let mut held = self.held.lock();
        let (freed, pages) = held.areas.retire(start).ok_or(Refusal::NotAnArea)?;
        held.lazy.push(freed);
        let lazy = self.lazy.load(Relaxed) + pages;
        self.lazy.store(lazy, Relaxed);
        drop(held);
        self.purge_if_much(lazy);
        Ok(())
    }

    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal> {
        let group = Group::new(offsets, sizes, align, self.span)?;
        self.obtain(|areas| areas.take_congruent(&group), |_| false)
    }

    fn free_congruent(&self, base: u64, offsets: &[u64], sizes: &[u64]) -> Result<(), Refusal> {
        if offsets.len() != sizes.len() {
            return Err(Refusal::Bad);
        }
        let starts = || offsets.iter().map(|&offset| base.checked_add(offset));
        let mut held = self.held.lock();
        let all = starts()
            .zip(sizes)
            .all(|(start, &pages)| start.and_then(|start| held.areas.busy_at(start)) == Some(pages));
        if !all {
            return Err(Refusal::NotAnArea);
        }
        let lazy = self.retire(&mut held, starts().flatten());
        drop(held);
        self.purge_if_much(lazy);
        Ok(())
    }

    fn purge(&self) {
        self.purge_if_nobody_does();
    }

    fn settle(&self) {
        while self.lazy_pages() > 0 {
            self.purge_and_wait();
        }
    }

    fn counts(&self) -> Counts {
        let held = self.held.lock();
        Counts {
            purges: self.purges.load(Relaxed),
            longest_hold_areas: self.longest_hold.load(Relaxed),
            missed_fits: self.missed_fits.load(Relaxed),
            looked: held.areas.looked(),
            metadata_bytes: (held.areas.bytes() + held.lazy.bytes()) as u64,
            ..super::count(&held.areas.segments(&held.lazy))
        }
    }

    fn lazy_pages(&self) -> u64 {
        self.lazy.load(Relaxed)
    }

    fn segments(&self) -> Vec<Segment> {
        let held = self.held.lock();
        held.areas.segments(&held.lazy)
    }

    fn verify(&self) -> Result<(), String> {
        let held = self.held.lock();
        held.areas.verify()?;
        let segments = held.areas.segments(&held.lazy);
        super::verify_partition(self.span, &segments)?;
        let lazy: u64 = segments.iter().filter(|it| it.state == State::Lazy).map(|it| it.range.len()).sum();
        let counted = self.lazy.load(Relaxed);
        if counted == lazy { Ok(()) } else { Err(format!("C1: {lazy} lazy pages, counted {counted}")) }
    }
}
