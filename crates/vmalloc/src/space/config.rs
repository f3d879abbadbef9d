//! The settings of a space.

use crate::block::{BlockPolicy, MAX_SLOTS, MOST_PAGES};
use crate::error::SpaceError;
use crate::request::Policy;

/// The most nodes that a space can have: what Linux stops at (2024).
pub const MAX_NODES: usize = 128;

/// Settings of a space.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Put an unmapped guard page behind every area. Default: yes.
    pub guard: bool,
    /// Keep the pages of freed areas for reuse, up to this many bytes in all: fast, but a use after free is not
    /// trapped while the area is kept. 0 = unmap on free: it traps as soon as the purge has run. Default: 64 MiB.
    pub cache_bytes: usize,
    /// Once most of the budget is in use, a cached area is also reused for up to 1/n fewer pages than it has: what a
    /// size has not kept, the next ones have. The guard page lies behind the area, and so up to that much behind what
    /// was asked for. 0 = only areas of the exact size. Default: what the [platform](crate::Platform::oversize) advises.
    pub oversize: Option<u64>,
    /// Lazy pages that start a drain. 0 = 32 MiB for each bit of the number of CPUs, as in Linux. With more than the span
    /// has, only need starts one. Default: 0.
    pub lazy_max_pages: u64,
    /// Nodes, 1 to [`MAX_NODES`]: CPUs that share none never wait for each other. 0 = one for each CPU, as far as that goes.
    /// Default: 0.
    pub nodes: usize,
    /// Pages of a zone, a power of two: the annotations of neighbouring zones lie in different tables. Default: 16, as in Linux.
    pub zone_pages: u64,
    /// Where areas are placed. Default: lowest first.
    pub policy: Policy,
    /// Slots of a block, a power of two from 64 to 1024. 0 = 1024, and fewer where the span is small. Default: 0.
    pub block_slots: u64,
    /// What becomes of returned slots. Default: they are handed out again.
    pub blocks: BlockPolicy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            guard: true,
            cache_bytes: 64 << 20,
            oversize: None,
            lazy_max_pages: 0,
            nodes: 0,
            zone_pages: 16,
            policy: Policy::Lowest,
            block_slots: 0,
            blocks: BlockPolicy::Recycle,
        }
    }
}

impl Config {
    /// The same without caching: what is freed is unmapped at the next purge.
    #[must_use]
    pub fn unmap_on_free(mut self) -> Self {
        self.cache_bytes = 0;
        self
    }

    /// The same with another budget for cached areas, in bytes.
    #[must_use]
    pub fn retain(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// The same with guard pages right behind what was asked for, in pages: an area is never larger.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.oversize = Some(0);
        self
    }

    /// The same with another threshold of lazy pages.
    #[must_use]
    pub fn lazy_max(mut self, pages: u64) -> Self {
        self.lazy_max_pages = pages;
        self
    }

    /// The same with another placement.
    #[must_use]
    pub fn place(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Leaves the guard pages out. A request can't ask for one then.
    #[must_use]
    pub fn without_guards(mut self) -> Self {
        self.guard = false;
        self
    }

    /// The same with another number of nodes.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// The same with zones of another size.
    #[must_use]
    pub fn zone(mut self, pages: u64) -> Self {
        self.zone_pages = pages;
        self
    }

    /// The same with blocks of another size and policy.
    #[must_use]
    pub fn blocks(mut self, slots: u64, policy: BlockPolicy) -> Self {
        (self.block_slots, self.blocks) = (slots, policy);
        self
    }

    pub(super) fn checked_slots(&self) -> Result<u64, SpaceError> {
        let slots = self.block_slots;
        if slots == 0 || slots.is_power_of_two() && (MOST_PAGES..=MAX_SLOTS as u64).contains(&slots) {
            return Ok(slots);
        }
        Err(SpaceError::BadBlock { slots })
    }

    /// How many nodes there are on a machine with `cpus` CPUs.
    pub(super) fn node_count(&self, cpus: usize) -> Result<usize, SpaceError> {
        match self.nodes {
            0 => Ok(cpus.clamp(1, MAX_NODES)),
            1..=MAX_NODES => Ok(self.nodes),
            nodes => Err(SpaceError::TooManyNodes { nodes }),
        }
    }

    pub(super) fn checked_zone(&self) -> Result<u64, SpaceError> {
        if self.zone_pages.is_power_of_two() {
            return Ok(self.zone_pages);
        }
        Err(SpaceError::ZoneNotPowerOfTwo { pages: self.zone_pages })
    }
}
