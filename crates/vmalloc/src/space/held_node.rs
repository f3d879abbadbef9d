//! A node under its lock: what an allocation takes of it.

use super::Space;
use super::claim::{Backing, ROUNDS};
use crate::areas::HeldMap;
use crate::platform::Platform;
use crate::purge::PurgePlan;
use crate::wait::policy::{BATCH, LEAST_RUN, MOST_RUN, SHORTER};
use crate::wait::{Node, make_lazy_room, make_room};
use crate::{AllocError, Fit, FitError, FreeError, PageRange};
use lock_api::MutexGuard;
use vmalloc_map::parts::{LEAF_SHIFT, Lack};

/// A node, locked.
pub(super) struct HeldNode<'a, P: Platform> {
    pub(super) space: &'a Space<P>,
    pub(super) id: usize,
    pub(super) node: MutexGuard<'a, P::RawLock, Node>,
}

impl<P: Platform> Space<P> {
    /// Holds the node of this CPU.
    #[inline]
    pub(super) fn own_node(&self) -> HeldNode<'_, P> {
        let (id, node) = self.cache.lock(self.platform.cpu());
        HeldNode { space: self, id, node }
    }

    /// Holds a node.
    pub(super) fn node(&self, id: usize) -> HeldNode<'_, P> {
        HeldNode { space: self, id, node: self.cache.nodes[id].lock() }
    }

    /// Holds this CPU's node, with room for one more area to be unmapped: a freed area has to be
    /// remembered until then. Where memory for that is short, a purge makes room.
    pub(super) fn node_with_room(&self, page: u64) -> Result<HeldNode<'_, P>, FreeError> {
        let no_memory = FreeError::NoMemory { addr: self.addr(page) };
        // Other threads may take the room that a purge makes.
        for _ in 0..ROUNDS {
            let mut held = self.own_node();
            if make_lazy_room(&mut held.node) {
                return Ok(held);
            }
            drop(held);
            self.purge_with(PurgePlan::LAZY).map_err(|_| no_memory)?;
        }
        Err(no_memory)
    }
}

impl<P: Platform> HeldNode<'_, P> {
    /// Takes an area with memory: of the size, somewhat larger, or from another node.
    pub(super) fn take_cached(mut self, fit: &Fit) -> Option<PageRange> {
        let space = self.space;
        let found = take_cached_of(space, &mut self.node, fit);
        if found.is_some() {
            return found;
        }
        space.cache.trim_credit(&mut self.node);
        self.take_of_others(|_, other| take_cached_of(space, other, fit))
    }

    /// Takes an area that waits here or in another node, before new addresses are taken: else the
    /// areas in use spread farther and farther.
    pub(super) fn take_waiting(mut self, fit: &Fit, may_have_memory: bool) -> Option<(PageRange, Backing)> {
        let space = self.space;
        let found = take_of(space, &mut self.node, fit, may_have_memory);
        if found.is_some() {
            return found;
        }
        let found = self.take_of_others(|own, other| {
            let (area, backing) = take_of(space, other, fit, may_have_memory)?;
            // Near the start of the span each node has leaves to itself.
            if area.start() < space.apart_end && other.put_back(area, backing == Backing::Cached) {
                return None;
            }
            // A purge looks at one node after the other. It would not see what moves from a later
            // one to an earlier.
            if !space.whole.is_any() {
                own.bring(other, area.len(), backing == Backing::Cached, space.apart_end);
            }
            Some((area, backing))
        });
        // For the next time, or for what comes with an area of the map now.
        match found {
            Some((area, Backing::Cached)) => make_room(&mut self.node, Node::cached, area.len(), BATCH),
            _ => make_room(&mut self.node, Node::pooled, fit.pages(), BATCH),
        };
        found
    }

    /// Takes something from one other node: from the one that had something the last time, else the
    /// next in turn.
    fn take_of_others<T>(&mut self, mut take: impl FnMut(&mut Node, &mut Node) -> Option<T>) -> Option<T> {
        let cache = &self.space.cache;
        let other = cache.other_than(self.id, &self.node)?;
        // A node that is held is passed by.
        let found = take(&mut self.node, &mut *cache.nodes[other].try_lock()?);
        self.node.looked_at = (other + usize::from(found.is_none())) as u16;
        found
    }
}

impl<P: Platform> Space<P> {
    /// Claims an area of the map: it is the caller's, but not busy before it is
    /// [handed out](Self::hand_out). Others of its size go to the pool of this CPU's node along
    /// with it, if it `may_run`: more of them while the node has to wait for the map, and fewer
    /// when it has not; and of each size no more than were needed of it.
    pub(super) fn claim_of_map(&self, fit: &Fit, may_run: bool) -> Result<PageRange, AllocError> {
        loop {
            match Taking::claim(self, fit, may_run) {
                Ok(area) => return Ok(area),
                Err((_, lack)) if self.areas.supply(lack) => {}
                Err((error, _)) => return Err(error.in_bytes(1 << self.shift()).into()),
            }
        }
    }
}

/// The map, held to take areas of it for a node.
struct Taking<'a, P: Platform> {
    space: &'a Space<P>,
    id: usize,
    map: HeldMap<'a, P::RawLock>,
}

impl<'a, P: Platform> Taking<'a, P> {
    /// Claims an area, if the map has the memory for that. Tells what it lacks.
    #[inline(always)]
    fn claim(space: &'a Space<P>, fit: &Fit, may_run: bool) -> Result<PageRange, (FitError, Option<Lack>)> {
        let at_once = space.areas.try_map();
        let has_waited = at_once.is_none();
        let map = at_once.unwrap_or_else(|| space.areas.map());
        let mut taking = Self { space, id: space.cpu_node(), map };
        let area = taking.place(fit).map_err(|error| (error, taking.map.take_lack()))?;
        let used = taking.map.count_placed();
        let mut lack = None;
        if may_run && !space.need.is_any() {
            let run = &mut taking.map.taker(taking.id).1.run;
            *run = if has_waited { 2 * *run } else { *run - *run / SHORTER }.clamp(LEAST_RUN, MOST_RUN);
            // What lies between aligned ones counts as well.
            let more = (*run / fit.pages().max(fit.alignment())).min(BATCH as u64) as usize;
            lack = if more == 0 { None } else { taking.place_more(fit, area, more) };
        }
        drop(taking);
        // For the next time.
        space.areas.supply(lack);
        space.cache.budget.set_used(used);
        Ok(area)
    }

    /// Takes up to `more` areas as the `last` one, and puts those into the pool of the node that it
    /// has room for. Where the map lacks memory it takes none, and tells what is lacking.
    #[inline(never)]
    fn place_more(&mut self, fit: &Fit, mut last: PageRange, more: usize) -> Option<Lack> {
        let more = more.min(self.space.cache.nodes[self.id].try_lock()?.pooled.along(last.len()));
        let (mut starts, mut count) = ([0; BATCH], 0);
        // Where what lies behind it is not aligned, the next lies farther up in its leaf.
        let is_aligned = last.len() & (fit.alignment() - 1) == 0;
        while count < more {
            let behind = if is_aligned { self.map.alloc_more(last, (more - count) as u64) } else { 0 };
            if behind == 0 {
                let end = (last.start() | ((1 << LEAF_SHIFT) - 1)) + 1;
                let next = if is_aligned { *fit } else { fit.within(last.end(), end) };
                let Ok(area) = self.place(&next) else { break };
                (starts[count], last) = (area.start(), area);
                count += 1;
            }
            for _ in 0..behind {
                last = PageRange::of(last.end(), last.end() + last.len());
                starts[count] = last.start();
                count += 1;
            }
        }
        let Self { space, id, map } = self;
        // Nothing is waited for with the map held: where the node is, the areas go back.
        let lack = if count < more { map.take_lack() } else { None };
        let mut node = space.cache.nodes[*id].try_lock().filter(|_| lack.is_none());
        // Downwards, so that the lowest is taken first.
        for &start in starts[..count].iter().rev() {
            let area = PageRange::of(start, start + last.len());
            let is_home = space.areas.bitmaps.sure_home(start).is_some();
            if !is_home || !node.as_mut().is_some_and(|node| node.pool(area)) {
                space.sure(map.release(start));
            }
        }
        lack
    }

    /// Takes the lowest place, but in no leaf where another node's areas are, if that can be had:
    /// two CPUs that flip bits of one leaf wait for each other's cache lines. A space with one
    /// busy node never sees the difference.
    #[inline]
    fn place(&mut self, fit: &Fit) -> Result<PageRange, FitError> {
        let (map, taker) = self.map.taker(self.id);
        let is_small =
            fit.pages() <= LEAST_RUN && fit.lowest_order().is_some_and(|order| order <= LEAF_SHIFT);
        let own_leaf = taker.own_leaf.filter(|_| is_small);
        let own = own_leaf.map(|leaf| map.alloc(&fit.within(leaf.start(), leaf.end())));
        let area = match own {
            Some(Ok(area)) => area,
            _ => {
                taker.own_leaf = taker.own_leaf.filter(|_| own.is_none());
                let area = map.alloc(fit)?;
                let owner = map.leaf(area.start()).owner_node();
                let is_free = owner.is_none_or(|owner| owner == self.id);
                if is_free || !is_small { area } else { self.move_apart(fit, area)? }
            }
        };
        let leaf = self.map.leaf(area.start());
        leaf.set_owner_node(self.id);
        leaf.withhold(area.start());
        Ok(area)
    }

    /// Moves an area just placed to a leaf of its own, if one is free near the start of the span.
    /// Farther up, leaves of one node each would spread the areas over several times the addresses.
    #[inline(never)]
    fn move_apart(&mut self, fit: &Fit, area: PageRange) -> Result<PageRange, FitError> {
        let (space, (map, taker)) = (self.space, self.map.taker(self.id));
        // No leaf is free below the lowest place of a small area.
        if area.start() >= space.apart_end {
            return Ok(area);
        }
        let leaf = Fit::plain(1 << LEAF_SHIFT, LEAF_SHIFT);
        let leaf = leaf.within(space.geometry.span.start(), space.apart_end);
        let Ok(leaf) = map.alloc(&leaf) else { return Ok(area) };
        space.sure(map.free(area.start()).and_then(|_| map.free(leaf.start())));
        taker.own_leaf = Some(leaf);
        map.alloc(&fit.within(leaf.start(), leaf.end()))
    }
}

/// Takes a cached area of a node, of which up to the slack is not needed.
fn take_cached_of<P: Platform>(space: &Space<P>, node: &mut Node, fit: &Fit) -> Option<PageRange> {
    node.take_cached(fit.pages(), fit.alignment(), space.slack_for(fit))
}

/// Takes an area that waits in a node, with its memory or without.
pub(super) fn take_of<P: Platform>(
    space: &Space<P>,
    node: &mut Node,
    fit: &Fit,
    may_have_memory: bool,
) -> Option<(PageRange, Backing)> {
    if let Some(area) = may_have_memory.then(|| take_cached_of(space, node, fit)).flatten() {
        return Some((area, Backing::Cached));
    }
    let start = node.take_pooled(usize::try_from(fit.pages() - 1).ok()?, fit.alignment())?;
    Some((PageRange::of(start, start + fit.pages()), Backing::None))
}
