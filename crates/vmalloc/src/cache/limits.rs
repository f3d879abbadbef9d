//! How much of what was freed may wait, and in which form.

/// Pages that the pools may hold in any case: 4 MiB in pages of 4 KiB.
const LEAST_POOLED: u64 = 1024;

/// Bounds of what waits, in pages.
///
/// ```text
///   cached   least_cached ─── a twelfth of what is in use ───► cached      with memory
///            where memory is dear: a third of the most that was in use
///   lazy     ──────► lazy, and the drain runs                              memory to be unmapped
///   pooled   ──────► 3/2 of lazy, or 3/4 where memory is cached            addresses alone
/// ```
pub(crate) struct Limits {
    /// Lazy pages of memory that start a drain.
    pub(crate) lazy: u64,
    /// Lazy pages without memory that start one.
    pub(crate) absent: u64,
    /// Pages that may be cached however little is in use.
    pub(crate) least_cached: u64,
    /// Pages that may be cached.
    pub(crate) cached: u64,
    /// Pages of areas that are too large for a node, which may be cached as well.
    pub(crate) large: u64,
    /// True if new memory costs more than keeping some that may not be needed.
    pub(crate) is_dear: bool,
}

impl Limits {
    /// Returns the pages that all pools together hold at most after a purge, and as many again of
    /// small areas. What they hold spreads the areas in use. Where memory is cached that is so of
    /// the cache too, and the pools get half as much.
    ///
    /// | pools, in thresholds | unmapped: span, hits | cached: span, hits |
    /// |---|---|---|
    /// | 1/2 | | 1.38, 72 % |
    /// | 3/4 | | 1.42, 74 % |
    /// | 1 | 1.12, 65 % | 1.48, 76 % |
    /// | 3/2 | 1.20, 70 % | 1.62, 78 % |
    /// | 3 | 1.20, 70 % | 1.70, 80 % |
    ///
    /// (A kernel's trace with modules, containers and packet filters: span in multiples of Linux's
    /// own. `vmalloc replay` shows both figures.)
    pub(super) fn pooled(&self) -> u64 {
        let three_quarters = (self.lazy / 4).saturating_mul(3);
        let pooled = if self.cached == 0 { three_quarters.saturating_mul(2) } else { three_quarters };
        pooled.clamp(LEAST_POOLED, u64::MAX / 4)
    }
}
