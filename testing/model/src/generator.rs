//! Programs from choices.
//!
//! The number of live areas follows a wave between the profile's crest and an eighth of it. So
//! one run sees the space fill, fragment, empty and merge many times. All else is drawn from the
//! profile's rates.

use crate::ask::Ask;
use crate::op::{Op, Place, Spot};
use crate::profile::Profile;
use crate::source::Source;
use vmalloc_map::State;
use vmalloc_map::{PageRange, Policy};

/// Makes one operation after another.
#[derive(Clone, Debug)]
pub struct Generator<S> {
    profile: Profile,
    source: S,
    step: usize,
}

/// One time in this many, an operation only looks.
const LOOK_EVERY: u64 = 12;

/// Of 256 operations, how many change an area where it is.
const RESIZES: u8 = 20;

impl<S: Source> Generator<S> {
    /// Operations for `profile`, chosen by `source`.
    pub const fn new(profile: Profile, source: S) -> Self {
        Self { profile, source, step: 0 }
    }

    /// Returns the load this makes.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the next operation, when `live` areas are in use; `None` when the source has no more
    /// choices.
    pub fn next(&mut self, live: usize) -> Option<Op> {
        if self.source.is_exhausted() {
            return None;
        }
        let target = self.target();
        self.step += 1;
        if self.source.chance(self.profile.rates.misuse) {
            return Some(self.misuse());
        }
        if self.source.below(LOOK_EVERY) == LOOK_EVERY - 1 {
            return Some(self.look());
        }
        // A source of zeros takes.
        let takes = match live {
            live if live < target / 2 => 12,
            live if live < target => 8,
            _ => 4,
        };
        Some(if self.source.below(16) < takes { self.take() } else { self.give() })
    }

    /// Returns the height of the wave: one period is sixteen operations for each area at its crest.
    const fn target(&self) -> usize {
        let crest = self.profile.live;
        let half = 8 * crest;
        let along = self.step % (2 * half);
        let height = if along < half { along } else { 2 * half - along };
        crest / 8 + (crest - crest / 8) * height / half
    }

    fn take(&mut self) -> Op {
        let rates = self.profile.rates;
        if self.source.chance(rates.exact) {
            self.take_exact()
        } else if self.source.chance(RESIZES) {
            Op::Grow(self.some(State::Busy), self.offset())
        } else if self.source.chance(rates.retire / 8) {
            Op::Revive(self.some(State::Retired))
        } else {
            Op::Alloc(self.ask())
        }
    }

    fn give(&mut self) -> Op {
        // Releasing comes oftener than retiring, or retired areas would fill the space.
        let retire = self.profile.rates.retire;
        if self.source.chance(RESIZES) {
            let area = self.some(State::Busy);
            return self.cut(area);
        }
        if self.source.chance(retire) {
            Op::Retire(self.some(State::Busy))
        } else if self.source.chance(retire.saturating_add(retire / 2)) {
            Op::Release(self.some(State::Retired))
        } else {
            Op::Free(self.some(State::Busy))
        }
    }

    /// Returns an operation that makes more areas of one, or less of it.
    fn cut(&mut self, start: Place) -> Op {
        match self.source.below(4) {
            0 => Op::Split(start, self.offset()),
            1 => Op::Shrink(start, self.pages()),
            2 => Op::FreePart(start, self.pages()),
            _ => {
                let offset = self.offset();
                Op::FreePart(self.place(State::Busy, Spot::Inside(offset)), self.pages())
            }
        }
    }

    fn take_exact(&mut self) -> Op {
        let pages = self.pages();
        let state = [State::Free, State::Free, State::Free, State::Busy][self.source.below(4) as usize];
        let at = match self.source.below(4) {
            0 => Place::Page(self.page()),
            1 => self.place(state, Spot::Start),
            2 => self.place(state, Spot::Before),
            _ => {
                let offset = self.offset();
                self.place(state, Spot::Inside(offset))
            }
        };
        Op::AllocAt { at, pages }
    }

    fn look(&mut self) -> Op {
        let state = self.state();
        let spot = self.spot();
        Op::Find(self.place(state, spot))
    }

    /// Returns an operation that is, most of the time, not allowed.
    fn misuse(&mut self) -> Op {
        let at = self.odd_place();
        match self.source.below(8) {
            6 => self.cut(at),
            7 => Op::Grow(at, self.pages()),
            0 => Op::Free(at),
            1 => Op::Retire(at),
            2 => Op::Release(at),
            3 => Op::Revive(at),
            4 => Op::AllocAt { at, pages: self.pages() },
            _ => {
                let mut ask = self.ask();
                ask.limits = self.any_limits();
                Op::Alloc(ask)
            }
        }
    }

    /// Returns a wrong page: foreign, interior, freed before, or the start of an area in another
    /// state.
    fn odd_place(&mut self) -> Place {
        match self.source.below(4) {
            0 => Place::Page(self.source.bits(64)),
            1 => Place::Page(self.page()),
            2 => self.place(State::Retired, Spot::Start),
            _ => {
                let (state, spot) = (self.state(), self.spot());
                self.place(state, spot)
            }
        }
    }

    fn ask(&mut self) -> Ask {
        let rates = self.profile.rates;
        let mut ask = Ask::new(self.pages());
        if self.source.chance(rates.aligned) {
            ask.align = 1 << self.source.between(0, u64::from(self.profile.align_order));
        }
        if self.source.chance(rates.aligned / 4) {
            // A plain multiple, which need be no power of two.
            ask.align = self.source.between(1, 200);
        }
        if self.source.chance(rates.phase) {
            ask.phase = self.source.below(ask.align);
        }
        if self.source.chance(rates.no_cross) {
            ask.no_cross = self.boundary(ask.pages);
        }
        if self.source.chance(rates.limits) {
            ask.limits = self.limits();
        }
        ask.policy = self.policy();
        ask
    }

    fn policy(&mut self) -> Policy {
        if self.source.chance(self.profile.rates.best) {
            Policy::Best
        } else if self.source.chance(self.profile.rates.random) {
            Policy::Random { seed: self.source.bits(64) }
        } else if self.source.chance(self.profile.rates.highest) {
            Policy::Highest
        } else {
            Policy::Lowest
        }
    }

    /// Returns a power of two of at least `pages`, tight more often than not; 0 when there is none.
    fn boundary(&mut self, pages: u64) -> u64 {
        let Some(tight) = pages.checked_next_power_of_two() else { return 0 };
        tight.checked_shl(self.source.below(6) as u32).filter(|&wide| wide != 0).unwrap_or(tight)
    }

    /// Returns two pages of the space, one of its ends now and then.
    fn limits(&mut self) -> Option<PageRange> {
        let (a, b) = (self.page(), self.page());
        match self.source.below(4) {
            0 => PageRange::new(self.profile.start, a),
            1 => PageRange::new(a, self.profile.end),
            _ => PageRange::new(a.min(b), a.max(b)),
        }
    }

    fn any_limits(&mut self) -> Option<PageRange> {
        let (a, b) = (self.page(), self.source.bits(64));
        PageRange::new(a.min(b), a.max(b))
    }

    fn pages(&mut self) -> u64 {
        let sizes = self.profile.sizes;
        self.source.magnitude(sizes.low, sizes.high)
    }

    fn page(&mut self) -> u64 {
        self.source.between(self.profile.start, self.profile.end - 1)
    }

    fn offset(&mut self) -> u64 {
        let order = 64 - (self.profile.end - self.profile.start).leading_zeros();
        self.source.magnitude(0, order.min(63))
    }

    fn state(&mut self) -> State {
        [State::Busy, State::Busy, State::Retired, State::Free][self.source.below(4) as usize]
    }

    fn spot(&mut self) -> Spot {
        match self.source.below(4) {
            0 => Spot::Start,
            1 => Spot::Before,
            2 => Spot::After,
            _ => Spot::Inside(self.offset()),
        }
    }

    fn some(&mut self, state: State) -> Place {
        self.place(state, Spot::Start)
    }

    fn place(&mut self, state: State, spot: Spot) -> Place {
        Place::Segment { state, nth: self.source.bits(16) as u32, spot }
    }
}
