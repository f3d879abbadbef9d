//! One program on two maps: every step, every answer, every figure compared.

use crate::ask::Ask;
use crate::congruent::highest_base;
use crate::map::Map;
use crate::mismatch::{Mismatch, Outcome};
use crate::naive::NaiveMap;
use crate::op::{Op, Place, Resize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vmalloc_map::{AreaMap, FitError, PageRange, Policy};
use vmalloc_map::{ResizeError, Segment, State};
use vmalloc_percpu::{CongruentError, alloc_in_map};

/// How much an implementation promises of placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// The very place that the policy names (and any legal one for a random request).
    #[default]
    Exact,
    /// A legal place whenever there is one.
    Complete,
    /// A legal place, or a refusal even where one is left.
    Sound,
}

/// The ability of an implementation to run out of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetadataLimit {
    /// Never.
    #[default]
    None,
    /// [`FitError::Metadata`] is a fair answer to a claim that is not wrong in itself, and
    /// changes nothing.
    MayRunOut,
}

/// How strictly to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Of placement.
    pub placement: Placement,
    /// Of metadata.
    pub metadata: MetadataLimit,
    /// With fewer segments than this all of them are compared after every step…
    pub walk_below: usize,
    /// …and with more, every so many steps.
    pub walk_every: usize,
    /// Bytes of metadata that may stay behind, however little happened…
    pub slack_bytes: usize,
    /// …and for each segment there was at the peak.
    pub slack_per_segment: usize,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            placement: Placement::Exact,
            metadata: MetadataLimit::None,
            walk_below: 200,
            walk_every: 64,
            // Records come in pieces: one of 16 KiB for leaves here and there each, and what the
            // tree takes in advance.
            slack_bytes: 48 << 10,
            slack_per_segment: 1 << 10,
        }
    }
}

/// The counts of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Steps taken.
    pub steps: usize,
    /// Claims that were granted.
    pub granted: usize,
    /// Claims refused for want of space.
    pub no_space: usize,
    /// Claims refused for want of metadata.
    pub no_metadata: usize,
    /// Other calls refused.
    pub refused: usize,
    /// The most segments at one time.
    pub peak_segments: usize,
}

/// A map under test and the model beside it.
#[derive(Debug)]
pub struct Session<M> {
    map: M,
    model: NaiveMap,
    checks: Checks,
    tally: Tally,
    metadata_at_start: usize,
}

impl<M: Map> Session<M> {
    /// Begins with `map`, which is empty.
    pub fn new(map: M, checks: Checks) -> Self {
        let model = NaiveMap::new(map.span());
        let metadata_at_start = map.metadata_bytes();
        Self { map, model, checks, tally: Tally::default(), metadata_at_start }
    }

    /// Returns how many areas are in use, for [`Generator::next`](crate::Generator::next).
    pub fn live(&self) -> usize {
        self.model.as_slice().iter().filter(|segment| segment.state != State::Free).count()
    }

    /// Returns the state that the map should be in.
    pub const fn model(&self) -> &NaiveMap {
        &self.model
    }

    /// Runs `op` on both and compares. After an error the session is of no further use.
    ///
    /// # Errors
    /// The first difference seen; a panic of the map is one.
    pub fn step(&mut self, op: &Op) -> Result<(), Mismatch> {
        catching(|| {
            self.tally.steps += 1;
            let page = self.run(op)?;
            self.tally.peak_segments = self.tally.peak_segments.max(self.model.as_slice().len());
            self.compare(page)
        })
    }

    /// Frees everything, checks that the space is whole and that metadata came back.
    ///
    /// # Errors
    /// The first difference seen.
    pub fn finish(mut self) -> Result<(M, Tally), Mismatch> {
        catching(|| self.free_everything())?;
        Ok((self.map, self.tally))
    }

    /// Runs `op`; the page to look at afterwards.
    fn run(&mut self, op: &Op) -> Result<u64, Mismatch> {
        match *op {
            Op::Alloc(ask) => self.alloc(&ask),
            Op::AllocAt { at, pages } => self.alloc_at(at, pages),
            Op::Free(place) => self.change(place, M::free, NaiveMap::free),
            Op::Retire(place) => self.change(place, M::retire, NaiveMap::retire),
            Op::Revive(place) => self.change(place, M::revive, NaiveMap::revive),
            Op::Release(place) => self.change(place, M::release, NaiveMap::release),
            Op::Find(place) => Ok(place.page(&self.model)),
            Op::Split(..) | Op::FreePart(..) | Op::Grow(..) | Op::Shrink(..) | Op::Extend(_) => {
                let Some((page, change)) = self.resizing(op) else { return Ok(self.model.span().start()) };
                self.resize(page, change)
            }
        }
    }

    /// Returns the change that `op` means now, and the page at which it happens.
    fn resizing(&self, op: &Op) -> Option<(u64, Resize)> {
        let page = |place: Place| place.page(&self.model);
        Some(match *op {
            Op::Split(start, by) => {
                let start = page(start);
                (start, Resize::Split { start, at: start.saturating_add(by) })
            }
            Op::FreePart(at, pages) => {
                let part = PageRange::new(page(at), page(at).saturating_add(pages))?;
                (part.start(), Resize::FreePart(part))
            }
            Op::Grow(start, more) => {
                let start = page(start);
                let len = self.model.find(start).map_or(1, |area| area.len());
                (start, Resize::Grow { start, pages: len.saturating_add(more) })
            }
            Op::Shrink(start, pages) => (page(start), Resize::Shrink { start: page(start), pages }),
            Op::Extend(more) => {
                let end = self.model.span().end();
                (end - 1, Resize::Extend { end: end.saturating_add(more) })
            }
            _ => return None,
        })
    }

    fn resize(&mut self, page: u64, change: Resize) -> Result<u64, Mismatch> {
        let got = self.map.resize(change);
        self.tally.refused += usize::from(got.is_err());
        if let Err(ResizeError::Alloc(error)) = got
            && self.out_of_metadata(Some(error))
        {
            return Ok(page);
        }
        let want = self.model.resize(change);
        expect(Outcome::Resize(got), Outcome::Resize(want), false).map(|()| page)
    }

    fn alloc(&mut self, ask: &Ask) -> Result<u64, Mismatch> {
        let want = self.model.place(ask);
        let got = self.map.alloc(ask);
        self.count_claim(got.err());
        let Ok(range) = got else {
            let excused = match want {
                Ok(_) => self.checks.placement == Placement::Sound || self.out_of_metadata(got.err()),
                Err(refusal) => self.is_excused(got.err(), refusal),
            };
            return expect(Outcome::Alloc(got), Outcome::Alloc(want), excused)
                .map(|()| self.model.span().start());
        };
        if !ask.is_met_by(range) || !self.model.is_free(range) {
            return Err(Mismatch::Illegal { ask: *ask, got: range });
        }
        let any_place =
            self.checks.placement != Placement::Exact || matches!(ask.policy, Policy::Random { .. });
        expect(Outcome::Alloc(got), Outcome::Alloc(want), any_place && want.is_ok())?;
        self.model.alloc_at(range).expect("the range was free");
        Ok(range.start())
    }

    fn alloc_at(&mut self, at: Place, pages: u64) -> Result<u64, Mismatch> {
        let start = at.page(&self.model);
        let end = start.saturating_add(pages);
        let Some(range) = PageRange::new(start, end) else { return Ok(start) };
        let got = self.map.alloc_at(range);
        self.count_claim(got.err());
        if self.out_of_metadata(got.err()) && self.model.span().covers(&range) {
            return Ok(start);
        }
        let want = self.model.alloc_at(range);
        expect(Outcome::AllocAt(got), Outcome::AllocAt(want), false).map(|()| start)
    }

    fn change(
        &mut self,
        place: Place,
        on_map: fn(&mut M, u64) -> Result<PageRange, vmalloc_map::NoArea>,
        on_model: fn(&mut NaiveMap, u64) -> Result<PageRange, vmalloc_map::NoArea>,
    ) -> Result<u64, Mismatch> {
        let page = place.page(&self.model);
        let got = on_map(&mut self.map, page);
        let want = on_model(&mut self.model, page);
        self.tally.refused += usize::from(got.is_err());
        expect(Outcome::Change(got), Outcome::Change(want), false).map(|()| page)
    }

    /// Returns whether `got` is a fair answer where the model's is `refusal`, though another one.
    fn is_excused(&self, got: Option<FitError>, refusal: FitError) -> bool {
        self.out_of_metadata(got) && matches!(refusal, FitError::NoSpace(_))
    }

    fn out_of_metadata(&self, got: Option<FitError>) -> bool {
        got == Some(FitError::Metadata) && self.checks.metadata == MetadataLimit::MayRunOut
    }

    const fn count_claim(&mut self, error: Option<FitError>) {
        match error {
            None => self.tally.granted += 1,
            Some(FitError::NoSpace(_)) => self.tally.no_space += 1,
            Some(FitError::Metadata) => self.tally.no_metadata += 1,
            Some(_) => self.tally.refused += 1,
        }
    }

    fn compare(&self, page: u64) -> Result<(), Mismatch> {
        self.map.verify().map_err(Mismatch::Violation)?;
        self.compare_figures()?;
        self.compare_around(page)?;
        let segments = self.model.as_slice().len();
        if segments < self.checks.walk_below || self.tally.steps.is_multiple_of(self.checks.walk_every) {
            self.compare_walk()?;
        }
        Ok(())
    }

    fn compare_figures(&self) -> Result<(), Mismatch> {
        let (map, model) = (&self.map, &self.model);
        figure("free_pages", map.free_pages(), model.free_pages())?;
        figure("largest_free", map.largest_free(), model.largest_free())?;
        figure("is_whole", map.is_whole().into(), model.is_whole().into())
    }

    /// Looks at `page`, the ends of its segment, what is next to it, and the ends of the span.
    fn compare_around(&self, page: u64) -> Result<(), Mismatch> {
        let span = self.model.span();
        let range = self.model.segment(page).map_or(span, |segment| segment.range);
        let middle = range.start() + range.len() / 2;
        let around = [range.start().saturating_sub(1), range.start(), middle, range.end() - 1, range.end()];
        let ends = [span.start().saturating_sub(1), span.start(), span.end() - 1, span.end()];
        around.into_iter().chain(ends).chain([page]).try_for_each(|page| self.compare_page(page))
    }

    fn compare_page(&self, page: u64) -> Result<(), Mismatch> {
        let (got, want) = (self.map.segment(page), self.model.segment(page));
        if got != want {
            return Err(Mismatch::Segment { page, got, want });
        }
        let (got, want) = (self.map.find(page), self.model.find(page));
        if got == want { Ok(()) } else { Err(Mismatch::Find { page, got, want }) }
    }

    fn compare_walk(&self) -> Result<(), Mismatch> {
        let mut walk = self.map.segments();
        let mut model = self.model.as_slice().iter().copied();
        for index in 0.. {
            match (walk.next(), model.next()) {
                (None, None) => break,
                (got, want) if got == want => {}
                (got, want) => return Err(Mismatch::Walk { index, got, want }),
            }
        }
        Ok(())
    }

    fn free_everything(&mut self) -> Result<(), Mismatch> {
        while let Some(Segment { range, state }) = self.first_in_use() {
            let place = Place::Page(range.start());
            let op = if state == State::Busy { Op::Free(place) } else { Op::Release(place) };
            self.run(&op)?;
        }
        self.compare(self.model.span().start())?;
        self.compare_walk()?;
        self.compare_metadata()
    }

    fn first_in_use(&self) -> Option<Segment> {
        self.model.segments().find(|segment| segment.state != State::Free)
    }

    fn compare_metadata(&self) -> Result<(), Mismatch> {
        let bytes = self.map.metadata_bytes();
        let Checks { slack_bytes, slack_per_segment, .. } = self.checks;
        let allowed = self.metadata_at_start + slack_bytes + slack_per_segment * self.tally.peak_segments;
        if bytes > allowed { Err(Mismatch::Leak { bytes, allowed }) } else { Ok(()) }
    }
}

impl Session<AreaMap<'_>> {
    /// Takes congruent areas on both, and compares. As [`step`](Self::step) otherwise; each area is
    /// one like any other afterwards.
    ///
    /// # Errors
    /// The first difference seen; a panic of the map is one.
    pub fn congruent(
        &mut self,
        offsets: &[u64],
        sizes: &[u64],
        align: u64,
        within: Option<PageRange>,
    ) -> Result<(), Mismatch> {
        catching(|| {
            self.tally.steps += 1;
            let limits = within.unwrap_or(self.model.span());
            let want = highest_base(&self.model, offsets, sizes, align, limits);
            let got = alloc_in_map(&mut self.map, offsets, sizes, align, within);
            if got == Err(CongruentError::Metadata) && self.checks.metadata == MetadataLimit::MayRunOut {
                return self.compare(limits.start());
            }
            let refused = matches!(got, Err(CongruentError::NoSpace(_))) && want.is_none();
            if !refused && got.ok() != want {
                return Err(Mismatch::Base { got, want });
            }
            for (offset, pages) in offsets.iter().zip(sizes).filter(|_| want.is_some()) {
                let start = want.unwrap_or_default() + offset;
                let area = PageRange::from_len(start, *pages).expect("sizes are not zero");
                self.model.alloc_at(area).expect("the range was free");
            }
            self.tally.peak_segments = self.tally.peak_segments.max(self.model.as_slice().len());
            self.compare(want.map_or(limits.start(), |base| base + offsets[0]))
        })
    }
}

fn expect(got: Outcome, want: Outcome, excused: bool) -> Result<(), Mismatch> {
    if got == want || excused { Ok(()) } else { Err(Mismatch::Outcome { got, want: want.into() }) }
}

fn figure(figure: &'static str, got: u64, want: u64) -> Result<(), Mismatch> {
    if got == want { Ok(()) } else { Err(Mismatch::Figure { figure, got, want }) }
}

/// Turns a panic into a mismatch, so that it is shrunk and reported like any other.
fn catching(run: impl FnOnce() -> Result<(), Mismatch>) -> Result<(), Mismatch> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Mismatch::Panicked(text.unwrap_or_default()))
    })
}
