//! Two numbers that all nodes share, each changed in batches: so a CPU touches them once in many
//! areas.

use super::Padded;
use crate::sync::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Pages that may be cached, and are no node's credit.
///
/// ```text
///   0                 least                                  total
///   │ always allowed    │ allowed as more is in use ─► │ withheld │
/// ```
pub(crate) struct Budget {
    free: Padded<AtomicU64>,
    /// Free pages that no node gets, since too little is in use.
    withheld: Padded<AtomicU64>,
    /// The most pages so far that were used and not lazy.
    highest: Padded<AtomicU64>,
    /// Pages by which that has grown, and for which no cached area was given back yet.
    growth: Padded<AtomicU64>,
    /// All pages.
    total: u64,
    /// Pages that may be cached however little is in use.
    least: u64,
    /// Pages that a node takes at a time.
    batch: u64,
}

/// The part of the addresses in use that may be cached beyond the least: an allocator that keeps a
/// twelfth for later spreads what is in use over no more than a twelfth of addresses more.
const PART: u64 = 12;

/// The largest batch: 1 MiB in pages of 4 KiB.
const MAX_BATCH: u64 = crate::sync::size(256, 2);

impl Budget {
    /// Returns a budget of `least` to `total` pages for `nodes` nodes. Each node takes its part in
    /// about four batches.
    pub(crate) fn new(least: u64, total: u64, nodes: usize) -> Self {
        let batch = (total / nodes as u64 / 4).clamp(1, MAX_BATCH);
        let withheld = Padded(AtomicU64::new(total - least));
        Self {
            free: Padded(AtomicU64::new(total)),
            withheld,
            highest: Padded(AtomicU64::new(0)),
            growth: Padded(AtomicU64::new(0)),
            total,
            least,
            batch,
        }
    }

    /// Sets how much may be cached while `used` pages of addresses are in use, of which `lazy` are
    /// on their way back.
    pub(crate) fn set_used(&self, used: u64, lazy: u64) {
        if self.least < self.total {
            // Relaxed, here and below: numbers that protect nothing.
            self.add_growth(self.grow_to(used, lazy));
            let allowed = (used / PART).clamp(self.least, self.total);
            let withheld = self.total - allowed;
            // Read by every node: written only when it changes by something.
            if self.withheld.load(Relaxed).abs_diff(withheld) >= self.batch {
                self.withheld.store(withheld, Relaxed);
            }
        }
    }

    /// Returns by how many pages the space grows beyond its highest size while `used` pages of
    /// addresses are in use, of which `lazy` are on their way back.
    pub(crate) fn grow_to(&self, used: u64, lazy: u64) -> u64 {
        let (kept, highest) = (used.saturating_sub(lazy), self.highest.load(Relaxed));
        if kept > highest && self.least < self.total {
            self.highest.store(kept, Relaxed);
            return kept - highest;
        }
        0
    }

    /// Counts growth for which no cached area was given back yet.
    pub(crate) fn add_growth(&self, pages: u64) {
        if pages != 0 {
            self.growth.fetch_add(pages, Relaxed);
        }
    }

    pub(crate) fn batch(&self) -> u64 {
        self.batch
    }

    /// Returns by how many pages the space has grown beyond its highest size since the last call.
    pub(crate) fn take_growth(&self) -> u64 {
        if self.growth.load(Relaxed) == 0 { 0 } else { self.growth.swap(0, Relaxed) }
    }

    /// Puts growth back, for which nothing was given back yet.
    pub(crate) fn put_growth(&self, pages: u64) {
        self.growth.store(pages.min(MAX_BATCH), Relaxed);
    }

    /// Returns whether much is free: then new areas let every size have its own.
    pub(crate) fn is_plenty(&self) -> bool {
        self.free.load(Relaxed).saturating_sub(self.withheld.load(Relaxed)) > self.least / 4
    }

    /// Takes `pages` pages, and up to a batch if there is as much. Returns `None` if there are
    /// fewer.
    pub(crate) fn take(&self, pages: u64) -> Option<u64> {
        let (wanted, withheld) = (pages.max(self.batch), self.withheld.load(Relaxed));
        let granted = |free: u64| free.saturating_sub(withheld).min(wanted);
        let rest = |free: u64| (granted(free) >= pages).then(|| free - granted(free));
        self.free.fetch_update(Relaxed, Relaxed, rest).ok().map(granted)
    }

    /// Takes up to `pages` pages, withheld ones as well.
    pub(crate) fn take_withheld(&self, pages: u64) -> u64 {
        let rest = |free: u64| Some(free.saturating_sub(pages));
        self.free.fetch_update(Relaxed, Relaxed, rest).map_or(0, |free| free.min(pages))
    }

    /// Gives pages back.
    pub(crate) fn put(&self, pages: u64) {
        self.free.fetch_add(pages, Relaxed);
    }
}

/// Pages that are lazy, but for less than a batch in each node.
pub(crate) struct LazyPages {
    pages: Padded<AtomicU64>,
    /// Lazy pages that start a drain.
    threshold: u64,
    /// Lazy pages that make allocations drain as well.
    limit: u64,
    batch: u64,
    /// Pages of lazy areas behind which there is no memory. They are not among the lazy pages.
    absent: Padded<AtomicU64>,
    /// Absent pages that start a drain.
    most_absent: u64,
}

impl LazyPages {
    /// Returns a count whose threshold is `pages` pages of memory, or `most_absent` pages without.
    /// All nodes together hold back at most a quarter of the memory.
    pub(crate) fn new(pages: u64, most_absent: u64, nodes: usize) -> Self {
        Self {
            pages: Padded(AtomicU64::new(0)),
            threshold: pages,
            limit: pages.saturating_mul(2),
            batch: (pages / 4 / nodes as u64).max(1),
            absent: Padded(AtomicU64::new(0)),
            most_absent,
        }
    }

    /// Adds pages. Returns how many there are then.
    pub(crate) fn add(&self, pages: u64) -> u64 {
        // Relaxed: a number that starts work, and protects nothing.
        self.pages.fetch_add(pages, Relaxed) + pages
    }

    pub(crate) fn sub(&self, pages: u64) {
        self.pages.fetch_sub(pages, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn level(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    #[inline(always)]
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds pages without memory. Returns whether they are reason to drain now.
    pub(crate) fn add_absent(&self, pages: u64) -> bool {
        // Relaxed: see `add`.
        self.absent.fetch_add(pages, Relaxed) + pages > self.most_absent
    }

    /// Counts pages without memory as if they had some.
    pub(crate) fn fill_absent(&self, pages: u64) {
        let _ = self.add(pages);
        self.sub_absent(pages);
    }

    pub(crate) fn sub_absent(&self, pages: u64) {
        self.absent.fetch_sub(pages, Relaxed);
    }

    /// Returns how many lazy pages have no memory.
    pub(crate) fn absent(&self) -> u64 {
        self.absent.load(Relaxed)
    }

    /// Returns whether `pages` lazy pages of memory, or those without, are reason to drain.
    pub(crate) fn is_much(&self, pages: u64) -> bool {
        pages > self.threshold || self.absent() > self.most_absent
    }

    /// Returns how many lazy pages a node keeps to itself.
    pub(crate) fn batch(&self) -> u64 {
        self.batch
    }
}

/// The effect of a call on the number of lazy pages. The space acts on it when no lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the drain has to be triggered"]
pub(crate) struct Trigger {
    /// Lazy pages that there are now.
    pub(crate) total: u64,
    /// How many of them are new.
    pub(crate) added: u64,
    /// True if the node had nothing lazy before, and has now.
    pub(crate) is_first: bool,
}

impl Trigger {
    /// Nothing to act on.
    pub(crate) const NONE: Self = Self { total: 0, added: 0, is_first: false };

    /// Returns one trigger for two.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            total: self.total.max(other.total),
            added: self.added.max(other.added),
            is_first: self.is_first | other.is_first,
        }
    }
}
