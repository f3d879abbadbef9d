//! What a step of a program is about: sizes, pages and requests, by the rates of a load.

use crate::ask::Ask;
use crate::profile::Profile;
use crate::source::Source;
use vmalloc_map::{PageRange, Policy, State};

/// The choices for one step.
pub(crate) struct Choices<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) source: &'a mut dyn Source,
}

impl Choices<'_> {
    pub(crate) fn ask(&mut self) -> Ask {
        let rates = self.profile.rates;
        let mut ask = Ask::new(self.pages());
        if self.source.chance(rates.aligned) {
            ask.align = 1 << self.source.between(0, u64::from(self.profile.align_order));
        }
        if self.source.chance(rates.limits) {
            ask.limits = self.limits();
        }
        ask.policy = self.policy();
        ask
    }

    fn policy(&mut self) -> Policy {
        let rates = self.profile.rates;
        if self.source.chance(rates.random) {
            let bits = self.source.bits(64);
            if bits.is_multiple_of(2) {
                Policy::Random { seed: bits }
            } else {
                Policy::Near { to: self.page() }
            }
        } else if self.source.chance(rates.highest) {
            Policy::Highest
        } else {
            Policy::Lowest
        }
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

    pub(crate) fn any_limits(&mut self) -> Option<PageRange> {
        let (a, b) = (self.page(), self.source.bits(64));
        PageRange::new(a.min(b), a.max(b))
    }

    pub(crate) fn pages(&mut self) -> u64 {
        let sizes = self.profile.sizes;
        self.source.magnitude(sizes.low, sizes.high)
    }

    /// Returns a page of the space.
    pub(crate) fn page(&mut self) -> u64 {
        self.source.between(self.profile.start, self.profile.end - 1)
    }

    pub(crate) fn offset(&mut self) -> u64 {
        let order = 64 - (self.profile.end - self.profile.start).leading_zeros();
        self.source.magnitude(0, order.min(63))
    }

    pub(crate) fn state(&mut self) -> State {
        [State::Busy, State::Busy, State::Retired, State::Free][self.source.below(4) as usize]
    }
}
