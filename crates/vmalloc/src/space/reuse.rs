//! Areas that are used again: the common way of an allocation, which calls nobody and touches nothing that CPUs share.

use super::Space;
use super::annotations::Annotation;
use super::free::refuse;
use super::node::Node;
use super::pools::Pools;
use crate::addr::PageRange;
use crate::platform::{Platform, Protection};
use crate::request::{Fit, Policy};
use core::sync::atomic::Ordering;

impl<P: Platform> Space<P> {
    /// The common case: whole pages, nothing special, and an area of the size waits in this CPU's node, which is free; its
    /// address. Else 0, which is no address of any area. A function without calls but for waking those who wait for the node.
    #[inline(never)]
    pub(super) fn reuse(&self, bytes: usize, align: usize) -> usize {
        let below = align.wrapping_sub(1);
        if below > self.offset_mask || align & below != 0 || bytes & self.offset_mask != 0 {
            return self.reuse_aligned(bytes, align);
        }
        if !self.caches {
            return self.reuse_addresses(bytes);
        }
        // For no bytes this is no size, or that of a guard page alone, of which nothing is ever cached.
        let size = (bytes >> self.shift).wrapping_add(self.guard_less_one);
        let node = self.nodes.get(self.platform.cpu()).and_then(|node| node.0.try_lock());
        let Some(mut node) = node else { return 0 };
        let this = &mut *node;
        let Some(start) = this.cached.pop(size) else { return usize::from(refuse(node)) };
        this.grant += size as u64 + 1;
        self.revive(start);
        drop(node);
        self.addr(start)
    }

    /// The same for an alignment above a page.
    #[inline(never)]
    fn reuse_aligned(&self, bytes: usize, align: usize) -> usize {
        let size = (bytes >> self.shift).wrapping_sub(1).saturating_add(self.guard_pages as usize);
        if bytes & self.offset_mask != 0 || !align.is_power_of_two() || !Pools::takes(size as u64) {
            return 0;
        }
        let node = self.nodes.get(self.platform.cpu()).and_then(|node| node.0.try_lock());
        let Some(mut node) = node else { return 0 };
        let (pages, align) = (size as u64 + 1, (align >> self.shift) as u64);
        let this = &mut *node;
        let kept = if self.caches { &mut this.cached } else { &mut this.pools };
        let Some(start) = kept.take(pages, align) else { return usize::from(refuse(node)) };
        if self.caches {
            this.grant += pages;
        }
        self.revive(start);
        drop(node);
        if self.caches || self.map_reused(start, size) { self.addr(start) } else { 0 }
    }

    /// The same where nothing keeps its memory.
    #[inline(never)]
    fn reuse_addresses(&self, bytes: usize) -> usize {
        // No bytes are more than any size.
        let size = (bytes >> self.shift).wrapping_sub(1).saturating_add(self.guard_pages as usize);
        let node = self.nodes.get(self.platform.cpu()).and_then(|node| node.0.try_lock());
        let Some(mut node) = node else { return 0 };
        let Some(start) = node.pools.pop(size) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        if self.map_reused(start, size) { self.addr(start) } else { 0 }
    }

    /// Puts memory behind an area just taken from a pool; if there is none, the area goes back, and the long way tells why.
    #[inline(always)]
    fn map_reused(&self, start: u64, size: usize) -> bool {
        let area = PageRange::of(start, start + size as u64 + 1);
        // SAFETY: the area was taken for this caller alone, without memory.
        let mapped =
            unsafe { self.platform.map(self.payload(area, self.guard_pages), Protection::ReadWrite) };
        if mapped.is_err() {
            self.give_up(area, Annotation::plain(self.config.guard));
        }
        mapped.is_ok()
    }

    /// Claims an area with memory: of the size, somewhat larger, or from another node. Memory is worth
    /// more than a lock or an annotation.
    pub(super) fn take_kept(&self, fit: &Fit) -> Option<PageRange> {
        let (id, mut node) = self.node();
        let found = self.take_from(&mut node, fit);
        // Where new memory is cheap, another CPU's cache lines are not worth it.
        if found.is_some() || self.max_slack_percent == 0 || self.nodes.len() == 1 {
            return found;
        }
        // One after the other, but first where there was something the last time.
        let others = [node.looked_at, node.looked_at + 1].map(|other| other % self.nodes.len());
        drop(node);
        others.into_iter().filter(|&other| other != id).find_map(|other| self.take_elsewhere(id, other, fit))
    }

    /// The same from node `other`, for node `id`. If somebody holds it, it is passed by.
    fn take_elsewhere(&self, id: usize, other: usize, fit: &Fit) -> Option<PageRange> {
        let found = self.take_from(&mut *self.nodes[other].0.try_lock()?, fit);
        self.nodes[id].0.lock().looked_at = if found.is_some() { other } else { other + 1 };
        found
    }

    pub(super) fn take_from(&self, node: &mut Node, fit: &Fit) -> Option<PageRange> {
        let exact = node.cached.take(fit.pages(), fit.alignment());
        let exact = exact.map(|start| PageRange::of(start, start + fit.pages()));
        let area = exact.or_else(|| self.take_larger(node, fit))?;
        node.grant += area.len();
        Some(area)
    }

    /// An area of which up to the configured part is not needed.
    fn take_larger(&self, node: &mut Node, fit: &Fit) -> Option<PageRange> {
        let extra = (fit.pages() - self.guard_pages) * self.max_slack_percent / 100;
        if extra == 0 {
            return None;
        }
        // As long as more can be kept, new areas let every size have its own.
        if self.ungranted.0.load(Ordering::Relaxed) > self.plenty {
            return None;
        }
        node.cached.take_larger(fit.pages(), fit.pages() + extra, fit.alignment())
    }

    /// Whether any area of the size will do for `fit` because all of this space is placed from the top: then areas that wait were
    /// up there as well. In other spaces who asks for the highest place means it.
    #[cold]
    pub(super) fn grows_down(&self, fit: &Fit) -> bool {
        self.config.policy == Policy::Highest && fit.is_highest_anywhere()
    }

    /// Makes a retired area that came from a pool busy.
    #[inline(always)]
    pub(super) fn revive(&self, start: u64) {
        let revived = match self.bitmaps.home(start) {
            Some(record) => self.bitmaps.revive(record, start),
            None => self.revive_beyond(start),
        };
        if !revived {
            self.platform.fatal(&"an area in a pool is not retired");
        }
    }

    /// The same where leaves are dense beyond the first ones.
    #[inline(never)]
    fn revive_beyond(&self, start: u64) -> bool {
        self.bitmaps.sure_home(start).is_some_and(|record| self.bitmaps.revive(record, start))
    }
}
