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

/// Returns what may be cached beside `in_use` pages: an allocator that keeps a twelfth for later
/// spreads what is in use over no more than a twelfth of addresses more.
pub(crate) fn twelfth(in_use: u64) -> u64 {
    in_use / 12
}

/// Returns what may be cached where memory is dear. With a quarter, arrays that double take twice
/// as many new pages (`cargo xtask policy`).
pub(crate) fn third(in_use: u64) -> u64 {
    in_use / 3
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
        if self.is_dear && self.follows() { (self.cached(in_use) / 8).min(self.lazy) } else { self.lazy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Allowance =
        Allowance { lazy: 16_384, absent: 0, least: 2_048, most: 65_536, is_dear: false, beside: twelfth };
    const DEAR: Allowance = Allowance { is_dear: true, beside: third, ..CHEAP };

    #[test]
    fn what_may_wait_follows_what_is_in_use_between_two_bounds() {
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| CHEAP.cached(in_use)), [2_048, 4_000, 65_536]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| DEAR.cached(in_use)), [2_048, 16_000, 65_536]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| CHEAP.lazy(in_use)), [16_384; 3]);
        assert_eq!([0, 48_000, u64::MAX].map(|in_use| DEAR.lazy(in_use)), [256, 2_000, 8_192]);
    }

    #[test]
    fn a_fixed_cache_leaves_the_threshold_as_it_is() {
        let fixed = Allowance { least: 65_536, ..DEAR };
        assert_eq!((fixed.cached(1), fixed.lazy(1)), (65_536, 16_384));
        let none = Allowance { least: 0, most: 0, ..DEAR };
        assert_eq!((none.cached(1 << 40), none.lazy(1 << 40)), (0, 16_384));
    }
}
