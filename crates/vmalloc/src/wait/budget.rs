//! Two numbers that all nodes share, each changed in batches: so a CPU touches them once in many
//! areas.

use super::policy::{Allowance, BEHIND, CREDIT, GROUP, HELD_BACK};
use super::{Apart, Padded, list};
use crate::SpaceError;
use crate::sync::AtomicU64;
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

/// Pages that may be cached, and are no node's credit.
///
/// ```text
///   0                 least                                  total
///   │ always allowed    │ allowed as more is in use ─► │ withheld │
/// ```
///
/// Where memory is dear, withheld pages are cached as well, until the space [grows](Self::growth).
pub(crate) struct Budget {
    free: Padded<AtomicU64>,
    /// Free pages that no node gets, since too little is in use.
    withheld: Padded<AtomicU64>,
    /// The most pages in use so far for which cached ones were given back.
    highest: Padded<AtomicU64>,
    allowance: Allowance,
    /// Pages that a node takes at a time.
    pub(super) batch: u64,
}

/// A space that becomes too large for what it has needed so far.
pub(crate) struct Growth {
    /// Pages for which cached ones are to be given back.
    pub(crate) pages: u64,
    /// Cached pages beyond what is allowed.
    pub(crate) excess: u64,
    /// The most pages in use.
    pub(crate) highest: u64,
}

impl Budget {
    /// Returns a budget for `nodes` nodes. Each node takes its part in about four batches.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    pub(crate) fn new(allowance: Allowance, nodes: usize) -> Result<Apart<Self>, SpaceError> {
        let most = allowance.most;
        Apart::new(|| Self {
            free: Padded(AtomicU64::new(most)),
            withheld: Padded(AtomicU64::new(most - allowance.cached(0))),
            highest: Padded(AtomicU64::new(0)),
            allowance,
            batch: (most / nodes as u64 / HELD_BACK).clamp(1, CREDIT),
        })
    }

    /// Sets how much may be cached while `used` pages of addresses are in use.
    pub(crate) fn set_used(&self, used: u64) {
        if self.allowance.follows() && !self.allowance.is_dear {
            let withheld = self.allowance.most - self.allowance.cached(used);
            // Relaxed, here and below: numbers that protect nothing. Read by every node: written
            // only when it changes by something.
            if self.withheld.load(Relaxed).abs_diff(withheld) >= self.batch {
                self.withheld.store(withheld, Relaxed);
            }
        }
    }

    /// Returns the growth of a space of which `kept` pages are in use or cached, and lets as many
    /// pages be lazy as goes with that.
    pub(crate) fn growth(&self, lazy: &LazyPages, kept: u64) -> Growth {
        let cached = self.allowance.most.saturating_sub(self.free());
        let (in_use, before) = (kept.saturating_sub(cached), self.highest.load(Relaxed));
        let highest = in_use.max(before);
        lazy.set_threshold(self.allowance.lazy(highest));
        let too_many = kept.saturating_sub(highest + self.allowance.cached(highest));
        let pages = if self.allowance.follows() { too_many.max(highest - before) } else { 0 };
        Growth { pages, excess: cached.saturating_sub(self.allowance.cached(in_use)), highest }
    }

    /// Notes that cached pages were given back for growth. Some of those that are still due are up
    /// to the next miss.
    pub(crate) fn note_growth(&self, growth: &Growth) {
        self.highest.fetch_max(growth.highest.saturating_sub(growth.pages.min(CREDIT)), Relaxed);
    }

    /// Takes `pages` pages, and up to `most` if there are as many. Returns `None` if there are
    /// fewer.
    pub(crate) fn take(&self, pages: u64, most: u64) -> Option<u64> {
        let withheld = if self.allowance.is_dear { 0 } else { self.withheld.load(Relaxed) };
        let granted = |free: u64| free.saturating_sub(withheld).min(most);
        let rest = |free: u64| (granted(free) >= pages).then(|| free - granted(free));
        self.free.fetch_update(Relaxed, Relaxed, rest).ok().map(granted)
    }

    /// Returns the pages that may be cached, and are no node's credit.
    pub(crate) fn free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Returns whether all but the free pages are these.
    pub(crate) fn is_spent(&self, pages: u64) -> bool {
        self.free() + pages == self.allowance.most
    }

    /// Gives pages back.
    pub(crate) fn put(&self, pages: u64) {
        self.free.fetch_add(pages, Relaxed);
    }
}

/// Pages that are lazy, but for less than a batch in each node: a count for each group of nodes,
/// and from two groups on one for what was in no node. Each group has its part of the threshold.
pub(crate) struct LazyPages {
    counts: Box<[Padded<LazyCount>]>,
    /// Lazy pages that start a drain. A thread that grows the space writes it.
    threshold: AtomicU64,
    /// The nodes keep so many parts of the threshold to themselves.
    shares: u64,
    /// Pages of lazy areas behind which there is no memory. They are not among the lazy pages.
    absent: Padded<AtomicU64>,
    /// Absent pages that start a drain.
    most_absent: u64,
}

/// Lazy pages of a group of nodes.
#[derive(Default)]
pub(crate) struct LazyCount(AtomicU64);

impl LazyCount {
    /// Adds pages.
    pub(crate) fn add(&self, pages: u64) {
        // Relaxed: a number that starts work, and protects nothing.
        self.0.fetch_add(pages, Relaxed);
    }

    pub(crate) fn sub(&self, pages: u64) {
        self.0.fetch_sub(pages, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn level(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl LazyPages {
    /// Returns a count whose threshold is `pages` pages of memory at first, and `most_absent` pages
    /// without. All nodes together hold back at most a quarter of the memory.
    ///
    /// # Errors
    /// [`SpaceError::Metadata`] when memory is short.
    pub(crate) fn new(pages: u64, most_absent: u64, nodes: usize) -> Result<Apart<Self>, SpaceError> {
        let groups = nodes.div_ceil(GROUP);
        let count = if groups == 1 { 1 } else { groups + 1 };
        let counts = list(count, || Padded(LazyCount::default()))?;
        Apart::new(|| Self {
            counts,
            threshold: AtomicU64::new(pages),
            shares: HELD_BACK * nodes as u64,
            absent: Padded(AtomicU64::new(0)),
            most_absent,
        })
    }

    /// Returns how many groups of nodes purge by themselves: none where there would be one alone.
    pub(crate) fn groups(&self) -> usize {
        self.counts.len() - 1
    }

    /// Returns the nodes of a group.
    pub(crate) const fn nodes_of(group: usize) -> core::ops::Range<usize> {
        group * GROUP..(group + 1) * GROUP
    }

    /// Returns the count of what was lazy in node `id`; with a number that is no node's, of what
    /// was in none.
    #[inline(always)]
    pub(crate) fn of(&self, id: usize) -> &LazyCount {
        let last = self.counts.len() - 1;
        &self.counts[last.min(id / GROUP)]
    }

    /// Returns the count of what was in no node.
    pub(crate) fn of_none(&self) -> &LazyCount {
        self.of(usize::MAX)
    }

    /// Returns the lazy pages of all.
    pub(crate) fn level(&self) -> u64 {
        self.counts.iter().map(|count| count.level()).sum()
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// Returns the lazy pages of a group that start a drain.
    #[inline(always)]
    pub(crate) fn part(&self) -> u64 {
        self.threshold() / self.groups().max(1) as u64
    }

    /// Sets the lazy pages that start a drain.
    fn set_threshold(&self, pages: u64) {
        // Read by every node: written only when it changes.
        if self.threshold() != pages {
            self.threshold.store(pages, Relaxed);
        }
    }

    /// Returns the lazy pages of a group beyond which allocations help.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u64 {
        self.part().saturating_mul(BEHIND)
    }

    /// Adds pages without memory. Returns whether they are reason to drain now.
    pub(crate) fn add_absent(&self, pages: u64) -> bool {
        // Relaxed: see `add`.
        self.absent.fetch_add(pages, Relaxed) + pages > self.most_absent
    }

    pub(crate) fn sub_absent(&self, pages: u64) {
        self.absent.fetch_sub(pages, Relaxed);
    }

    /// Returns how many lazy pages have no memory.
    pub(crate) fn absent(&self) -> u64 {
        self.absent.load(Relaxed)
    }

    /// Returns whether the pages without memory are reason to drain.
    pub(crate) fn is_absent_much(&self) -> bool {
        self.absent() > self.most_absent
    }

    /// Returns whether `pages` lazy pages of one group are reason to drain.
    pub(crate) fn is_much(&self, pages: u64) -> bool {
        pages > self.part()
    }

    /// Returns how many lazy pages a node keeps to itself.
    pub(crate) fn batch(&self) -> u64 {
        (self.threshold() / self.shares).max(1)
    }
}
