//! The constants of a machine.

use crate::PageRange;

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
    /// log2 of the base pages in a huge page, if this machine has any. Default: none.
    pub huge_order: Option<u32>,
    /// True if the machine may put huge pages behind plain memory when that is first touched. Areas
    /// of two huge pages and more then begin at one, where there is such a place. Default: no.
    pub huge_at_touch: bool,
    /// True if pages that were not mapped before read as zero. Where clearing costs the platform
    /// what it costs the caller, as in a kernel, `false` leaves it to
    /// [`zero`](super::Platform::zero), and so to requests of zeros. Default: yes.
    pub maps_zeroed: bool,
    /// True if mapping over mapped pages replaces the old mapping on every CPU before the call
    /// returns. If so, a [tenant](crate::tenant) may map returned parts again without a flush.
    /// Default: no.
    pub remaps_atomically: bool,
    /// How much larger than a request, in percent of the request, a cached area may be that serves
    /// it. It is worth something where new memory costs much, as page faults do. Then the allocator
    /// also looks for cached areas of other nodes. Default: 0. See
    /// [`SpaceOptions::max_slack_percent`](crate::SpaceOptions::max_slack_percent).
    pub max_slack_percent: u8,
    /// The most used pages of a range that [`Raw::reset`](crate::Raw::reset) clears; of a range
    /// with more, the memory is given back. Default: 16.
    pub reset_zero_pages: u64,
    /// True if [`unmap_now`](super::Platform::unmap_now) works, which
    /// [`SpaceOptions::trap_on_free`](crate::SpaceOptions::trap_on_free) needs. Default: no.
    pub unmaps_now: bool,
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
            max_slack_percent: 0,
            unmaps_now: false,
            linear_map: None,
            reset_zero_pages: 16,
            huge_at_touch: false,
        }
    }

    /// Sets [`span`](Self::span).
    pub const fn span(mut self, span: PageRange) -> Self {
        self.span = span;
        self
    }

    /// Sets [`huge_order`](Self::huge_order).
    pub const fn huge_order(mut self, order: Option<u32>) -> Self {
        self.huge_order = order;
        self
    }

    /// Sets [`huge_at_touch`](Self::huge_at_touch).
    pub const fn huge_at_touch(mut self, at_touch: bool) -> Self {
        self.huge_at_touch = at_touch;
        self
    }

    /// Sets [`maps_zeroed`](Self::maps_zeroed).
    pub const fn maps_zeroed(mut self, zeroed: bool) -> Self {
        self.maps_zeroed = zeroed;
        self
    }

    /// Sets [`remaps_atomically`](Self::remaps_atomically).
    pub const fn remaps_atomically(mut self, atomically: bool) -> Self {
        self.remaps_atomically = atomically;
        self
    }

    /// Sets [`max_slack_percent`](Self::max_slack_percent).
    pub const fn max_slack_percent(mut self, percent: u8) -> Self {
        self.max_slack_percent = percent;
        self
    }

    /// Sets [`reset_zero_pages`](Self::reset_zero_pages).
    pub const fn reset_zero_pages(mut self, pages: u64) -> Self {
        self.reset_zero_pages = pages;
        self
    }

    /// Sets [`unmaps_now`](Self::unmaps_now).
    pub const fn unmaps_now(mut self, now: bool) -> Self {
        self.unmaps_now = now;
        self
    }

    /// Sets [`linear_map`](Self::linear_map).
    pub const fn linear_map(mut self, pages: Option<PageRange>) -> Self {
        self.linear_map = pages;
        self
    }

    /// Returns the size of a page in bytes.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }
}
