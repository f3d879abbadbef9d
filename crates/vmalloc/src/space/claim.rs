//! Claiming areas of the map, and finding room when there is none.

use super::Space;
use crate::PageRange;
use crate::areas::Blocking;
use crate::cache::{BATCH, Node};
use crate::platform::{Platform, PlatformError};
use crate::purge::PurgePlan;
use crate::sync::{Mutant, is, size};
use crate::{AllocError, RequestError};
use crate::{Fit, FitError, Policy};
use vmalloc_map::AreaMap;
use vmalloc_map::parts::LEAF_SHIFT;

/// Pages that a node takes from the map in one go, for areas of one size: a sixteenth of a leaf at
/// least stays for others, and a node holds less without need than it frees before a drain.
const RUN_PAGES: u64 = size(64, 6);
/// Areas of such a run: a lock may be held for so many.
const RUN_AREAS: u64 = BATCH as u64;
/// Pages for each node near the start of the span in whose leaves no other node's areas are: six
/// leaves, which is little for a program, and all that a program of few areas ever uses.
pub(super) const PAGES_APART: u64 = size(6 << LEAF_SHIFT, 2);
/// How often everything freed is given back before an allocation is refused, as long as anything
/// is.
pub(super) const ROUNDS: usize = 8;
/// How often in a row other threads may be quicker to take what was given back, before an
/// allocation in need gives up.
const RACES: usize = 64;

impl<P: Platform> Space<P> {
    /// Claims an area of the map, not mapped yet. When there is no room for it, and the caller may
    /// wait, everything freed is given back first.
    pub(super) fn claim(&self, mut fit: Fit, blocking: Blocking) -> Result<PageRange, AllocError> {
        if let Policy::Random { seed } = fit.placement() {
            fit = fit.policy(Policy::Random { seed: seed ^ self.platform.entropy() });
        }
        match self.try_claim(&fit) {
            Err(AllocError::NoSpace(mut refusal)) if blocking == Blocking::Allowed => {
                let claimed = self.until_room(fit.pages(), || match self.try_claim(&fit) {
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
    /// for no limits, from the middle of the span upwards. There it is not in the way of ordinary
    /// areas, which begin at its start.
    pub(super) fn claim_high(&self, fit: Fit, blocking: Blocking) -> Result<PageRange, AllocError> {
        let span = self.geometry.span;
        if blocking == Blocking::Allowed && fit.limits().is_none() {
            match self.try_claim(&fit.within(span.start() + span.len() / 2, span.end())) {
                Err(AllocError::NoSpace(_) | AllocError::Request(RequestError::LimitsReversed { .. })) => {}
                result => return result,
            }
        }
        self.claim(fit, blocking)
    }

    /// Returns the pages that are free for `fit` now, and takes none. Areas that wait for a purge
    /// or are pooled are not free. Cost as [`AreaMap::place_for`].
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
            if result.is_some() || self.notify(pages) == 0 {
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
                // The last look would hide that these protocols are broken.
                Ok(_) if !is(Mutant::NoWait) && !is(Mutant::Hoard) => {}
                // Less is free than could be, for the platform fails.
                _ => return None,
            }
            // That nothing was given back does not say that nothing waits: other threads may have
            // freed areas behind the purge. While none purges, freed areas are in a node.
            let _nobody_purges = self.purger.lock();
            let found = retry();
            if found.is_some() || !self.is_anything_kept() {
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

    /// Claims an area of the map: it is the caller's, but not busy before it is
    /// [handed out](Self::hand_out).
    pub(super) fn try_claim(&self, fit: &Fit) -> Result<PageRange, AllocError> {
        let (id, mut node) = self.cache.lock(self.platform.cpu());
        let mut map = self.areas.map();
        let placed = self.place(id, &mut node, &mut map, fit);
        let area = placed.map_err(|error| error.in_bytes(1 << self.shift()))?;
        let leaf = map.leaf(area.start());
        leaf.set_owner_node(id);
        leaf.withhold(area.start());
        let used = self.geometry.span.len() - map.free_pages();
        self.cache.budget.set_used(used);
        (node.placed, node.peak) = (node.placed + 1, node.peak.max(used));
        let others_wait = self.need.is_any() && !is(Mutant::Hoard);
        let is_small = fit.lowest_order() == Some(0) && area.len() <= RUN_PAGES;
        let more = if is_small && !others_wait {
            map.alloc_more(area, (RUN_PAGES / area.len()).min(RUN_AREAS))
        } else {
            0
        };
        // Downwards, so that the lowest is taken first.
        for number in (1..=more).rev() {
            let start = area.start() + number * area.len();
            if !node.pooled.put(PageRange::of(start, start + area.len())) {
                self.sure(map.release(start));
            }
        }
        Ok(area)
    }

    /// Takes the lowest place, but in no leaf where another node's areas are, if that can be had:
    /// two CPUs that flip bits of one leaf wait for each other's cache lines. A space with one
    /// busy node never sees the difference.
    #[inline]
    fn place(
        &self,
        id: usize,
        node: &mut Node,
        map: &mut AreaMap<'_>,
        fit: &Fit,
    ) -> Result<PageRange, FitError> {
        let is_small =
            fit.pages() <= RUN_PAGES && fit.lowest_order().is_some_and(|order| order <= LEAF_SHIFT);
        if let Some(leaf) = node.own_leaf.filter(|_| is_small) {
            match map.alloc(&fit.within(leaf.start(), leaf.end())) {
                Ok(area) => return Ok(area),
                Err(_) => node.own_leaf = None,
            }
        }
        let area = map.alloc(fit)?;
        let owner_node = map.leaf(area.start()).owner_node();
        let is_free = owner_node.is_none_or(|owner| owner == id);
        if is_free || !is_small { Ok(area) } else { self.move_apart(node, map, fit, area) }
    }

    /// Moves an area just placed to a leaf of its own, if one is free near the start of the span.
    /// Farther up, leaves of one node each would spread the areas over several times the addresses.
    #[inline(never)]
    fn move_apart(
        &self,
        node: &mut Node,
        map: &mut AreaMap<'_>,
        fit: &Fit,
        area: PageRange,
    ) -> Result<PageRange, FitError> {
        // No leaf is free below the lowest place of a small area.
        if area.start() >= self.apart_end {
            return Ok(area);
        }
        let leaf = Fit::plain(1 << LEAF_SHIFT, LEAF_SHIFT);
        let leaf = leaf.within(self.geometry.span.start(), self.apart_end);
        let Ok(leaf) = map.alloc(&leaf) else { return Ok(area) };
        self.sure(map.free(area.start()).and_then(|_| map.free(leaf.start())));
        node.own_leaf = Some(leaf);
        map.alloc(&fit.within(leaf.start(), leaf.end()))
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
}
