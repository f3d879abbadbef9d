//! A request whose every constraint can be read: what the models understand of [`Fit`].

use vmalloc_map::{Fit, PageRange, Policy};

/// A request for address space, in pages. The same as a [`Fit`], but open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// How many pages: not zero.
    pub pages: u64,
    /// A power of two.
    pub align: u64,
    /// Where to look; `None` = everywhere.
    pub limits: Option<PageRange>,
    /// The choice among the places that fit.
    pub policy: Policy,
}

impl Ask {
    /// Returns a request for `pages` pages anywhere, lowest first.
    pub const fn new(pages: u64) -> Self {
        Self { pages, align: 1, limits: None, policy: Policy::Lowest }
    }

    /// Returns the request as the allocator takes it.
    pub fn fit(&self) -> Fit {
        // In an order that would not do if each setter checked.
        let mut fit = Fit::new(self.pages).policy(self.policy);
        if let Some(limits) = self.limits {
            fit = fit.within(limits.start(), limits.end());
        }
        fit.align(self.align)
    }

    /// Returns whether `range` is an answer, if it is free: size, alignment and limits.
    pub fn is_met_by(&self, range: PageRange) -> bool {
        range.len() == self.pages
            && range.start().is_multiple_of(self.align)
            && self.limits.is_none_or(|limits| limits.covers(&range))
    }
}
