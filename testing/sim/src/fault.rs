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
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// An access to a page without translation: what a guard is for. Returned only, never recorded
    /// and no panic.
    #[error("cpu {cpu}: page {page:#x} is not mapped")]
    NotMapped {
        /// The CPU that accessed it.
        cpu: usize,
        /// The page that was accessed.
        page: u64,
    },
    /// An access that the page's protection does not allow. Returned only, never recorded and no
    /// panic.
    #[error("cpu {cpu}: {access:?} of page {page:#x}, which is {protection:?}")]
    Denied {
        /// The CPU that accessed it.
        cpu: usize,
        /// The page that was accessed.
        page: u64,
        /// How.
        access: Access,
        /// The accesses that are allowed.
        protection: Protection,
    },
    /// An access through a TLB entry that allows more than the page table:
    /// [`Protect`](vmalloc::Protect) has not flushed.
    #[error("cpu {cpu}: page {page:#x} is {now:?}, but was accessed as {held:?}")]
    StaleProtection {
        /// The CPU that accessed it.
        cpu: usize,
        /// The page that was accessed.
        page: u64,
        /// The accesses that the TLB allows.
        held: Protection,
        /// The accesses that the page table allows.
        now: Protection,
    },
    /// An access to a frame that was given back since it was mapped there: it may have another
    /// owner now.
    #[error("cpu {cpu}: access to page {page:#x} reached frame {frame}, which was given back")]
    ReachedGiven {
        /// The CPU that accessed it.
        cpu: usize,
        /// The page that was accessed.
        page: u64,
        /// Where the access went.
        frame: u64,
    },
    /// An access by the linear map to a frame that is in the supply.
    #[error("cpu {cpu}: access to frame {frame}, which nobody has taken")]
    ReachedFree {
        /// The CPU that accessed it.
        cpu: usize,
        /// The frame.
        frame: u64,
    },
    /// An access through a TLB entry that the page table no longer bears out. A write has reached
    /// the old frame.
    #[error("cpu {cpu}: access to page {page:#x} reached frame {frame}, and should have reached {now:?}")]
    StaleAccess {
        /// The CPU that accessed it.
        cpu: usize,
        /// The page that was accessed.
        page: u64,
        /// Where the access went.
        frame: u64,
        /// Where the page table leads, if anywhere.
        now: Option<u64>,
    },
    /// A page was mapped that is mapped.
    #[error("page {page:#x} is mapped twice: to frame {frame} already")]
    DoubleMap {
        /// The page.
        page: u64,
        /// The frame that it leads to already.
        frame: u64,
    },
    /// A page was handed out again before a flush of it has succeeded, whether or not a CPU
    /// remembers it.
    #[error("page {page:#x} is reused before it was flushed")]
    ReusedBeforeFlush {
        /// The first such page of the range.
        page: u64,
    },
    /// A page was handed out again while a CPU remembers where it led before.
    #[error("page {page:#x} is reused while cpu {cpu} translates it to frame {frame}")]
    ReusedWhileHeld {
        /// The page.
        page: u64,
        /// The CPU whose TLB holds it.
        cpu: usize,
        /// Where it led.
        frame: u64,
    },
    /// A frame went back to the supply before a flush of its page has succeeded.
    #[error("frame {frame} is recycled before page {page:#x} was flushed")]
    RecycledBeforeFlush {
        /// The frame.
        frame: u64,
        /// Its page.
        page: u64,
    },
    /// A frame went back to the supply while a CPU still reaches it.
    #[error("too little was flushed: cpu {cpu} still translates page {page:#x} to frame {frame}")]
    FlushedTooLittle {
        /// The frame.
        frame: u64,
        /// Its page.
        page: u64,
        /// The CPU that still reaches it.
        cpu: usize,
    },
    /// A frame can be reached at two pages.
    #[error("frame {frame} of page {page:#x} is reached through page {other:#x}")]
    Aliased {
        /// The frame.
        frame: u64,
        /// The page that owns it.
        page: u64,
        /// The other one.
        other: u64,
        /// The CPU whose TLB leads there; none if the page table does.
        cpu: Option<usize>,
    },
    /// A flush of a page that was not unmapped before.
    #[error("page {page:#x} is flushed but was not unmapped")]
    NotUnmapped {
        /// The first such page of the range.
        page: u64,
    },
    /// A page was mapped to a frame while it led to another, on a machine that does not replace.
    #[error("page {page:#x} is mapped anew: to frame {frame} already")]
    MappedOver {
        /// The page.
        page: u64,
        /// The frame that it leads to.
        frame: u64,
    },
    /// A page was mapped to a frame that is no user's and no device's.
    #[error("page {page:#x} is mapped to frame {frame}, which was not taken")]
    MappedForeign {
        /// The page.
        page: u64,
        /// The frame.
        frame: u64,
    },
    /// A range and frames, or other pages, for it that are not as many.
    #[error("{frames} frames for {range:?}")]
    WrongCount {
        /// The range.
        range: PageRange,
        /// How many there were.
        frames: u64,
    },
    /// A run of no frames, or at multiples of what is not a power of two.
    #[error("a run of {count} frames aligned to {align}")]
    BadRun {
        /// How many frames.
        count: u64,
        /// The alignment.
        align: u64,
    },
    /// A page was discarded that `map_frames` did not map, or that was discarded already.
    #[error("page {page:#x} is discarded but leads to no frame of a user")]
    DiscardedUnmapped {
        /// The first such page of the range.
        page: u64,
    },
    /// A frame was given back that was not taken.
    #[error("frame {frame} is given back but was not taken")]
    GivenForeign {
        /// The frame.
        frame: u64,
    },
    /// A frame was given back while a page leads to it that was neither discarded nor unmapped.
    #[error("frame {frame} is given back while page {page:#x} leads to it")]
    GivenWhileMapped {
        /// The frame.
        frame: u64,
        /// The page.
        page: u64,
    },
    /// A page was to be relocated to which `map` has put nothing.
    #[error("page {page:#x} is to be relocated but has no frame of its own")]
    RelocatedUnmapped {
        /// The first such page of the range.
        page: u64,
    },
    /// The protection of a page that is not mapped was changed.
    #[error("page {page:#x} is to be protected but is not mapped")]
    ProtectedUnmapped {
        /// The first such page of the range.
        page: u64,
    },
    /// Zeros for a page that can't be written.
    #[error("page {page:#x} is to be zeroed but is {protection:?}")]
    ZeroedReadOnly {
        /// The page.
        page: u64,
        /// The origin of the frame.
        protection: Protection,
    },
    /// Zeros for a page that is not mapped.
    #[error("page {page:#x} is to be zeroed but is not mapped")]
    ZeroedUnmapped {
        /// The page.
        page: u64,
    },
    /// A call for pages that were never lent.
    #[error("{call:?}: {range:?} is not inside {span:?}")]
    OutsideSpan {
        /// The call.
        call: Point,
        /// Its range.
        range: PageRange,
        /// The span that was lent.
        span: PageRange,
    },
    /// A call whose ranges are not ascending and disjoint.
    #[error("{call:?}: {next:?} follows {range:?}")]
    NotAscending {
        /// The call.
        call: Point,
        /// A range.
        range: PageRange,
        /// The range behind it.
        next: PageRange,
    },
    /// A page is still mapped at the end.
    #[error("leak: page {page:#x} is still mapped, to frame {frame}")]
    LeakedPage {
        /// The page.
        page: u64,
        /// Its frame.
        frame: u64,
    },
    /// A frame has an owner at the end, which is not mapped.
    #[error("leak: frame {frame} of page {page:#x} was not recycled")]
    LeakedFrame {
        /// The frame.
        frame: u64,
        /// Its owner.
        page: u64,
    },
    /// Pages were unmapped and are not flushed at the end.
    #[error("leak: {range:?} was unmapped and not flushed")]
    LeftUnflushed {
        /// The pages.
        range: PageRange,
    },
}
