//! Claiming areas of the map, and finding room when there is none.

use super::Space;
use crate::areas::{Annotation, Blocking};
use crate::platform::{Platform, PlatformError};
use crate::purge::PurgePlan;
use crate::wait::SizeStacks;
use crate::{AllocError, Fit, FitError, PageRange, Policy, RequestError, Unbacked};

/// How often everything freed is given back before an allocation is refused, as long as anything
/// is.
pub(super) const ROUNDS: usize = 8;
/// How often in a row other threads may be quicker to take what was given back, before an
/// allocation in need gives up.
const RACES: usize = 64;

/// The memory behind an area's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// The memory of the area that was freed here before.
    Cached,
    /// Nothing yet.
    None,
}

impl<P: Platform> Space<P> {
    /// Claims an area of the map, not mapped yet. When there is no room for it, and the caller may
    /// wait, everything freed is given back first.
    #[inline]
    pub(super) fn claim(&self, fit: &Fit, blocking: Blocking) -> Result<PageRange, AllocError> {
        let may_run = fit.lowest_order().is_some() && SizeStacks::takes(fit.pages());
        match self.claim_of_map(fit, may_run) {
            Err(AllocError::NoSpace(mut refusal)) if blocking == Blocking::Allowed => {
                let claimed = self.until_room(fit.pages(), || match self.claim_of_map(fit, false) {
                    Err(AllocError::NoSpace(again)) => {
                        refusal = again;
                        None
                    }
                    result => Some(result),
                });
                claimed.unwrap_or(Err(refusal.into()))
            }
            result => result,
        }
    }

    /// Claims an area that is not memory of its own from the start: if the caller may wait and asks
    /// for no limits, no random place and none near another, from the middle of the span upwards.
    /// There it is not in the way of ordinary areas, which begin at its start.
    pub(super) fn claim_high(&self, fit: &Fit, blocking: Blocking) -> Result<PageRange, AllocError> {
        let span = self.geometry.span;
        let is_placed = matches!(fit.placement(), Policy::Random { .. } | Policy::Near { .. });
        if blocking == Blocking::Allowed && fit.limits().is_none() && !is_placed {
            match self.claim_of_map(&fit.within(span.start() + span.len() / 2, span.end()), false) {
                Err(AllocError::NoSpace(_) | AllocError::Request(RequestError::LimitsReversed { .. })) => {}
                result => return result,
            }
        }
        self.claim(fit, blocking)
    }

    /// Returns the pages that are free for `fit` now, and takes none. Areas that wait for a purge
    /// or are pooled are not free. Cost as [`AreaMap::place_for`](crate::AreaMap::place_for).
    ///
    /// # Errors
    /// As there.
    pub fn place_for(&self, fit: &Fit) -> Result<PageRange, FitError> {
        self.areas.map().place_for(fit)
    }

    /// Purges, and then asks the notifiers for room for `pages` pages, for as long as either brings
    /// anything and `retry` has no result: what an allocation in need does. For allocators on top
    /// of a space. Purges are locked out during some of the calls of `retry`, so it may look
    /// ([`place_for`](Self::place_for), [`find`](Self::find)), and neither allocate nor free.
    #[cold]
    pub fn until_room<T>(&self, pages: u64, mut retry: impl FnMut() -> Option<T>) -> Option<T> {
        let _in_need = self.need.enter();
        let mut result = self.after_purges(&mut retry);
        for _ in 0..ROUNDS {
            if result.is_some() || self.notifiers.make_room(self, pages) == 0 {
                break;
            }
            result = self.after_purges(&mut retry);
        }
        result
    }

    /// Purges until `retry` has a result, or nothing is left that could be given back.
    fn after_purges<T>(&self, retry: &mut impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..RACES {
            // Waits for a purge under way: the addresses that it gives back count for this
            // allocation as well.
            let purge = self.purge_with(PurgePlan::ALL);
            if let Some(found) = retry() {
                return Some(found);
            }
            match purge {
                // Other threads took it first.
                Ok(done) if done.given > 0 => continue,
                Ok(_) => {}
                // Less is free than could be, for the platform fails.
                Err(_) => return None,
            }
            // That nothing was given back does not say that nothing waits: other threads may have
            // freed areas behind the purge. While none purges, freed areas are in a node.
            let mut purge = self.hold_purger();
            let _alone = self.whole.enter();
            purge.take_over();
            let found = retry();
            if found.is_some() || !self.is_anything_kept() && purge.purger.is_empty() {
                return found;
            }
        }
        None
    }

    fn is_anything_kept(&self) -> bool {
        // In this order, in which areas move on: growth moves cached ones to the stock, and from
        // there to the lazy ones.
        self.deferred.areas() != 0
            || self.cache.each().any(|node| !node.is_empty())
            || self.cache.stock.lock().iter().len() != 0
            || self.cache.each().any(|node| !node.lazy.is_empty())
    }

    /// Does what needs something of the platform. Where the platform is short of that, and the
    /// caller may wait, everything freed is given back, and it is done once more.
    pub(super) fn or_after_purge(
        &self,
        blocking: Blocking,
        mut act: impl FnMut() -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        act().or_else(|error| match blocking {
            Blocking::Allowed if self.purge_with(PurgePlan::ALL).is_ok() => act(),
            _ => Err(error),
        })
    }

    /// Makes a claimed area busy, with its annotation. When memory is short the area is given back.
    ///
    /// This is the one place where areas become busy, but for [`reuse`](super::Raw::reuse), whose areas
    /// have no annotation.
    #[inline]
    pub(super) fn hand_out(
        &self,
        area: PageRange,
        annotation: Annotation,
        backing: Backing,
    ) -> Result<(), AllocError> {
        match self.areas.hand_out(area.start(), &annotation, None) {
            Some(true) => Ok(()),
            Some(false) => self.platform.fatal(&"a claimed area is busy"),
            None => self.not_annotated(area, backing),
        }
    }

    #[cold]
    fn not_annotated(&self, area: PageRange, backing: Backing) -> Result<(), AllocError> {
        match backing {
            Backing::None => self.sure(self.areas.release(&[area])),
            // Where an area can neither be described nor be given back, it is handed out: it lacks
            // its tag, but is not lost.
            Backing::Cached if !self.raw().free_claimed(area) => {
                let was_claimed = self.areas.make_busy(area.start());
                return if was_claimed { Ok(()) } else { self.platform.fatal(&"a claimed area is busy") };
            }
            Backing::Cached => {}
        }
        Err(AllocError::Metadata)
    }

    #[cold]
    pub(super) fn unbacked(&self, fit: &Fit, cause: PlatformError) -> AllocError {
        let sizes = [fit.pages(), fit.alignment(), self.areas.map().largest_free()];
        let [size, align, largest] = sizes.map(|pages| self.bytes(pages) as u64);
        let within = self.addrs(fit.limits().unwrap_or(self.geometry.span));
        Unbacked { size, align, within, largest, cause }.into()
    }

    /// Returns how many pages more than it needs a request may get.
    pub(super) fn slack_for(&self, fit: &Fit) -> u64 {
        (fit.pages() - self.guard_pages) * self.max_slack_percent / 100
    }

    /// Frees a busy area that got no memory, and its annotation.
    #[cold]
    pub(super) fn give_up(&self, area: PageRange, annotation: Annotation) {
        self.sure(self.areas.give_up(area, annotation.kind.freed()));
    }
}
