//! What a machine would get wrong.

use crate::plan::Point;
use thiserror::Error;
use vmalloc::{PageRange, Protection};

/// A way to access a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes to it.
    Write,
    /// Executes what is there.
    Fetch,
}

impl Access {
    /// Returns whether `protection` allows it.
    pub(crate) fn is_allowed(self, protection: Protection) -> bool {
        match self {
            Self::Read => true,
            Self::Write => protection == Protection::ReadWrite,
            Self::Fetch => protection == Protection::ReadExecute,
        }
    }
}

/// An access, a reuse or a call that real hardware would get wrong. Pages, frames and CPUs by
/// number: of several pages the first that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a fault says what its fields are")]
pub enum Fault {
    /// An access to a page without translation: what a guard is for. Returned only, never recorded
    /// and no panic.
    #[error("cpu {cpu}: page {page:#x} is not mapped")]
    NotMapped { cpu: usize, page: u64 },
    /// An access that the page's protection does not allow. Returned only, never recorded and no
    /// panic.
    #[error("cpu {cpu}: {access:?} of page {page:#x}, which is {protection:?}")]
    Denied { cpu: usize, page: u64, access: Access, protection: Protection },
    /// An access through a TLB entry that allows more than the page table:
    /// [`Protect`](vmalloc::Protect) has not flushed.
    #[error("cpu {cpu}: page {page:#x} is {now:?}, but was accessed as {held:?}")]
    StaleProtection { cpu: usize, page: u64, held: Protection, now: Protection },
    /// An access to a frame that was given back since it was mapped there: it may have another
    /// owner now.
    #[error("cpu {cpu}: access to page {page:#x} reached frame {frame}, which was given back")]
    ReachedGiven { cpu: usize, page: u64, frame: u64 },
    /// An access by the linear map to a frame that is in the supply.
    #[error("cpu {cpu}: access to frame {frame}, which nobody has taken")]
    ReachedFree { cpu: usize, frame: u64 },
    /// An access through a TLB entry that the page table no longer bears out. A write has reached
    /// the old frame.
    #[error("cpu {cpu}: access to page {page:#x} reached frame {frame}, and should have reached {now:?}")]
    StaleAccess { cpu: usize, page: u64, frame: u64, now: Option<u64> },
    /// A page was mapped that is mapped.
    #[error("page {page:#x} is mapped twice: to frame {frame} already")]
    DoubleMap { page: u64, frame: u64 },
    /// A page was handed out again before a flush of it has succeeded, whether or not a CPU
    /// remembers it.
    #[error("page {page:#x} is reused before it was flushed")]
    ReusedBeforeFlush { page: u64 },
    /// A page was handed out again while a CPU remembers where it led before.
    #[error("page {page:#x} is reused while cpu {cpu} translates it to frame {frame}")]
    ReusedWhileHeld { page: u64, cpu: usize, frame: u64 },
    /// A frame went back to the supply before a flush of its page has succeeded.
    #[error("frame {frame} is recycled before page {page:#x} was flushed")]
    RecycledBeforeFlush { frame: u64, page: u64 },
    /// A frame went back to the supply while a CPU still reaches it.
    #[error("too little was flushed: cpu {cpu} still translates page {page:#x} to frame {frame}")]
    FlushedTooLittle { frame: u64, page: u64, cpu: usize },
    /// A frame can be reached at two pages: at the other by a CPU's TLB, or by the page table.
    #[error("frame {frame} of page {page:#x} is reached through page {other:#x}")]
    Aliased { frame: u64, page: u64, other: u64, cpu: Option<usize> },
    /// A flush of a page that was not unmapped before.
    #[error("page {page:#x} is flushed but was not unmapped")]
    NotUnmapped { page: u64 },
    /// A page was mapped to a frame while it led to another, on a machine that does not replace.
    #[error("page {page:#x} is mapped anew: to frame {frame} already")]
    MappedOver { page: u64, frame: u64 },
    /// A page was mapped to a frame that is no user's and no device's.
    #[error("page {page:#x} is mapped to frame {frame}, which was not taken")]
    MappedForeign { page: u64, frame: u64 },
    /// A range and frames, or other pages, for it that are not as many.
    #[error("{frames} frames for {range:?}")]
    WrongCount { range: PageRange, frames: u64 },
    /// A run of no frames, or at multiples of what is not a power of two.
    #[error("a run of {count} frames aligned to {align}")]
    BadRun { count: u64, align: u64 },
    /// A page was discarded that `map_frames` did not map, or that was discarded already.
    #[error("page {page:#x} is discarded but leads to no frame of a user")]
    DiscardedUnmapped { page: u64 },
    /// A frame was given back that was not taken.
    #[error("frame {frame} is given back but was not taken")]
    GivenForeign { frame: u64 },
    /// A frame was given back while a page leads to it that was neither discarded nor unmapped.
    #[error("frame {frame} is given back while page {page:#x} leads to it")]
    GivenWhileMapped { frame: u64, page: u64 },
    /// A page was to be relocated to which `map` has put nothing.
    #[error("page {page:#x} is to be relocated but has no frame of its own")]
    RelocatedUnmapped { page: u64 },
    /// The protection of a page that is not mapped was changed.
    #[error("page {page:#x} is to be protected but is not mapped")]
    ProtectedUnmapped { page: u64 },
    /// Zeros for a page that can't be written.
    #[error("page {page:#x} is to be zeroed but is {protection:?}")]
    ZeroedReadOnly { page: u64, protection: Protection },
    /// Zeros for a page that is not mapped.
    #[error("page {page:#x} is to be zeroed but is not mapped")]
    ZeroedUnmapped { page: u64 },
    /// A call for pages that were never lent.
    #[error("{call:?}: {range:?} is not inside {span:?}")]
    OutsideSpan { call: Point, range: PageRange, span: PageRange },
    /// A call whose ranges are not ascending and disjoint.
    #[error("{call:?}: {next:?} follows {range:?}")]
    NotAscending { call: Point, range: PageRange, next: PageRange },
    /// A page is still mapped at the end.
    #[error("leak: page {page:#x} is still mapped, to frame {frame}")]
    LeakedPage { page: u64, frame: u64 },
    /// A frame has an owner at the end, which is not mapped.
    #[error("leak: frame {frame} of page {page:#x} was not recycled")]
    LeakedFrame { frame: u64, page: u64 },
    /// Pages were unmapped and are not flushed at the end.
    #[error("leak: {range:?} was unmapped and not flushed")]
    LeftUnflushed { range: PageRange },
}
