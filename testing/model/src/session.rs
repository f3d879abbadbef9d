//! One program on the area map and on the reference: every answer, state and figure compared.

use crate::ask::Ask;
use crate::naive::NaiveMap;
use crate::profile::Profile;
use crate::source::Seeded;
use crate::steps::Change;
use std::fmt::{self, Write};
use vmalloc_harness::{Told, env};
use vmalloc_map::{AreaMap, FitError, PageRange, Policy};
use vmalloc_map::{ResizeError, Segment, State};

/// The ability of a map to run out of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataLimit {
    /// Never.
    None,
    /// [`FitError::Metadata`] is a fair answer to a claim that is not wrong in itself, and
    /// changes nothing.
    MayRunOut,
}

/// With fewer segments than this all of them are compared after every step…
const WALK_BELOW: usize = 200;
/// …and with more, every so many steps.
const WALK_EVERY: usize = 64;
/// Bytes of metadata that may stay behind, however little happened. Records come in pieces: one of
/// 16 KiB for leaves here and there each, and what the tree takes in advance.
const SLACK_BYTES: usize = 48 << 10;
/// Bytes that may stay behind for each segment there was at the peak, and each growth of the span.
const SLACK_PER_SEGMENT: usize = 1 << 10;

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

/// A map under test and the model beside it. A step in which they differ panics, and is printed
/// then.
#[derive(Debug)]
pub struct Session<'a> {
    map: AreaMap<'a>,
    model: NaiveMap,
    metadata: MetadataLimit,
    tally: Tally,
    metadata_at_start: usize,
    /// The call under way.
    told: String,
}

impl<'a> Session<'a> {
    /// Begins with `map`, which is empty.
    pub fn new(map: AreaMap<'a>, metadata: MetadataLimit) -> Self {
        let (model, metadata_at_start) = (NaiveMap::new(map.span()), map.metadata_bytes());
        Self { map, model, metadata, tally: Tally::default(), metadata_at_start, told: String::new() }
    }

    /// Plays `count` steps of a load on `map`, those of a seed, and frees everything. The
    /// environment may say otherwise. Returns the counts.
    ///
    /// # Panics
    /// Where the map differs from the model.
    pub fn seeded(
        map: AreaMap<'a>,
        metadata: MetadataLimit,
        profile: &Profile,
        seed: u64,
        count: usize,
    ) -> Tally {
        let (seed, mut session) = (env::seed(seed), Self::new(map, metadata));
        let _told = Told(|| format!("{}, again with VMALLOC_SEED={seed:#x}", profile.name));
        session.play(profile, &mut Seeded::new(seed), env::ops(count));
        session.finish()
    }

    /// Returns how many areas are in use.
    pub(crate) fn live(&self) -> usize {
        self.model.as_slice().iter().filter(|segment| segment.state != State::Free).count()
    }

    /// Returns the state that the map should be in.
    pub const fn model(&self) -> &NaiveMap {
        &self.model
    }

    /// Returns the map under test.
    pub const fn map(&self) -> &AreaMap<'a> {
        &self.map
    }

    /// Returns how many steps were taken.
    pub(crate) fn steps(&self) -> usize {
        self.tally.steps
    }

    /// Does something on both, and compares all that is around the page that `act` returns.
    ///
    /// # Panics
    /// Where the map differs from the model.
    pub fn does(&mut self, act: impl FnOnce(&mut Self) -> u64) {
        let page = act(self);
        self.tally.steps += 1;
        self.tally.peak_segments = self.tally.peak_segments.max(self.model.as_slice().len());
        self.compare(page);
    }

    /// Frees everything, checks that the space is whole and that metadata came back. Another
    /// program may follow.
    ///
    /// # Panics
    /// As [`does`](Self::does).
    pub fn finish(&mut self) -> Tally {
        while let Some(Segment { range, state }) = self.first_in_use() {
            let end = if state == State::Busy { Self::FREE } else { Self::RELEASE };
            self.changed(range.start(), end);
        }
        self.compare(self.model.span().start());
        self.compare_walk();
        let (bytes, slack) = (self.map.metadata_bytes(), SLACK_PER_SEGMENT * self.tally.peak_segments);
        let allowed = self.metadata_at_start + SLACK_BYTES + slack;
        assert!(bytes <= allowed, "{bytes} bytes of metadata at the end, more than {allowed}");
        self.tally
    }

    /// Cuts an area in two at `at`.
    pub(crate) fn split(&mut self, start: u64, at: u64) -> u64 {
        self.tell(format_args!("split {start:#x} at {at:#x}"));
        let right = |parts: (PageRange, PageRange)| parts.1;
        self.resize(start, |map| map.split(start, at).map(right), |model| model.split(start, at))
    }

    /// Frees so many pages of an area.
    pub(crate) fn free_part(&mut self, start: u64, pages: u64) -> u64 {
        self.tell(format_args!("free {pages} pages from {start:#x} on"));
        let Some(part) = PageRange::new(start, start.saturating_add(pages)) else { return start };
        let freed = |map: &mut AreaMap<'a>| map.free_part(part).map(|()| part);
        self.resize(start, freed, |model| model.free_part(part))
    }

    /// Grows an area in place by so many pages.
    pub(crate) fn grow_at(&mut self, start: u64, more: u64) -> u64 {
        self.tell(format_args!("grow {start:#x} by {more}"));
        let pages = self.model.find(start).map_or(1, |area| area.len()).saturating_add(more);
        self.resize(start, |map| map.grow_in_place(start, pages), |model| model.grow(start, pages))
    }

    /// Shrinks an area in place to so many pages.
    pub(crate) fn shrink(&mut self, start: u64, pages: u64) -> u64 {
        self.tell(format_args!("shrink {start:#x} to {pages}"));
        let shrunk = |map: &mut AreaMap<'a>| map.shrink_in_place(start, pages);
        self.resize(start, shrunk, |model| model.shrink(start, pages))
    }

    /// Lets the span end so many pages later. Returns its last page of before.
    pub fn extend(&mut self, more: u64) -> u64 {
        self.tell(format_args!("extend by {more}"));
        let last = self.model.span().end();
        let end = last.saturating_add(more);
        let extended = |map: &mut AreaMap<'a>| map.extend(end).map_err(ResizeError::from);
        self.resize(last - 1, extended, |model| model.extend(end))
    }

    /// Places an area. Returns a page of it, or the start of the span.
    pub fn alloc(&mut self, ask: &Ask) -> u64 {
        self.tell(format_args!("{ask:x?}"));
        let (want, got) = (self.model.place(ask), self.map.alloc(&ask.fit()));
        self.count_claim(got.err());
        match got {
            Ok(range) if matches!(ask.policy, Policy::Random { .. }) => {
                assert!(want.is_ok() && ask.is_met_by(range) && self.model.is_free(range), "{range:?}");
            }
            Err(error) if self.is_out_of_metadata(error) => {
                assert!(matches!(want, Ok(_) | Err(FitError::NoSpace(_))), "{want:?}");
            }
            _ => assert_eq!(got, want),
        }
        if let Ok(range) = got {
            self.model.alloc_at(range).expect("the range was free");
        }
        got.map_or(self.model.span().start(), |range| range.start())
    }

    /// Claims exactly `pages` pages from `start` on; cut where page numbers end. Returns the first.
    pub fn alloc_at(&mut self, start: u64, pages: u64) -> u64 {
        self.tell(format_args!("claim {pages} pages from {start:#x} on"));
        let Some(range) = PageRange::new(start, start.saturating_add(pages)) else { return start };
        let got = self.map.alloc_at(range);
        self.count_claim(got.err());
        if !got.is_err_and(|error| self.is_out_of_metadata(error)) || !self.model.span().covers(&range) {
            assert_eq!(got, self.model.alloc_at(range));
        }
        start
    }

    pub(crate) fn changed(&mut self, page: u64, (name, on_map, [from, to]): Change<'a>) -> u64 {
        self.tell(format_args!("{name} {page:#x}"));
        let got = on_map(&mut self.map, page);
        self.tally.refused += usize::from(got.is_err());
        assert_eq!(got, self.model.turn(page, from, to));
        page
    }

    fn tell(&mut self, what: fmt::Arguments<'_>) {
        self.told.clear();
        let _ = self.told.write_fmt(what);
    }

    fn resize(
        &mut self,
        page: u64,
        on_map: impl FnOnce(&mut AreaMap<'a>) -> Result<PageRange, ResizeError>,
        on_model: impl FnOnce(&mut NaiveMap) -> Result<PageRange, ResizeError>,
    ) -> u64 {
        let got = on_map(&mut self.map);
        self.tally.refused += usize::from(got.is_err());
        if !matches!(got, Err(ResizeError::Alloc(error)) if self.is_out_of_metadata(error)) {
            assert_eq!(got, on_model(&mut self.model));
        }
        page
    }

    fn is_out_of_metadata(&self, error: FitError) -> bool {
        error == FitError::Metadata && self.metadata == MetadataLimit::MayRunOut
    }

    const fn count_claim(&mut self, error: Option<FitError>) {
        match error {
            None => self.tally.granted += 1,
            Some(FitError::NoSpace(_)) => self.tally.no_space += 1,
            Some(FitError::Metadata) => self.tally.no_metadata += 1,
            Some(_) => self.tally.refused += 1,
        }
    }

    fn compare(&self, page: u64) {
        let (map, model) = (&self.map, &self.model);
        map.verify().expect("every invariant holds");
        let want = (model.free_pages(), model.largest_free(), model.is_whole());
        assert_eq!((map.free_pages(), map.largest_free(), map.is_whole()), want, "free pages, the largest");
        self.compare_around(page);
        let is_short = model.as_slice().len() < WALK_BELOW;
        if is_short || self.tally.steps.is_multiple_of(WALK_EVERY) {
            self.compare_walk();
        }
    }

    /// Looks at `page`, the ends of its segment, what is next to it, and the ends of the span.
    fn compare_around(&self, page: u64) {
        let span = self.model.span();
        let range = self.model.segment(page).map_or(span, |segment| segment.range);
        let middle = range.start() + range.len() / 2;
        let around = [range.start().saturating_sub(1), range.start(), middle, range.end() - 1, range.end()];
        let ends = [span.start().saturating_sub(1), span.start(), span.end() - 1, span.end()];
        for page in around.into_iter().chain(ends).chain([page]) {
            assert_eq!(self.map.segment(page), self.model.segment(page), "at page {page:#x}");
            assert_eq!(self.map.find(page), self.model.find(page), "the busy area at page {page:#x}");
        }
    }

    fn compare_walk(&self) {
        if !self.map.segments().eq(self.model.segments()) {
            assert_eq!(self.map.segments().collect::<Vec<_>>(), self.model.as_slice());
        }
    }

    fn first_in_use(&self) -> Option<Segment> {
        self.model.segments().find(|segment| segment.state != State::Free)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("step {}: {}", self.tally.steps, self.told);
        }
    }
}
