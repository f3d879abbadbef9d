//! The constants of a machine.

use crate::PageRange;

/// The cost of new memory, against keeping some that may not be needed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryCost {
    /// Little: a frame and an entry in a page table, as in a kernel. The cache follows what is in
    /// use now.
    #[default]
    Cheap,
    /// Much, as page faults do. The cache follows the most that was in use, and a request looks for
    /// memory of other nodes before it takes new memory.
    Dear,
}

/// The constants of a machine, which a [`Platform`](super::Platform) returns once.
///
/// ```
/// use vmalloc::{Geometry, PageRange};
///
/// let geometry = Geometry::new(PageRange::new(0x100, 0x8000).unwrap(), 12, 4)
///     .huge_order(Some(9))
///     .maps_zeroed(false);
/// assert_eq!(geometry.page_bytes(), 4096);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use]
pub struct Geometry {
    /// The pages that the allocator may hand out.
    ///
    /// Page 0 is not among them: an area there would be at address 0, which is the null pointer in
    /// C and "nothing" to most users of I/O addresses. The end, too, must be an address.
    /// [`Space::new`](crate::Space::new) refuses any other span.
    pub span: PageRange,
    /// log2 of the page size in bytes: at least 6 and at most 30.
    pub page_shift: u32,
    /// The most CPUs that there may be: at least one.
    pub cpus: usize,
    /// log2 of the base pages in a huge page, if this machine has any. Areas of two huge pages and
    /// more begin at one, where there is such a place: the machine may put huge pages behind plain
    /// memory by itself. Default: none.
    pub huge_order: Option<u32>,
    /// True if pages that were not mapped before read as zero. Where clearing costs the platform
    /// what it costs the caller, as in a kernel, `false` leaves it to
    /// [`zero`](super::Platform::zero), and so to requests of zeros. Default: yes.
    pub maps_zeroed: bool,
    /// True if mapping over mapped pages replaces the old mapping on every CPU before the call
    /// returns. If so, a [tenant](crate::tenant) may map returned parts again without a flush.
    /// Default: no.
    pub remaps_atomically: bool,
    /// The cost of new memory. Default: little. See
    /// [`SpaceOptions::memory_cost`](crate::SpaceOptions::memory_cost).
    pub memory_cost: MemoryCost,
    /// How much larger than a request, in percent of the request, a cached area may be that serves
    /// it. Default: 0. See
    /// [`SpaceOptions::max_slack_percent`](crate::SpaceOptions::max_slack_percent).
    pub max_slack_percent: u8,
    /// Where frame 0, 1, 2 … of the supply can be used at any time, readable and writable, outside
    /// the span. Default: nowhere.
    pub linear_map: Option<PageRange>,
}

impl Geometry {
    /// Returns the geometry of a machine with this span, this log2 of the page size in bytes and as
    /// many CPUs. All other powers are those of the simplest machine.
    pub const fn new(span: PageRange, page_shift: u32, cpus: usize) -> Self {
        Self {
            span,
            page_shift,
            cpus,
            huge_order: None,
            maps_zeroed: true,
            remaps_atomically: false,
            memory_cost: MemoryCost::Cheap,
            max_slack_percent: 0,
            linear_map: None,
        }
    }

    setters! {
        /// Sets [`span`](Self::span).
        span(span: PageRange) { span = span }

        /// Sets [`huge_order`](Self::huge_order).
        huge_order(order: Option<u32>) { huge_order = order }

        /// Sets [`maps_zeroed`](Self::maps_zeroed).
        maps_zeroed(zeroed: bool) { maps_zeroed = zeroed }

        /// Sets [`remaps_atomically`](Self::remaps_atomically).
        remaps_atomically(atomically: bool) { remaps_atomically = atomically }

        /// Sets [`memory_cost`](Self::memory_cost).
        memory_cost(cost: MemoryCost) { memory_cost = cost }

        /// Sets [`max_slack_percent`](Self::max_slack_percent).
        max_slack_percent(percent: u8) { max_slack_percent = percent }

        /// Sets [`linear_map`](Self::linear_map).
        linear_map(pages: Option<PageRange>) { linear_map = pages }
    }

    /// Returns the size of a page in bytes.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }
}
