//! The figures that a root reports of its sub-spaces.

use vmalloc::PageRange;

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
