//! The steps of a program, chosen and taken.
//!
//! The number of live areas follows a wave between the profile's crest and an eighth of it. So
//! one run sees the space fill, fragment, empty and merge many times. All else is drawn from the
//! profile's rates.

use crate::choices::Choices;
use crate::profile::Profile;
use crate::session::Session;
use crate::source::Source;
use vmalloc_map::{AreaMap, NoArea, PageRange, State};

/// One time in this many, an operation only looks.
const LOOK_EVERY: u64 = 12;

/// Of 256 operations, how many change an area where it is.
const RESIZES: u8 = 20;

/// A change of an area that starts at a page: of the map, and the states before and after it.
pub(crate) type Change<'a> =
    (&'static str, fn(&mut AreaMap<'a>, u64) -> Result<PageRange, NoArea>, [State; 2]);

impl<'a> Session<'a> {
    pub(crate) const FREE: Change<'a> = ("free", AreaMap::free, [State::Busy, State::Free]);
    const RETIRE: Change<'a> = ("retire", |map, page| map.retire(page), [State::Busy, State::Retired]);
    const REVIVE: Change<'a> = ("revive", |map, page| map.revive(page), [State::Retired, State::Busy]);
    pub(crate) const RELEASE: Change<'a> = ("release", AreaMap::release, [State::Retired, State::Free]);

    /// Takes up to `count` steps of a load, as long as `source` has choices.
    ///
    /// # Panics
    /// Where the map differs from the model.
    pub fn play(&mut self, profile: &Profile, source: &mut dyn Source, count: usize) {
        for _ in 0..count {
            if source.is_exhausted() {
                return;
            }
            self.does(|it| it.step(Choices { profile, source }));
        }
    }

    /// Takes a step. Returns the page to look at afterwards.
    fn step(&mut self, mut of: Choices<'_>) -> u64 {
        if of.source.chance(of.profile.rates.misuse) {
            return self.misuse(&mut of);
        }
        if of.source.below(LOOK_EVERY) == LOOK_EVERY - 1 {
            return self.odd_place(&mut of);
        }
        let (live, target) = (self.live(), of.profile.target(self.steps()));
        // A source of zeros takes.
        let takes = match live {
            live if live < target / 2 => 12,
            live if live < target => 8,
            _ => 4,
        };
        if of.source.below(16) < takes { self.take(&mut of) } else { self.give(&mut of) }
    }

    fn take(&mut self, of: &mut Choices<'_>) -> u64 {
        let rates = of.profile.rates;
        if of.source.chance(rates.exact) {
            let state = [State::Free, State::Free, State::Free, State::Busy][of.source.below(4) as usize];
            let (spot, pages) = (of.source.below(4), of.pages());
            let at = if spot == 2 { of.page() } else { self.place(of, state, spot) };
            self.alloc_at(at, pages)
        } else if of.source.chance(RESIZES) {
            self.grow(of)
        } else if of.source.chance(rates.retire / 8) {
            self.change(of, State::Retired, Self::REVIVE)
        } else {
            self.alloc(&of.ask())
        }
    }

    fn give(&mut self, of: &mut Choices<'_>) -> u64 {
        // Releasing comes oftener than retiring, or retired areas would fill the space.
        let retire = of.profile.rates.retire;
        if of.source.chance(RESIZES) {
            let start = self.place(of, State::Busy, 0);
            self.cut(of, start)
        } else if of.source.chance(retire) {
            self.change(of, State::Busy, Self::RETIRE)
        } else if of.source.chance(retire.saturating_add(retire / 2)) {
            self.change(of, State::Retired, Self::RELEASE)
        } else {
            self.change(of, State::Busy, Self::FREE)
        }
    }

    /// Makes more areas of the one at `start`, or less of it.
    fn cut(&mut self, of: &mut Choices<'_>, start: u64) -> u64 {
        match of.source.below(4) {
            0 => self.split(start, start.saturating_add(of.offset())),
            1 => self.shrink(start, of.pages()),
            2 => self.free_part(start, of.pages()),
            _ => {
                let inside = self.place(of, State::Busy, 3);
                self.free_part(inside, of.pages())
            }
        }
    }

    fn grow(&mut self, of: &mut Choices<'_>) -> u64 {
        let start = self.place(of, State::Busy, 0);
        self.grow_at(start, of.offset())
    }

    fn change(&mut self, of: &mut Choices<'_>, state: State, change: Change<'a>) -> u64 {
        let page = self.place(of, state, 0);
        self.changed(page, change)
    }

    /// Does what is, most of the time, not allowed.
    fn misuse(&mut self, of: &mut Choices<'_>) -> u64 {
        let at = self.odd_place(of);
        match of.source.below(8) {
            0 => self.changed(at, Self::FREE),
            1 => self.changed(at, Self::RETIRE),
            2 => self.changed(at, Self::RELEASE),
            3 => self.changed(at, Self::REVIVE),
            4 => self.alloc_at(at, of.pages()),
            6 => self.cut(of, at),
            7 => self.grow_at(at, of.pages()),
            _ => {
                let mut ask = of.ask();
                ask.limits = of.any_limits();
                self.alloc(&ask)
            }
        }
    }

    /// Returns a wrong page: foreign, interior, freed before, or the start of an area in another
    /// state.
    fn odd_place(&mut self, of: &mut Choices<'_>) -> u64 {
        match of.source.below(4) {
            0 => of.source.bits(64),
            1 => of.page(),
            2 => self.place(of, State::Retired, 0),
            _ => {
                let (state, spot) = (of.state(), of.source.below(4));
                self.place(of, state, spot)
            }
        }
    }

    /// Returns a page of a segment in this state, or the start of the span when there is none: 0
    /// its first, 1 that before, 2 that behind, or one inside.
    fn place(&self, of: &mut Choices<'_>, state: State, spot: u64) -> u64 {
        let matching = || self.model().as_slice().iter().filter(|segment| segment.state == state);
        let nth = (of.source.bits(16) as usize).checked_rem(matching().count());
        let Some(range) = nth.and_then(|nth| Some(matching().nth(nth)?.range)) else {
            return self.model().span().start();
        };
        match spot {
            0 => range.start(),
            1 => range.start().saturating_sub(1),
            2 => range.end(),
            _ => range.start() + of.offset() % range.len(),
        }
    }
}
