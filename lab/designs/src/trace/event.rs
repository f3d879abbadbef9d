//! Events: one type for all formats, in pages.

use crate::design::PAGE_SHIFT;
use serde::Serialize;
use strum::{EnumDiscriminants, IntoStaticStr};
use vmalloc::PageRange;

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, by the clock of the trace, if it has one that counts time.
    pub time_ns: Option<u64>,
    /// On which CPU. Traces of programs name none: there every task counts as a CPU, in order of
    /// appearance.
    pub cpu: u32,
    /// The thread that did it.
    pub task: u32,
    /// The call or the report.
    pub kind: Kind,
}

/// A call or a report. All positions and lengths are in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumDiscriminants)]
#[strum_discriminants(name(KindName), derive(PartialOrd, Ord, Serialize, IntoStaticStr))]
#[strum_discriminants(serde(rename_all = "snake_case"), doc = "Names a kind of event, as it is told.")]
pub enum Kind {
    /// An area was allocated.
    #[strum_discriminants(strum(serialize = "allocations"))]
    Alloc {
        /// Its first page.
        start: u64,
        /// Its pages, guard page included.
        pages: u64,
        /// The alignment of the start.
        align: u64,
        /// Where it had to be; anywhere if `None`.
        within: Option<PageRange>,
    },
    /// An area, or a system call, was refused.
    #[strum_discriminants(strum(serialize = "refusals"))]
    Failed {
        /// The pages asked for; 0 where that was no allocation.
        pages: u64,
    },
    /// The area that starts there was freed, lazily.
    #[strum_discriminants(strum(serialize = "frees"))]
    Free {
        /// Its first page.
        start: u64,
    },
    /// Lazily freed areas were given back. Written after it was done: their pages may be in use
    /// again.
    #[strum_discriminants(strum(serialize = "purges"))]
    Purge {
        /// A range around all of them; `None` when there were none.
        hull: Option<PageRange>,
        /// How many.
        areas: u32,
    },
    /// A chunk of per-CPU areas was made. Its areas have no `Alloc`.
    #[strum_discriminants(strum(serialize = "per-CPU chunks made"))]
    ChunkMade {
        /// Its base.
        base: u64,
    },
    /// A chunk of per-CPU areas goes. Its areas are freed one by one next.
    #[strum_discriminants(strum(serialize = "per-CPU chunks gone"))]
    ChunkGone {
        /// Its base.
        base: u64,
    },
    /// A program mapped these pages; whatever was mapped there is gone.
    #[strum_discriminants(strum(serialize = "maps"))]
    Map {
        /// The first.
        start: u64,
        /// How many.
        pages: u64,
    },
    /// A program unmapped whatever was in these pages.
    #[strum_discriminants(strum(serialize = "unmaps"))]
    Unmap {
        /// The first.
        start: u64,
        /// How many.
        pages: u64,
    },
    /// A program moved, grew or shrank a mapping.
    #[strum_discriminants(strum(serialize = "remaps"))]
    Remap {
        /// Its first page.
        from: u64,
        /// Its pages.
        from_pages: u64,
        /// Its first page now.
        to: u64,
        /// Its pages now.
        to_pages: u64,
    },
    /// A program asked where its heap ends.
    #[strum_discriminants(strum(serialize = "questions for the heap"))]
    BreakIs {
        /// The page behind the last.
        end: u64,
    },
    /// A program moved the end of its heap.
    #[strum_discriminants(strum(serialize = "heaps moved"))]
    Break {
        /// The page behind the last.
        end: u64,
    },
    /// A program changed what may be done with pages.
    #[strum_discriminants(strum(serialize = "protections"))]
    Protect {
        /// The first.
        start: u64,
        /// How many.
        pages: u64,
    },
}

/// The page that starts at this address, if one does.
#[must_use]
pub fn page_of(addr: u64) -> Option<u64> {
    addr.is_multiple_of(1 << PAGE_SHIFT).then_some(addr >> PAGE_SHIFT)
}

/// Pages for so many bytes.
#[must_use]
pub fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(1 << PAGE_SHIFT)
}

/// Pages that can be told apart: none is at or behind this.
pub(super) const PAGES: u64 = 1 << (u64::BITS - PAGE_SHIFT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stay_small() {
        assert!(size_of::<Event>() <= 72, "{}", size_of::<Event>());
    }

    #[test]
    fn bytes_round_up_and_addresses_do_not() {
        assert_eq!((pages_of(0), pages_of(1), pages_of(4096), pages_of(u64::MAX)), (0, 1, 1, PAGES));
        assert_eq!((page_of(8192), page_of(8193)), (Some(2), None));
    }
}
