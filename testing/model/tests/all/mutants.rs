//! The runner catches mistakes: each mutant is the reference with one bug put in.

use vmalloc_map::{FitError, NoArea, NoSpace, PageRange, Policy};
use vmalloc_map::{ResizeError, Segment, State, Violation};
use vmalloc_model::{
    Ask, Checks, Failure, Map, Mismatch, NaiveMap, Outcome, Placement, Profile, Resize, Runner,
};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    None,
    /// Gives the second-lowest place.
    Misplaces,
    /// Refuses what fits only when the start is already aligned (asks for size + align - 1).
    AsksForTooMuch,
    /// Looks outside the limits.
    IgnoresLimits,
    /// Lets an area cross the boundary.
    IgnoresBoundary,
    /// Leaves a seam where the latest freed area ended.
    MissesCoalescing,
    /// Calls the inside of an area no area.
    WrongFreeError,
    /// Reports what is free in all as the largest range.
    WrongLargest,
    /// Names the area given, not the one in the way.
    WrongOccupied,
    /// Frees without a word what was freed before.
    DoubleFree,
    /// Finds retired areas.
    FindsRetired,
    /// Forgets to give metadata back.
    Leaks,
    /// Panics when it is full.
    Panics,
}

struct Mutant {
    inner: NaiveMap,
    bug: Bug,
    seam: Option<u64>,
    calls: usize,
}

impl Mutant {
    fn new(span: PageRange, bug: Bug) -> Self {
        Self { inner: NaiveMap::new(span), bug, seam: None, calls: 0 }
    }

    fn misplace(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        let lowest = self.inner.alloc(ask)?;
        let next = PageRange::new(lowest.start() + ask.align, lowest.end() + ask.align);
        let Some(next) = next.filter(|next| ask.is_met_by(*next)) else { return Ok(lowest) };
        self.inner.free(lowest.start()).expect("it was just taken");
        let taken = if self.inner.alloc_at(next).is_ok() { next } else { lowest };
        if taken == lowest {
            self.inner.alloc_at(lowest)?;
        }
        Ok(taken)
    }

    fn ask_for_too_much(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        let padded = Ask { pages: ask.pages.saturating_add(ask.align - 1), no_cross: 0, ..*ask };
        self.inner.place(&padded)?;
        self.inner.alloc(ask)
    }

    fn with_wrong_largest(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        let largest = self.inner.free_pages();
        self.inner.alloc(ask).map_err(|error| match error {
            FitError::NoSpace(figures) => NoSpace { largest, ..figures }.into(),
            other => other,
        })
    }
}

impl Map for Mutant {
    fn span(&self) -> PageRange {
        self.inner.span()
    }

    fn alloc(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        self.calls += 1;
        match self.bug {
            Bug::Misplaces if ask.policy == Policy::Lowest => self.misplace(ask),
            Bug::AsksForTooMuch => self.ask_for_too_much(ask),
            Bug::IgnoresLimits => self.inner.alloc(&Ask { limits: None, ..*ask }),
            Bug::IgnoresBoundary => self.inner.alloc(&Ask { no_cross: 0, ..*ask }),
            Bug::WrongLargest => self.with_wrong_largest(ask),
            Bug::Panics => Ok(self.inner.alloc(ask).expect("full")),
            _ => self.inner.alloc(ask),
        }
    }

    fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError> {
        self.inner.alloc_at(range).map_err(|error| match (self.bug, error) {
            (Bug::WrongOccupied, FitError::Occupied { asked, .. }) => FitError::Occupied { asked, by: asked },
            _ => error,
        })
    }

    fn free(&mut self, start: u64) -> Result<PageRange, NoArea> {
        let result = self.inner.free(start);
        self.seam = result.ok().map(|range| range.end());
        match (self.bug, result) {
            (Bug::WrongFreeError, Err(NoArea::Interior { page, .. })) => Err(NoArea::Nothing { page }),
            (Bug::DoubleFree, Err(NoArea::Retired { .. })) => self.inner.release(start),
            (_, result) => result,
        }
    }

    fn retire(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.inner.retire(start)
    }

    fn revive(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.inner.revive(start)
    }

    fn release(&mut self, start: u64) -> Result<PageRange, NoArea> {
        self.inner.release(start)
    }

    fn resize(&mut self, change: Resize) -> Result<PageRange, ResizeError> {
        self.inner.resize(change)
    }

    fn segment(&self, page: u64) -> Option<Segment> {
        self.segments().find(|segment| segment.range.contains(page))
    }

    fn find(&self, page: u64) -> Option<PageRange> {
        let segment = self.inner.segment(page)?;
        let found = segment.state == State::Busy
            || (self.bug == Bug::FindsRetired && segment.state == State::Retired);
        found.then_some(segment.range)
    }

    fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let seam = self.seam.filter(|_| self.bug == Bug::MissesCoalescing);
        self.inner.segments().flat_map(move |segment| {
            let Segment { range, state } = segment;
            let cut =
                seam.filter(|&seam| state == State::Free && range.contains(seam)).unwrap_or(range.end());
            let parts = [PageRange::new(range.start(), cut), PageRange::new(cut, range.end())];
            parts.into_iter().flatten().map(move |range| Segment { range, state })
        })
    }

    fn largest_free(&self) -> u64 {
        self.inner.largest_free()
    }

    fn free_pages(&self) -> u64 {
        self.inner.free_pages()
    }

    fn is_whole(&self) -> bool {
        self.inner.is_whole()
    }

    fn metadata_bytes(&self) -> usize {
        if self.bug == Bug::Leaks { self.calls * 4800 } else { 0 }
    }

    fn verify(&self) -> Result<(), Violation> {
        self.inner.verify()
    }
}

fn run(bug: Bug, profile: Profile) -> Result<(), Failure> {
    run_as(bug, profile, Placement::Exact)
}

fn run_as(bug: Bug, profile: Profile, placement: Placement) -> Result<(), Failure> {
    let checks = Checks { placement, ..Checks::default() };
    let runner = Runner::new(|| Mutant::new(profile.span(), bug), checks);
    runner.seeded(profile, 7, 4_000).map(|_| ())
}

fn caught(bug: Bug, profile: Profile) -> Mismatch {
    let failure = run(bug, profile).expect_err("the bug shows");
    println!("{bug:?}: {failure}");
    assert!(failure.ops().len() <= 60, "{bug:?} is shrunk to {}", failure.ops().len());
    assert!(failure.to_string().contains("VMALLOC_SEED=0x7"));
    failure.mismatch().clone()
}

#[test]
fn the_wrapper_alone_is_not_caught() {
    assert_eq!(run(Bug::None, Profile::TINY), Ok(()));
}

#[test]
fn wrong_placements_are_caught() {
    use Mismatch::{Illegal, Outcome as Answer};
    assert!(matches!(caught(Bug::Misplaces, Profile::MIXED), Answer { .. }));
    assert!(matches!(caught(Bug::AsksForTooMuch, Profile::ALIGNED), Answer { .. }));
    assert!(matches!(caught(Bug::IgnoresLimits, Profile::CONSTRAINED), Illegal { .. } | Answer { .. }));
    assert!(matches!(caught(Bug::IgnoresBoundary, Profile::CONSTRAINED), Illegal { .. }));
}

#[test]
fn a_weaker_promise_is_held_to_what_it_says() {
    assert_eq!(run_as(Bug::Misplaces, Profile::MIXED, Placement::Complete), Ok(()));
    assert!(run_as(Bug::AsksForTooMuch, Profile::ALIGNED, Placement::Complete).is_err());
    assert_eq!(run_as(Bug::AsksForTooMuch, Profile::ALIGNED.plain(), Placement::Sound), Ok(()));
    assert!(run_as(Bug::IgnoresBoundary, Profile::CONSTRAINED, Placement::Sound).is_err());
}

#[test]
fn a_missed_merge_is_caught() {
    let mismatch = caught(Bug::MissesCoalescing, Profile::SMALL);
    assert!(matches!(mismatch, Mismatch::Segment { .. } | Mismatch::Walk { .. }));
}

#[test]
fn wrong_errors_are_caught() {
    for (bug, profile) in [
        (Bug::WrongFreeError, Profile::SMALL),
        (Bug::WrongLargest, Profile::CROWDED),
        (Bug::WrongOccupied, Profile::SMALL),
        (Bug::DoubleFree, Profile::SMALL),
    ] {
        assert!(matches!(caught(bug, profile), Mismatch::Outcome { .. }), "{bug:?}");
    }
}

#[test]
fn a_wrong_lookup_is_caught() {
    assert!(matches!(caught(Bug::FindsRetired, Profile::SMALL), Mismatch::Find { .. }));
}

#[test]
fn a_leak_is_caught() {
    assert!(matches!(caught(Bug::Leaks, Profile::TINY), Mismatch::Leak { .. }));
}

#[test]
fn a_panic_is_caught_and_shrunk() {
    let Mismatch::Panicked(text) = caught(Bug::Panics, Profile::CROWDED) else { panic!("another mismatch") };
    assert!(text.starts_with("full"), "{text}");
}

#[test]
fn shrinking_ends_with_the_operation_that_shows_the_bug() {
    let failure = run(Bug::WrongLargest, Profile::CROWDED).expect_err("the bug shows");
    assert!(matches!(failure.mismatch(), Mismatch::Outcome { got: Outcome::Alloc(Err(_)), .. }));
    assert!(matches!(failure.ops().last(), Some(vmalloc_model::Op::Alloc(_))));
}
