//! Areas that are used again: the common way of an allocation, which calls nothing and touches
//! nothing that CPUs share.

use super::Space;
use super::alloc::{Backing, payload};
use super::free::refuse;
use crate::PageRange;
use crate::cache::{Node, SizeStacks};
use crate::platform::{Platform, Protection};
use crate::sync::{Mutant, is};
use crate::{Fit, Policy};

impl<P: Platform> Space<P> {
    /// Allocates in the common case: nothing special, and an area of the size waits in this CPU's
    /// node, which is free. Returns its address, else 0, which is no address of any
    /// area. A function without calls but for waking a thread that waits for the node.
    #[inline(never)]
    pub(super) fn reuse(&self, bytes: usize, align: usize) -> usize {
        self.reuse_here(bytes, align)
    }

    /// Allocates as [`reuse`](Self::reuse) does, as a part of its caller.
    #[inline(always)]
    pub(super) fn reuse_here(&self, bytes: usize, align: usize) -> usize {
        let below = align.wrapping_sub(1);
        if below > self.offset_mask() || align & below != 0 || !self.caches {
            return self.reuse_otherwise(bytes, align);
        }
        let size = self.size_of(bytes);
        let Some(mut node) = self.cache.try_lock(self.platform.cpu()) else { return 0 };
        let Some(start) = node.reuse(size, 1) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        self.addr(start)
    }

    /// Allocates in the common case with an alignment above a page, or where nothing is cached.
    #[inline(never)]
    fn reuse_otherwise(&self, bytes: usize, align: usize) -> usize {
        let size = self.size_of(bytes);
        if !align.is_power_of_two() || !SizeStacks::takes(size as u64) {
            return 0;
        }
        let align = (align >> self.shift()) as u64;
        if !self.caches {
            return self.reuse_addresses(size, align);
        }
        let Some(mut node) = self.cache.try_lock(self.platform.cpu()) else { return 0 };
        let Some(start) = node.reuse(size, align) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        self.addr(start)
    }

    /// Allocates in the common case where nothing keeps its memory.
    #[inline(never)]
    fn reuse_addresses(&self, size: usize, align: u64) -> usize {
        let Some(mut node) = self.cache.try_lock(self.platform.cpu()) else { return 0 };
        let Some(start) = node.pooled.take_at(size, align) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        if self.map_reused(start, size) { self.addr(start) } else { 0 }
    }

    /// Returns the size of the area for `bytes` bytes in the stacks. No bytes are more than any
    /// size there.
    #[inline(always)]
    fn size_of(&self, bytes: usize) -> usize {
        (bytes.wrapping_sub(1) >> self.shift()) + self.guard_pages as usize
    }

    /// Puts memory behind an area just taken from a pool. If there is none, the area goes back, and
    /// the slow path tells why.
    #[inline(always)]
    fn map_reused(&self, start: u64, size: usize) -> bool {
        let area = PageRange::of(start, start + size as u64 + 1);
        let payload = payload(area, self.guard_pages);
        // SAFETY: the area was taken for this caller alone, without memory.
        let mapped = unsafe { self.platform.map(payload, Protection::ReadWrite) };
        if mapped.is_err() {
            self.give_up(area, self.areas.plain());
        }
        mapped.is_ok()
    }

    /// Claims an area with memory: of the size, somewhat larger, or from another node. Memory is
    /// worth more than a lock or an annotation.
    pub(super) fn take_cached(&self, fit: &Fit) -> Option<PageRange> {
        let (id, mut node) = self.cache.lock(self.platform.cpu());
        let found = self.take_cached_of(&mut node, fit);
        // Where new memory is cheap, another CPU's cache lines are not worth it yet.
        if found.is_some() || self.max_slack_percent == 0 {
            return found;
        }
        self.cache.trim_credit(&mut node);
        let found = self.take_of_others(id, &mut node, |_, other| self.take_cached_of(other, fit));
        drop(node);
        found.inspect(|area| self.bring_home(area, id))
    }

    /// Claims addresses that wait in a node, this CPU's or another's, before new ones are taken:
    /// else the areas in use spread farther and farther. In another's it may also be an area with
    /// memory.
    pub(super) fn take_pooled(&self, fit: &Fit, may_have_memory: bool) -> Option<(PageRange, Backing)> {
        let pooled = |node: &mut Node| {
            let start = node.pooled.take(fit.pages(), fit.alignment())?;
            Some((PageRange::of(start, start + fit.pages()), Backing::None))
        };
        let (id, mut node) = self.cache.lock(self.platform.cpu());
        let found = pooled(&mut node);
        if found.is_some() || !node.may_look() {
            return found;
        }
        let found = self.take_of_others(id, &mut node, |own, other| {
            let cached = if may_have_memory { self.take_cached_of(other, fit) } else { None };
            let found = cached.map(|area| (area, Backing::Cached)).or_else(|| pooled(other));
            let (area, backing) = found?;
            // Near the start of the span each node has leaves to itself.
            if area.start() < self.apart_end && other.put_back(area, backing == Backing::Cached) {
                return None;
            }
            // An allocation in need, a purge and a drain look at one node after the other. They
            // would not see what moves from a later one to an earlier.
            if !self.need.is_any() || is(Mutant::Hoard) {
                own.bring(other, area.len(), backing == Backing::Cached, self.apart_end);
            }
            Some((area, backing))
        });
        drop(node);
        found.inspect(|(area, _)| self.bring_home(area, id))
    }

    /// Makes node `id` the owner of the leaf of an area that it took from another: freed areas go
    /// to the owner, and so to the CPU that needed one.
    pub(super) fn bring_home(&self, area: &PageRange, id: usize) {
        self.areas.map().leaf(area.start()).set_owner_node(id);
    }

    /// Takes something from one node other than node `id`, which is held: from the one that had
    /// something the last time, else the next in turn.
    fn take_of_others<T>(
        &self,
        id: usize,
        own: &mut Node,
        mut take: impl FnMut(&mut Node, &mut Node) -> Option<T>,
    ) -> Option<T> {
        let (nodes, other) = (&self.cache.nodes, self.cache.other_than(id, own)?);
        // A node that is held is passed by.
        let found = take(own, &mut *nodes[other].try_lock()?);
        own.looked(other, nodes.len(), found.is_some());
        found
    }

    /// Takes a cached area of a node, of which up to the configured part is not needed.
    pub(super) fn take_cached_of(&self, node: &mut Node, fit: &Fit) -> Option<PageRange> {
        node.take_cached(fit.pages(), fit.alignment(), self.slack_for(fit))
    }

    /// Returns how many pages more than it needs a request may get.
    pub(super) fn slack_for(&self, fit: &Fit) -> u64 {
        (fit.pages() - self.guard_pages) * self.max_slack_percent / 100
    }

    /// Returns whether any area of the size will do for `fit` because all of this space is placed
    /// from the top: then areas that wait were up there as well. In other spaces a request for the
    /// highest place means it.
    #[cold]
    pub(super) fn grows_down(&self, fit: &Fit) -> bool {
        self.options.policy == Policy::Highest && fit.is_highest_anywhere()
    }

    /// Makes a retired area that came from a node busy.
    #[inline(always)]
    fn revive(&self, start: u64) {
        if !self.areas.revive(start) {
            self.platform.fatal(&"an area in a node is not retired");
        }
    }
}
