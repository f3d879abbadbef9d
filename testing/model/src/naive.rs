//! The reference: a sorted list of segments, and a walk over all of it for every question.
//!
//! It shares no code with the allocator. In particular placement does not trust the allocator's
//! arithmetic: it steps through the candidate starts of each free range and asks [`Ask::is_met_by`]
//! of each.

use crate::ask::Ask;
use vmalloc_map::{FitError, NoArea, NoSpace, PageRange, Policy, RequestError};
use vmalloc_map::{ResizeError, Segment, State};

/// The area map, obviously.
///
/// The segments are ascending, cover the span without gap or overlap, and no two neighbours are
/// both free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NaiveMap {
    span: PageRange,
    segments: Vec<Segment>,
}

impl NaiveMap {
    /// Returns an empty map over `span`.
    pub fn new(span: PageRange) -> Self {
        Self { span, segments: vec![Segment { range: span, state: State::Free }] }
    }

    /// Returns the segments as they are.
    pub fn as_slice(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the range that a request gets, without taking it.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc).
    pub fn place(&self, ask: &Ask) -> Result<PageRange, FitError> {
        let within = ask.limits.unwrap_or(self.span);
        self.check_inside(within)?;
        let start_in = if ask.policy == Policy::Highest { highest_in } else { lowest_in };
        let fits = self.free_ranges().filter_map(|free| start_in(ask, free, within));
        let chosen = match ask.policy {
            Policy::Highest => fits.max_by_key(PageRange::start),
            Policy::Near { to } => self.nearest(ask, within, to),
            // Any legal place will do for a random request: the caller compares legality, not the
            // place.
            _ => fits.min_by_key(PageRange::start),
        };
        match chosen {
            Some(range) => Ok(range),
            None => Err(self.no_space(ask, within).into()),
        }
    }

    /// Returns the range whose start is nearest to `to`, the higher of two: of each free range the
    /// highest that starts below `to`, or the lowest that does not.
    fn nearest(&self, ask: &Ask, within: PageRange, to: u64) -> Option<PageRange> {
        let below = PageRange::new(within.start(), within.end().min(to.saturating_add(ask.pages - 1)));
        let above = PageRange::new(within.start().max(to), within.end());
        let highest = |free| highest_in(ask, free, below?);
        let lowest = |free| lowest_in(ask, free, above?);
        let fits = self.free_ranges().flat_map(|free| [lowest(free), highest(free)]).flatten();
        fits.min_by_key(|range| (range.start().abs_diff(to), range.start() < to))
    }

    /// Returns whether every page of `range` is free.
    pub fn is_free(&self, range: PageRange) -> bool {
        self.free_ranges().any(|free| free.covers(&range))
    }

    /// Returns all pages managed.
    pub fn span(&self) -> PageRange {
        self.span
    }

    /// Allocates a busy area placed as `ask` says.
    ///
    /// # Errors
    /// `Request` when the limits leave the span, `NoSpace` when nothing fits.
    pub fn alloc(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        let range = self.place(ask)?;
        self.alloc_at(range)?;
        Ok(range)
    }

    /// Allocates exactly these pages.
    ///
    /// # Errors
    /// `Request` when they leave the span, `Occupied` with the lowest area in the way.
    pub fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError> {
        self.check_inside(range)?;
        let in_the_way =
            |segment: &&Segment| segment.state != State::Free && segment.range.intersection(&range).is_some();
        if let Some(segment) = self.segments.iter().find(in_the_way) {
            return Err(FitError::Occupied { asked: range, by: segment.range });
        }
        let index = self.position(range.start()).expect("inside the span");
        self.cut(index, range);
        Ok(())
    }

    /// Brings an area from one state to another. What is free merges with free neighbours.
    ///
    /// # Errors
    /// Unless an area in the first state starts at `start`.
    pub fn turn(&mut self, start: u64, from: State, to: State) -> Result<PageRange, NoArea> {
        let index = self.at(start, from)?;
        self.segments[index].state = to;
        let range = self.segments[index].range;
        if to == State::Free {
            self.merge_with_next(index);
            if index > 0 {
                self.merge_with_next(index - 1);
            }
        }
        Ok(range)
    }

    /// Returns the segment that holds `page`; `None` outside the span.
    pub fn segment(&self, page: u64) -> Option<Segment> {
        self.position(page).map(|index| self.segments[index])
    }

    /// Returns the busy area that holds `page`.
    pub fn find(&self, page: u64) -> Option<PageRange> {
        self.segment(page).filter(|segment| segment.state == State::Busy).map(|segment| segment.range)
    }

    /// Returns all segments in address order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments.iter().copied()
    }

    /// Returns the largest free range, in pages.
    pub fn largest_free(&self) -> u64 {
        self.free_ranges().map(|free| free.len()).max().unwrap_or(0)
    }

    /// Returns how many pages are in free ranges.
    pub fn free_pages(&self) -> u64 {
        self.free_ranges().map(|free| free.len()).sum()
    }

    /// Returns whether nothing is allocated or retired.
    pub fn is_whole(&self) -> bool {
        self.segments.iter().all(|segment| segment.state == State::Free)
    }

    fn free_ranges(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.segments.iter().filter(|segment| segment.state == State::Free).map(|segment| segment.range)
    }

    fn no_space(&self, ask: &Ask, within: PageRange) -> NoSpace {
        NoSpace { size: ask.pages, align: ask.align, within, largest: self.largest_free(), unit: "pages" }
    }

    fn check_inside(&self, asked: PageRange) -> Result<(), RequestError> {
        if self.span.covers(&asked) {
            Ok(())
        } else {
            Err(RequestError::OutsideSpace { asked, space: self.span })
        }
    }

    fn position(&self, page: u64) -> Option<usize> {
        self.segments.iter().position(|segment| segment.range.contains(page))
    }

    /// Returns the segment in this state that starts at `page`.
    fn at(&self, page: u64, wanted: State) -> Result<usize, NoArea> {
        let index = self.position(page).ok_or(NoArea::Nothing { page })?;
        let Segment { range, state } = self.segments[index];
        match state {
            State::Free => Err(NoArea::Nothing { page }),
            _ if range.start() != page => Err(NoArea::Interior { page, start: range.start() }),
            found if found == wanted => Ok(index),
            State::Retired => Err(NoArea::Retired { page }),
            State::Busy => Err(NoArea::Busy { page }),
        }
    }

    fn busy_at(&self, page: u64) -> Result<usize, NoArea> {
        self.at(page, State::Busy)
    }

    fn merge_with_next(&mut self, index: usize) {
        let Some(&next) = self.segments.get(index + 1) else { return };
        let this = self.segments[index];
        if this.state != State::Free || next.state != State::Free {
            return;
        }
        let merged = PageRange::new(this.range.start(), next.range.end()).expect("both were not empty");
        self.segments[index].range = merged;
        self.segments.remove(index + 1);
    }

    /// Cuts the busy area that starts at `start` in two at page `at`. Returns the second.
    ///
    /// # Errors
    /// [`ResizeError`], and nothing is changed.
    pub fn split(&mut self, start: u64, at: u64) -> Result<PageRange, ResizeError> {
        let index = self.busy_at(start)?;
        let area = self.segments[index].range;
        let not_inside = ResizeError::NotInside { at, area };
        let left = PageRange::new(start, at).ok_or(not_inside)?;
        let right = PageRange::new(at, area.end()).ok_or(not_inside)?;
        self.segments[index].range = left;
        self.segments.insert(index + 1, Segment { range: right, state: State::Busy });
        Ok(right)
    }

    /// Frees these pages of a busy area.
    ///
    /// # Errors
    /// [`ResizeError`], and nothing is changed.
    pub fn free_part(&mut self, part: PageRange) -> Result<PageRange, ResizeError> {
        let Some(area) = self.find(part.start()) else {
            return Err(self.busy_at(part.start()).expect_err("no busy area").into());
        };
        if !area.covers(&part) {
            return Err(ResizeError::NotAPart { asked: part, area });
        }
        // What can't be cut off is not there.
        let _ = self.split(area.start(), part.start());
        let _ = self.split(part.start(), part.end());
        Ok(self.turn(part.start(), State::Busy, State::Free)?)
    }

    /// Grows the busy area that starts at `start` to so many pages.
    ///
    /// # Errors
    /// [`ResizeError`], and nothing is changed.
    pub fn grow(&mut self, start: u64, pages: u64) -> Result<PageRange, ResizeError> {
        let area = self.segments[self.busy_at(start)?].range;
        let grown = PageRange::from_len(start, pages).filter(|grown| grown.covers(&area));
        let grown = grown.ok_or(ResizeError::WrongSize { pages, area })?;
        if let Some(more) = PageRange::new(area.end(), grown.end()) {
            self.alloc_at(more)?;
            let index = self.busy_at(start)?;
            self.segments.remove(index + 1);
            self.segments[index].range = grown;
        }
        Ok(grown)
    }

    /// Shrinks the busy area that starts at `start` to so many pages.
    ///
    /// # Errors
    /// [`ResizeError`], and nothing is changed.
    pub fn shrink(&mut self, start: u64, pages: u64) -> Result<PageRange, ResizeError> {
        let area = self.segments[self.busy_at(start)?].range;
        let shrunk = PageRange::from_len(start, pages).filter(|shrunk| area.covers(shrunk));
        let shrunk = shrunk.ok_or(ResizeError::WrongSize { pages, area })?;
        if let Some(rest) = PageRange::new(shrunk.end(), area.end()) {
            self.free_part(rest)?;
        }
        Ok(shrunk)
    }

    /// Lets the span end at `end`. Returns the span.
    ///
    /// # Errors
    /// [`ResizeError`], and nothing is changed.
    pub fn extend(&mut self, end: u64) -> Result<PageRange, ResizeError> {
        if let Some(range) = PageRange::new(self.span.end(), end) {
            self.segments.push(Segment { range, state: State::Free });
            self.merge_with_next(self.segments.len() - 2);
            self.span = PageRange::new(self.span.start(), end).expect("larger than before");
        } else if end != self.span.end() {
            let reversed = RequestError::LimitsReversed { start: self.span.end(), end };
            return Err(ResizeError::Alloc(reversed.into()));
        }
        Ok(self.span)
    }

    fn cut(&mut self, index: usize, range: PageRange) {
        let free = self.segments[index].range;
        let part = |start, end, state| PageRange::new(start, end).map(|range| Segment { range, state });
        let parts = [
            part(free.start(), range.start(), State::Free),
            part(range.start(), range.end(), State::Busy),
            part(range.end(), free.end(), State::Free),
        ];
        self.segments.splice(index..=index, parts.into_iter().flatten());
    }
}

/// Returns the lowest range inside both `free` and `within` that meets `ask`.
fn lowest_in(ask: &Ask, free: PageRange, within: PageRange) -> Option<PageRange> {
    let room = free.intersection(&within)?;
    let range = PageRange::from_len(aligned_from(ask, room.start())?, ask.pages)?;
    (room.covers(&range) && ask.is_met_by(range)).then_some(range)
}

/// Returns the highest range inside both `free` and `within` that meets `ask`.
fn highest_in(ask: &Ask, free: PageRange, within: PageRange) -> Option<PageRange> {
    let room = free.intersection(&within)?;
    let start = aligned_to(ask, room.end().checked_sub(ask.pages)?);
    let range = PageRange::from_len(start, ask.pages)?;
    (room.covers(&range) && ask.is_met_by(range)).then_some(range)
}

/// Returns the highest multiple of the alignment up to `page`.
fn aligned_to(ask: &Ask, page: u64) -> u64 {
    page / ask.align * ask.align
}

/// Returns the lowest multiple of the alignment from `page` on.
fn aligned_from(ask: &Ask, page: u64) -> Option<u64> {
    page.checked_next_multiple_of(ask.align)
}
