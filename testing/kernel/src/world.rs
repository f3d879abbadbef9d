//! The spaces that the checks and cases work on, and the check that all frames are accounted for.

use crate::arch::SPAN;
use crate::machine::{Kernel, Space, new_space};
use crate::memory::PAGE;
use crate::walk;
use alloc::string::{String, ToString};
use core::fmt::Display;
use vmalloc::{AllocError, SpaceOptions};
use vmalloc_short::ShortMaps;

/// Why a check failed, in words.
pub(crate) struct Failure(pub(crate) String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The result of a check.
pub(crate) type Outcome = Result<(), Failure>;

/// Fails unless something is so.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::world::Failure(alloc::format!($($why)+)));
        }
    };
}
pub(crate) use ensure;

/// This kernel and its spaces.
pub(crate) struct World {
    pub(crate) kernel: &'static Kernel,
    /// Freed memory is unmapped by the next purge.
    pub(crate) space: &'static Space,
    /// Its short mappings.
    pub(crate) short: ShortMaps<&'static Space>,
    /// Freed memory is kept for reuse: as spaces are by default.
    pub(crate) caching: &'static Space,
    /// Frames free before there was a space.
    free_at_first: u64,
}

impl World {
    pub(crate) fn new(kernel: &'static Kernel) -> Self {
        let free_at_first = kernel.supply.free() + walk::tables();
        let options = SpaceOptions::default();
        let space = new_space(kernel, 0, SPAN, options.unmap_on_free());
        Self {
            kernel,
            space,
            short: ShortMaps::of(space).expect("memory for their records"),
            caching: new_space(kernel, 1, SPAN, options),
            free_at_first,
        }
    }

    pub(crate) fn spaces(&self) -> [&'static Space; 2] {
        [self.space, self.caching]
    }

    pub(crate) fn cpus(&self) -> usize {
        self.kernel.cpus.len()
    }

    /// Frames that are neither free nor tables.
    pub(crate) fn missing(&self) -> u64 {
        self.free_at_first - self.kernel.supply.free() - walk::tables()
    }

    /// Checks that all addresses and all frames are free again, but for page tables, which stay.
    pub(crate) fn check_whole(&self) -> Outcome {
        for space in self.spaces() {
            space.purge()?;
            space.verify()?;
            let stats = space.stats();
            ensure!(stats.free_pages == stats.span_pages, "not all addresses are free: {stats:?}");
        }
        ensure!(self.missing() == 0, "{} frames are missing", self.missing());
        Ok(())
    }
}

/// Memory of whole pages, which the caller frees.
pub(crate) fn pages(space: &Space, count: usize) -> Result<usize, AllocError> {
    space.raw().alloc(&vmalloc::Request::new(count * PAGE))
}

/// Frees what `pages` and its like gave.
pub(crate) fn free(space: &Space, addr: usize) -> Outcome {
    // SAFETY: the caller owns the area, and uses it no more; checks that touch it
    // afterwards expect a fault.
    Ok(unsafe { space.raw().free(addr) }?)
}

/// A word that differs from page to page and from key to key.
pub(crate) fn stamp(addr: usize, key: u64) -> u64 {
    (addr as u64 ^ key << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
