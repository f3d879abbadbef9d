//! The state under the one global lock of the designs until 2019: areas that are allocated, freed,
//! and given back.

use super::stack::Stack;
use crate::design::{Ask, Refusal, Segment};
use vmalloc::PageRange;

/// Areas and free space, whichever way a generation keeps them. Callers hold the lock.
pub(super) trait Areas: Send {
    /// Names a lazy area.
    type Freed: Copy + Send;

    /// All of the span is free.
    fn new(span: PageRange) -> Self;

    /// Takes the lowest place that the design's search finds.
    fn take(&mut self, want: &Want) -> Option<u64>;

    /// Takes the highest places for a group; its base.
    fn take_congruent(&mut self, group: &Group<'_>) -> Option<u64>;

    /// The pages of the busy area that starts at a page.
    fn busy_at(&self, start: u64) -> Option<u64>;

    /// Makes a busy area lazy; its pages too.
    fn retire(&mut self, start: u64) -> Option<(Self::Freed, u64)>;

    /// Makes a lazy area free; its pages.
    fn give(&mut self, freed: Self::Freed) -> u64;

    /// Returns true if some free range has a place for a request: all are looked at.
    fn holds(&self, want: &Want) -> bool;

    /// Everything in address order.
    fn segments(&self, lazy: &Stack<Self::Freed>) -> Vec<Segment>;

    /// Returns how many areas, free ranges or nodes searches for a place have looked at.
    fn looked(&self) -> u64;

    /// Returns the bytes of all of it.
    fn bytes(&self) -> usize;

    /// Checks the invariants of the design.
    fn verify(&self) -> Result<(), String>;
}

/// A checked request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) pages: u64,
    pub(super) align: u64,
    pub(super) within: PageRange,
}

impl Want {
    pub(super) fn new(ask: &Ask, span: PageRange) -> Result<Self, Refusal> {
        Ok(Self { pages: ask.pages, align: ask.align, within: ask.checked(span)? })
    }

    /// The first multiple of the alignment at a page or above it that is inside the limits.
    #[inline]
    pub(super) fn first_in(&self, page: u64) -> Option<u64> {
        let page = page.max(self.within.start());
        Some(page.checked_add(self.align - 1)? & !(self.align - 1))
    }

    /// The lowest place in a free range.
    #[inline]
    pub(super) fn place(&self, free: PageRange) -> Option<PageRange> {
        let place = PageRange::from_len(self.first_in(free.start())?, self.pages)?;
        (place.end() <= free.end() && place.end() <= self.within.end()).then_some(place)
    }
}

/// A checked request for congruent areas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    offsets: &'a [u64],
    sizes: &'a [u64],
    align: u64,
    /// From the base to the last page's end.
    reach: u64,
}

impl<'a> Group<'a> {
    /// `Bad` when it makes no sense in `span`.
    pub(super) fn new(
        offsets: &'a [u64],
        sizes: &'a [u64],
        align: u64,
        span: PageRange,
    ) -> Result<Self, Refusal> {
        if offsets.len() != sizes.len() || !align.is_power_of_two() {
            return Err(Refusal::Bad);
        }
        let part = |(&offset, &pages)| PageRange::from_len(offset, pages).ok_or(Refusal::Bad);
        let mut parts = offsets.iter().zip(sizes).map(part).collect::<Result<Vec<_>, _>>()?;
        parts.sort_unstable_by_key(PageRange::start);
        let (Some(low), Some(high)) = (parts.first(), parts.last()) else { return Err(Refusal::Bad) };
        let overlap = parts.windows(2).any(|pair| pair[0].end() > pair[1].start());
        let reach = high.end();
        if overlap || reach - low.start() > span.len() {
            return Err(Refusal::Bad);
        }
        Ok(Self { offsets, sizes, align, reach })
    }

    /// The highest base from which all parts are free. `fit_down` says where the highest place for
    /// so many pages is that starts at a page or below it.
    ///
    /// A part that does not fit at a base tells the highest base that it leaves possible; then all
    /// are asked again.
    pub(super) fn highest_base(
        &self,
        span: PageRange,
        fit_down: impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut base = span.end().checked_sub(self.reach)? & !(self.align - 1);
        let (mut fitted, mut part) = (0, 0);
        while fitted < self.sizes.len() {
            let start = base + self.offsets[part];
            let place = fit_down(start, self.sizes[part])?;
            if place == start {
                fitted += 1;
                part = (part + 1) % self.sizes.len();
            } else {
                base = place.checked_sub(self.offsets[part])? & !(self.align - 1);
                fitted = 0;
            }
        }
        Some(base)
    }

    /// The areas from a base.
    pub(super) fn parts(&self, base: u64) -> impl Iterator<Item = PageRange> + use<'a> {
        let part = move |(&offset, &pages)| range(base + offset, base + offset + pages);
        self.offsets.iter().zip(self.sizes).map(part)
    }
}

/// A range that is known not to be empty.
#[inline]
pub(super) fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).expect("a range has pages")
}
