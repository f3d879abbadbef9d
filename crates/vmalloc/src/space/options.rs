//! The options of a space.

use crate::Policy;
use crate::SpaceError;
use crate::platform::{Geometry, MemoryCost};
use crate::wait::policy::{ABSENT, CACHED, LAZY, LEAST_CHEAP, LEAST_DEAR};
use crate::wait::{Allowance, third, twelfth};

/// The most nodes that a space can have: where Linux stops (2024).
pub const MAX_NODES: usize = 128;

/// Options of a space. Each field has a builder of the same name.
///
/// ```
/// use vmalloc::SpaceOptions;
///
/// let options = SpaceOptions::default().cache_bytes(16 << 20).guard(false);
/// assert_eq!(options.cache_bytes, Some(16 << 20));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[must_use]
pub struct SpaceOptions {
    /// Put an unmapped guard page behind every area. Without guards a request can't ask for one.
    /// Default: yes.
    pub guard: bool,
    /// Cache the pages of freed areas for reuse, up to this many bytes of memory. More than the
    /// machine has is allowed. That is fast, but a use after free is not trapped while the area is
    /// cached. 0 = unmap on free: it traps as soon as the purge has run. Default: 256 MiB or, from
    /// four CPUs on, 64 MiB for each, of which as much is used as goes with what is in use: see
    /// [`cached_beside`](Self::cached_beside).
    pub cache_bytes: Option<usize>,
    /// The policy: how many pages may be cached beside so many pages in use, up to
    /// [`cache_bytes`](Self::cache_bytes). Where [memory is dear](Self::memory_cost), it follows
    /// the most that was in use: beyond that and what is allowed beside it, new areas make cached
    /// ones go, and an eighth as many lazy pages start a drain.
    ///
    /// The space asks often, from any thread, and while it holds locks: the function only computes.
    /// If it calls the space it waits for ever, and if it panics an area is lost. Default: all of
    /// `cache_bytes` where that is set. Else a twelfth, but no less than 32 MiB or, from four CPUs
    /// on, 8 MiB for each. Where memory is dear: a third, but no less than a quarter of that.
    pub cached_beside: Option<fn(u64) -> u64>,
    /// Unmap and flush each area before its free returns, so that a stale access traps at once: the
    /// dearest way, for finding mistakes and for hardening. The space caches nothing then. A
    /// platform that can put the memory of a freed area behind other addresses may keep up to
    /// [`cache_bytes`](Self::cache_bytes) of it for new ones.
    /// [`Raw::free_atomic`](crate::Raw::free_atomic) and [tenants](crate::tenant) stay lazy. So
    /// does an area that the platform refuses to unmap ([`Stats::late_frees`](crate::Stats)). Each
    /// free is a purge where the platform has no
    /// [cheaper way](crate::platform::Extras::unmap_now). Default: no.
    pub trap_on_free: bool,
    /// Fill freed memory with zeros, so that what it held can be read neither by its next owner nor
    /// through a stale pointer. An area of more than 256 pages is unmapped instead: a
    /// program often touches little of one, and clearing would take memory for the rest. Of shared
    /// memory and code the system takes the pages back in any case.
    /// [`Raw::free_atomic`](crate::Raw::free_atomic) does not do it. Default: no.
    pub zero_on_free: bool,
    /// The cost of new memory: whether the cache follows what is in use now, or the most that was.
    /// Where it is [dear](MemoryCost::Dear), more waits for reuse. Default: what the
    /// [platform](crate::Geometry::memory_cost) says.
    pub memory_cost: Option<MemoryCost>,
    /// How much larger than a request, in percent, a cached area may be that serves it once most of
    /// the cache is in use. The guard page lies behind the area, and so up to that much behind the
    /// bytes asked for. 0 = only areas of the exact size, or parts of larger ones. Default: what
    /// the [platform](crate::Geometry::max_slack_percent) advises.
    pub max_slack_percent: Option<u8>,
    /// Lazy pages of memory that start a drain, at most. 0 = 32 MiB for each bit of the number of
    /// CPUs, as in Linux. With more than the span has, only an allocation in need starts one. Pages
    /// without memory start a drain when they are an eighth of the span. Default: 0.
    pub lazy_max_pages: u64,
    /// Nodes, 1 to [`MAX_NODES`]: CPUs that share none never wait for each other. 0 = one for each
    /// CPU, as far as that goes. Default: 0.
    pub nodes: usize,
    /// Where areas are placed. Default: lowest first. What waits is reused where it is, so a
    /// random place is drawn for new addresses alone.
    pub policy: Policy,
}

impl Default for SpaceOptions {
    fn default() -> Self {
        Self {
            guard: true,
            cache_bytes: None,
            cached_beside: None,
            trap_on_free: false,
            zero_on_free: false,
            memory_cost: None,
            max_slack_percent: None,
            lazy_max_pages: 0,
            nodes: 0,
            policy: Policy::Lowest,
        }
    }
}

impl SpaceOptions {
    setters! {
        /// Sets [`guard`](Self::guard).
        guard(guard: bool) { guard = guard }

        /// Sets [`cache_bytes`](Self::cache_bytes).
        cache_bytes(bytes: usize) { cache_bytes = Some(bytes) }

        /// Sets [`cached_beside`](Self::cached_beside).
        cached_beside(policy: fn(u64) -> u64) { cached_beside = Some(policy) }

        /// Sets [`trap_on_free`](Self::trap_on_free).
        trap_on_free(trap: bool) { trap_on_free = trap }

        /// Sets [`zero_on_free`](Self::zero_on_free).
        zero_on_free(zero: bool) { zero_on_free = zero }

        /// Sets [`memory_cost`](Self::memory_cost).
        memory_cost(cost: MemoryCost) { memory_cost = Some(cost) }

        /// Sets [`max_slack_percent`](Self::max_slack_percent).
        max_slack_percent(percent: u8) { max_slack_percent = Some(percent) }

        /// Sets [`lazy_max_pages`](Self::lazy_max_pages).
        lazy_max_pages(pages: u64) { lazy_max_pages = pages }

        /// Sets [`nodes`](Self::nodes).
        nodes(count: usize) { nodes = count }

        /// Sets [`policy`](Self::policy).
        policy(policy: Policy) { policy = policy }
    }

    /// Unmaps freed areas at the next purge: `cache_bytes(0)`. Beyond what is in use the space
    /// holds at most twice the [lazy pages](Self::lazy_max_pages) that start a drain, and nothing
    /// after a drain.
    pub const fn unmap_on_free(self) -> Self {
        self.cache_bytes(0)
    }

    /// Returns how much may wait on a machine, of what was freed. Defaults for the cache and for
    /// the cost of memory become settings.
    pub(super) fn allowance(&mut self, geometry: &Geometry) -> Allowance {
        let pages = |bytes: usize| (bytes >> geometry.page_shift) as u64;
        if self.trap_on_free {
            self.cache_bytes = Some(0);
        }
        let is_dear = *self.memory_cost.get_or_insert(geometry.memory_cost) == MemoryCost::Dear;
        let cpus = geometry.cpus.clamp(4, MAX_NODES);
        let of_cpus = cpus * if is_dear { LEAST_DEAR } else { LEAST_CHEAP };
        let least = if self.cached_beside.is_some() { 0 } else { self.cache_bytes.unwrap_or(of_cpus) };
        let most = pages(*self.cache_bytes.get_or_insert(cpus * CACHED));
        let least = pages(least).min(most);
        let lazy = match self.lazy_max_pages {
            0 => pages(LAZY) * bits(geometry.cpus),
            pages => pages,
        };
        let beside = self.cached_beside.unwrap_or(if is_dear { third } else { twelfth });
        Allowance { lazy, absent: geometry.span.len() / ABSENT, least, most, is_dear, beside }
    }

    /// Returns how many nodes there are on a machine with `cpus` CPUs.
    pub(super) fn node_count(&self, cpus: usize) -> Result<usize, SpaceError> {
        match self.nodes {
            0 => Ok(cpus.clamp(1, MAX_NODES)),
            1..=MAX_NODES => Ok(self.nodes),
            nodes => Err(SpaceError::TooManyNodes { nodes }),
        }
    }
}

/// Returns the position of the highest bit of `value`, counted from one.
fn bits(value: usize) -> u64 {
    u64::from(usize::BITS - value.leading_zeros())
}
