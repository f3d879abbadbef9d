//! The settings of a space.

use crate::request::Policy;

/// Settings of a space.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Put an unmapped guard page behind every area. Default: yes.
    pub guard: bool,
    /// Keep the pages of freed areas for reuse, up to this many bytes in all: fast, but a use after free is not
    /// trapped while the area is kept. 0 = unmap on free: it traps as soon as the purge has run. Default: 64 MiB.
    pub retain_bytes: usize,
    /// Lazy pages that start a purge. 0 = 32 MiB for each bit of the number of CPUs, as in Linux. Default: 0.
    pub lazy_max_pages: u64,
    /// Where areas are placed. Default: lowest first.
    pub policy: Policy,
}

impl Default for Config {
    fn default() -> Self {
        Self { guard: true, retain_bytes: 64 << 20, lazy_max_pages: 0, policy: Policy::Lowest }
    }
}

impl Config {
    /// The same without retention: what is freed is unmapped at the next purge.
    #[must_use]
    pub fn unmap_on_free(mut self) -> Self {
        self.retain_bytes = 0;
        self
    }

    /// The same with another budget for retained areas, in bytes.
    #[must_use]
    pub fn retain(mut self, bytes: usize) -> Self {
        self.retain_bytes = bytes;
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

    /// The same without guard pages, unless a request asks for one.
    #[must_use]
    pub fn without_guards(mut self) -> Self {
        self.guard = false;
        self
    }
}
