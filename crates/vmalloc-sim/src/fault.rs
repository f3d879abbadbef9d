//! What a machine would get wrong.

use crate::plan::Point;
use thiserror::Error;
use vmalloc::PageRange;

/// An access, a reuse or a call that real hardware would get wrong. Pages, frames and CPUs by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// An access to a page without translation: what a guard is for. Returned only, never recorded and no panic.
    #[error("cpu {cpu}: page {page:#x} is not mapped")]
    NotMapped {
        /// Who accessed it.
        cpu: usize,
        /// What was accessed.
        page: u64,
    },
    /// An access through a TLB entry that the page table no longer bears out. A write has reached the old frame.
    #[error("cpu {cpu}: access to page {page:#x} reached frame {frame}, and should have reached {now:?}")]
    StaleAccess {
        /// Who accessed it.
        cpu: usize,
        /// What was accessed.
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
    /// A page was handed out again before a flush of it has succeeded, whether or not a CPU remembers it.
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
        /// Who remembers it.
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
        /// Who still reaches it.
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
        /// Whose TLB leads there; none if the page table does.
        cpu: Option<usize>,
    },
    /// A flush of a page that was not unmapped before.
    #[error("page {page:#x} is flushed but was not unmapped")]
    NotUnmapped {
        /// The first such page of the range.
        page: u64,
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
        /// What was lent.
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
