//! The interface of every design, and its set-up.

use crate::designs;
use serde::Serialize;
use vmalloc::PageRange;

pub use vmalloc_kit::null::PAGE_SHIFT;

/// The set-up of a design: one for all that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The pages to hand out. Page 0 is not among them.
    pub span: PageRange,
    /// CPUs, and so nodes where a design has them: 1 to 128.
    pub cpus: usize,
    /// Lazy pages that start a purge.
    pub lazy_max_pages: u64,
}

impl Setup {
    /// 8 TiB, the CPUs of this machine, 128 at most, and Linux's threshold for that many:
    /// 32 MiB × fls(CPUs).
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::with_cpus(crate::cpu::count().clamp(1, 128))
    }

    /// 8 TiB, so many CPUs, and Linux's threshold for them.
    ///
    /// # Panics
    /// Unless there are 1 to 128 CPUs.
    #[must_use]
    pub fn with_cpus(cpus: usize) -> Self {
        assert!((1..=128).contains(&cpus), "{cpus} CPUs");
        let span = PageRange::from_len(1 << 31, 1 << 31).expect("the span is not empty");
        let fls = u64::from(usize::BITS - cpus.leading_zeros());
        Self { span, cpus, lazy_max_pages: (32 << 20 >> PAGE_SHIFT) * fls }
    }

    /// Sets the span.
    #[must_use]
    pub fn span(mut self, span: PageRange) -> Self {
        self.span = span;
        self
    }

    /// Sets the threshold.
    #[must_use]
    pub fn lazy_max(mut self, pages: u64) -> Self {
        self.lazy_max_pages = pages;
        self
    }
}

/// A request for addresses, in pages. A guard page counts as one of the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// How many.
    pub pages: u64,
    /// The first is a multiple of this power of two.
    pub align: u64,
    /// Where; the whole span if `None`.
    pub within: Option<PageRange>,
}

impl Ask {
    /// So many pages, anywhere.
    #[must_use]
    pub const fn new(pages: u64) -> Self {
        Self { pages, align: 1, within: None }
    }

    /// Asks for a start at a multiple of so many pages.
    #[must_use]
    pub const fn align(mut self, pages: u64) -> Self {
        self.align = pages;
        self
    }

    /// Asks for an area inside a range.
    #[must_use]
    pub const fn within(mut self, range: PageRange) -> Self {
        self.within = Some(range);
        self
    }

    /// Where to look in `span`.
    ///
    /// # Errors
    /// [`Refusal::Bad`] when there are no pages, the alignment is no power of two, or the range
    /// leaves the span.
    pub fn checked(&self, span: PageRange) -> Result<PageRange, Refusal> {
        let within = self.within.unwrap_or(span);
        let good = self.pages != 0 && self.align.is_power_of_two() && span.covers(&within);
        if good { Ok(within) } else { Err(Refusal::Bad) }
    }
}

/// Why a design refuses. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No free range takes the request, and nothing lazy or pooled is left to be given back.
    #[error("no free range takes it")]
    NoSpace,
    /// No busy area starts there.
    #[error("no busy area starts there")]
    NotAnArea,
    /// The request makes no sense.
    #[error("a request that makes no sense")]
    Bad,
}

/// The state of a range of pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not in use.
    Free,
    /// Handed out.
    Busy,
    /// Freed, and not reusable before a purge.
    Lazy,
    /// Freed, and kept for requests of its size.
    Pooled,
}

/// A range in one state. Neighbours may be in the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its pages.
    pub range: PageRange,
    /// Its state.
    pub state: State,
}

/// The counts of a design at one moment. Exact while no thread allocates or frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Areas handed out.
    pub busy_areas: u64,
    /// Their pages.
    pub busy_pages: u64,
    /// Pages freed and not purged.
    pub lazy_pages: u64,
    /// Pages kept for requests of their size.
    pub pooled_pages: u64,
    /// Pages in free ranges.
    pub free_pages: u64,
    /// Those of the largest.
    pub largest_free_pages: u64,
    /// Purges that found something.
    pub purges: u64,
    /// The most areas that were given back under one hold of a lock that allocations take.
    pub longest_hold_areas: u64,
    /// Requests that the search missed although a free range could take them (the quirk of 2019).
    pub missed_fits: u64,
    /// Areas, free ranges or nodes of a tree that searches for a place have looked at, if the design
    /// counts them.
    pub looked: u64,
    /// Bytes of metadata, as far as the design can tell.
    pub metadata_bytes: u64,
}

/// One design of an address allocator. `examples/own_design.rs` is a whole one, in 60 lines.
///
/// Every method may be called by many threads at once. The defaults are for a design that keeps
/// nothing lazy or pooled.
pub trait Design: Send + Sync {
    /// How tables name it.
    fn name(&self) -> &'static str;

    /// The pages that it hands out.
    fn span(&self) -> PageRange;

    /// Allocates; the first page. Where there is no room it purges, takes back what is pooled, and
    /// tries again.
    ///
    /// # Errors
    /// `Bad`, or `NoSpace`.
    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal>;

    /// Frees the area that starts at `start`, lazily. May purge when much is lazy.
    ///
    /// # Errors
    /// `NotAnArea`, also for the second of two frees, and perhaps for an area of a congruent group.
    fn free(&self, start: u64) -> Result<(), Refusal>;

    /// Areas of `sizes[i]` pages at `base + offsets[i]`, each a busy area of its own: as high as
    /// possible; the base, a multiple of `align`. All or none. Purges and tries again where there
    /// is no room.
    ///
    /// # Errors
    /// `Bad` when the lists are empty or differ in length, a size is 0, areas would overlap or not
    /// fit into the span; `NoSpace`.
    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal>;

    /// Frees what [`alloc_congruent`](Self::alloc_congruent) returned `base` for, with the same
    /// offsets and sizes.
    ///
    /// # Errors
    /// `NotAnArea` when one of the areas is not busy; `Bad` when the lists differ in length.
    fn free_congruent(&self, base: u64, offsets: &[u64], sizes: &[u64]) -> Result<(), Refusal>;

    /// Gives what is lazy back, to pools or free ranges, as the threshold makes a design do.
    fn purge(&self) {}

    /// Does what the design does when memory is short. Linux's nodes give their pools back, the
    /// designs before them nothing; ours gives back what is lazy, pooled or cached.
    fn relieve(&self) {}

    /// Gives everything back that is not busy: afterwards what is not busy is free, and free
    /// neighbours are merged.
    fn settle(&self) {}

    /// The counts. May take long and hold locks: not for timed passes. By default what the segments
    /// tell.
    fn counts(&self) -> Counts {
        designs::count(&self.segments())
    }

    /// Lazy pages now: cheap enough for every sample of a timeline.
    fn lazy_pages(&self) -> u64 {
        0
    }

    /// Pages in free ranges now, where a design keeps some areas for reuse and so can serve a
    /// request without them: cheap enough to be asked around each call. `None` where it keeps none.
    fn free_pages(&self) -> Option<u64> {
        None
    }

    /// All segments in address order, from the first page of the span to its last.
    fn segments(&self) -> Vec<Segment>;

    /// Checks every invariant, while no thread allocates or frees. By default that each page is in
    /// one segment.
    ///
    /// # Errors
    /// The first one found broken, in words.
    fn verify(&self) -> Result<(), String> {
        designs::verify_partition(self.span(), &self.segments())
    }
}
