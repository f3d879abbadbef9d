//! The designs, and how they are chosen.

mod ours;

use crate::design::{Design, Setup};
pub use ours::Ours;
use serde::Serialize;

/// A design by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Ours as a kernel would use it: freed areas are unmapped, and wait for a flush.
    Vmalloc,
    /// Ours as programs use it: freed areas keep their memory for a while, and need no flush.
    VmallocRetained,
}

impl Name {
    /// All, oldest first.
    pub const ALL: [Self; 2] = [Self::Vmalloc, Self::VmallocRetained];

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vmalloc => "vmalloc",
            Self::VmallocRetained => "vmalloc-retained",
        }
    }

    /// One line about it.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Vmalloc => "this project's, addresses purged and flushed before reuse",
            Self::VmallocRetained => "this project's, freed areas kept for reuse as they are",
        }
    }

    /// An empty one.
    ///
    /// # Panics
    /// When memory for its metadata is short, or the set-up makes no sense.
    #[must_use]
    pub fn build(self, setup: &Setup) -> Box<dyn Design> {
        match self {
            Self::Vmalloc => Box::new(Ours::new(setup, ours::Reuse::AfterFlush)),
            Self::VmallocRetained => Box::new(Ours::new(setup, ours::Reuse::AsItIs)),
        }
    }
}
