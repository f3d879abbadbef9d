//! The request for a sub-space, and the figures it reports.

use vmalloc::{PageRange, SpaceOptions};

/// The options of a sub-space.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SubspaceOptions {
    /// The options of its space. [`SpaceOptions::policy`] is its direction. Default: those of any
    /// space.
    pub space: SpaceOptions,
    /// The most bytes that may be mapped in it, cached ones included, rounded down to pages. Beyond
    /// it, an allocation ends as [`Unbacked`](vmalloc::Unbacked), with
    /// [`LIMIT_BYTES`](crate::LIMIT_BYTES). Default: no limit.
    pub limit_bytes: Option<usize>,
}

impl SubspaceOptions {
    /// Sets [`space`](Self::space).
    #[must_use]
    pub fn space(mut self, options: SpaceOptions) -> Self {
        self.space = options;
        self
    }

    /// Sets [`limit_bytes`](Self::limit_bytes).
    #[must_use]
    pub fn limit_bytes(mut self, bytes: usize) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }
}

/// A snapshot of a sub-space, as its root knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubspaceInfo {
    /// Its name.
    pub name: &'static str,
    /// Its pages.
    pub range: PageRange,
    /// The most bytes that may be mapped in it.
    pub limit_bytes: Option<usize>,
    /// Bytes mapped in it, or not flushed yet.
    pub used_bytes: usize,
    /// The stage of its life.
    pub state: SubspaceState,
}

/// The stage of a sub-space's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SubspaceState {
    /// The sub-space lives.
    Live,
    /// A thread is making the sub-space, or reclaiming its range.
    Changing,
    /// It was dropped, but the platform failed to unmap and flush its memory. The root asks the
    /// platform again when the next sub-space is made. Until that succeeds, neither these addresses
    /// nor the name are handed out. In a child of a fork, a sub-space that another thread was
    /// making or dropping lingers too.
    Lingering,
}
