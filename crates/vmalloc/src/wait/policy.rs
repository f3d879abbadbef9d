//! The policy: how much of what was freed may wait, and in which form, as a function of what is in
//! use.
//!
//! ```text
//!   cached   least ─── a part of what is in use ───► most      with memory: a twelfth, a third where memory is dear, or the user's
//!   lazy     an eighth of the cached, but no more than the threshold     memory to be unmapped, where memory is dear
//!   pooled   in each node twice the threshold     addresses alone
//! ```
//!
//! Where memory is dear, what is in use is the most that ever was, and a free keeps memory beyond
//! that: the space is no larger then. Growth gives it back (`space/growth.rs`).

use crate::sync::size;

// The numbers of the policy, with what each was measured by. `policy` is `cargo xtask policy`, and
// `cores` is `cargo xtask cores`, whose CPUs are virtual.

/// The most bytes that are cached for each CPU: what a burst of frees on it is. A setting.
pub(crate) const CACHED: usize = 64 << 20;
/// The bytes for each CPU that are cached however little is in use: a burst of frees in a kernel
/// is.
pub(crate) const LEAST_CHEAP: usize = 8 << 20;
/// Bytes that are cached for each CPU in any case where memory is dear: a program of a few
/// megabytes is not to hold several times what it uses.
pub(crate) const LEAST_DEAR: usize = 2 << 20;
/// The part of what is in use that is cached: it spreads what is in use over as many more
/// addresses.
const CHEAP_PART: u64 = 12;
/// The part that is cached where memory is dear. With a quarter arrays that double take twice as
/// many new pages (`policy`).
const DEAR_PART: u64 = 3;
/// Lazy bytes that start a drain, for each bit of the number of CPUs: Linux's number (2008).
pub(crate) const LAZY: usize = 32 << 20;
/// The part of what may be cached that is lazy, where memory is dear. With a half peaks are 6 %
/// higher on average, and 20 % in the worst load; a sixteenth brings nothing more (`policy`).
const LAZY_OF_CACHED: u64 = 8;
/// The part of the span whose pages without memory start a drain.
pub(crate) const ABSENT: u64 = 8;
/// So many times the pages that start a drain, allocations help; and so many times more, they wait.
pub(crate) const BEHIND: u64 = 2;
/// The part of a number that all nodes share which they may hold back together.
pub(crate) const HELD_BACK: u64 = 4;
/// Pages that a node takes of the budget at most in one go: 1 MiB in pages of 4 KiB.
pub(crate) const CREDIT: u64 = size(256, 2);
/// Nodes whose lazy areas one purge takes. With one purger for all, 128 CPUs take 1.8 times the
/// time, and sleep for it half of theirs (`cores`).
pub(crate) const GROUP: usize = size(8, 1) as usize;
/// Areas that are looked at, moved or given back under one hold of a lock that allocations and
/// frees take (contract: at most 32); and room for as many where memory is short.
pub(crate) const BATCH: usize = size(32, 2) as usize;
/// Areas that growth moves to the stock, and evicts from it, under one hold of two locks.
pub(crate) const HALF: usize = 16;
/// Pages that a node takes of the map in one go where it never waits for it; and of the largest
/// area that gets a leaf apart: a sixteenth of a leaf.
pub(crate) const LEAST_RUN: u64 = size(64, 6);
/// Pages that a node takes of the map in one go at most. Such runs on one CPU take 15 % more
/// addresses (`policy`); with runs of 64 pages 128 CPUs take 1.5 times the time (`cores`).
pub(crate) const MOST_RUN: u64 = size(1024, 6);
/// The part of a run by which it becomes shorter each time that the node has not waited.
pub(crate) const SHORTER: u64 = 8;
/// The longest runs that a pool holds in any case. With one, 128 CPUs take 1.6 times the time
/// (`cores`).
pub(crate) const RUNS: u64 = 4;
/// So many times what a purge took of a node its pool may hold. Once where memory is cached, which
/// spreads what is in use as well.
pub(crate) const POOLED: u64 = 2;
/// The largest area that waits in a node, in pages: 256 and a guard page.
pub(crate) const MAX_PAGES: u64 = 257;
/// Leaves for each node near the start of the span in which no other node's areas are: little for a
/// program, and all that a program of few areas ever uses.
pub(crate) const APART: u64 = 6;
/// Entries of a list that requests go through as a whole: areas of the stock, and parts of tenants
/// that wait for a flush of all.
pub(crate) const LONG_LIST: usize = 1024;
/// An area that is more than this part of what is in use or cached is a large step, and growth
/// looks as often for memory that can go: what waits for later misses may be more than there will
/// be. PostgreSQL's large sorts are such.
pub(crate) const LARGE_STEP: u64 = 16;

/// Returns what may be cached beside `in_use` pages.
pub(crate) fn twelfth(in_use: u64) -> u64 {
    in_use / CHEAP_PART
}

/// Returns what may be cached where memory is dear.
pub(crate) fn third(in_use: u64) -> u64 {
    in_use / DEAR_PART
}

/// Bounds of what waits, in pages.
#[derive(Clone, Copy)]
pub(crate) struct Allowance {
    /// Lazy pages of memory that start a drain.
    pub(crate) lazy: u64,
    /// Lazy pages without memory that start one.
    pub(crate) absent: u64,
    /// Pages that may be cached however little is in use: none by a policy of the user's, which has
    /// its own floor.
    pub(crate) least: u64,
    /// Pages that may be cached.
    pub(crate) most: u64,
    /// True if new memory costs more than keeping some that may not be needed.
    pub(crate) is_dear: bool,
    /// Pages that may be cached beside so many in use, between these two: the default, or the
    /// user's [policy](crate::SpaceOptions::cached_beside).
    pub(crate) beside: fn(u64) -> u64,
}

impl Allowance {
    /// Returns the pages that may be cached beside `in_use` pages.
    pub(super) fn cached(&self, in_use: u64) -> u64 {
        (self.beside)(in_use).clamp(self.least, self.most)
    }

    /// Returns whether the cache follows what is in use.
    pub(super) fn follows(&self) -> bool {
        self.least < self.most
    }

    /// Returns the lazy pages that start a drain beside `in_use` pages: they have memory until
    /// then.
    pub(super) fn lazy(&self, in_use: u64) -> u64 {
        if self.is_dear && self.follows() {
            (self.cached(in_use) / LAZY_OF_CACHED).min(self.lazy)
        } else {
            self.lazy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_CHEAP: Allowance =
        Allowance { lazy: 16_384, absent: 0, least: 2_048, most: 65_536, is_dear: false, beside: twelfth };
    const OF_DEAR: Allowance = Allowance { is_dear: true, beside: third, ..OF_CHEAP };

    #[test]
    fn what_may_wait_follows_what_is_in_use_between_two_bounds() {
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| OF_CHEAP.cached(in_use)), [2_048, 4_000, 65_536]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| OF_DEAR.cached(in_use)), [2_048, 16_000, 65_536]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| OF_CHEAP.lazy(in_use)), [16_384; 3]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| OF_DEAR.lazy(in_use)), [256, 2_000, 8_192]);
    }

    #[test]
    fn a_fixed_cache_leaves_the_threshold_as_it_is() {
        let fixed = Allowance { least: 65_536, ..OF_DEAR };
        assert_eq!((fixed.cached(1), fixed.lazy(1)), (65_536, 16_384));
        let none = Allowance { least: 0, most: 0, ..OF_DEAR };
        assert_eq!((none.cached(1 << 40), none.lazy(1 << 40)), (0, 16_384));
    }
}
