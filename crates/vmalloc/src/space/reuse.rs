//! Areas that are used again: the common way of an allocation, which calls nothing and touches
//! nothing that CPUs share.

use super::alloc::payload;
use super::claim::Backing;
use super::free::refuse;
use super::{Raw, Request};
use crate::areas::{Annotation, Kind};
use crate::platform::{Platform, Protection};
use crate::wait::SizeStacks;
use crate::{AllocError, PageRange};

impl<P: Platform> Raw<'_, P> {
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
        if below > self.space.offset_mask() || align & below != 0 || !self.space.caches {
            return self.reuse_otherwise(bytes, align);
        }
        self.reuse_cached(self.size_of(bytes), 1)
    }

    /// Allocates in the common case with an alignment above a page, or where nothing is cached.
    #[inline(never)]
    fn reuse_otherwise(&self, bytes: usize, align: usize) -> usize {
        let size = self.size_of(bytes);
        if !align.is_power_of_two() || !SizeStacks::takes(size as u64) {
            return 0;
        }
        let align = (align >> self.space.shift()) as u64;
        if !self.space.caches {
            return self.reuse_addresses(size, align);
        }
        self.reuse_cached(size, align)
    }

    /// Takes a cached area.
    #[inline(always)]
    fn reuse_cached(&self, size: usize, align: u64) -> usize {
        let Some(mut node) = self.space.cache.try_lock(self.space.platform.cpu()) else { return 0 };
        let Some(start) = node.reuse(size, align) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        self.space.addr(start)
    }

    /// Allocates in the common case where nothing keeps its memory.
    #[inline(never)]
    fn reuse_addresses(&self, size: usize, align: u64) -> usize {
        let Some(mut node) = self.space.cache.try_lock(self.space.platform.cpu()) else { return 0 };
        let Some(start) = node.take_pooled(size, align) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        if self.map_reused(start, size) { self.space.addr(start) } else { 0 }
    }

    /// Hands out an area of [`reuse_usual`](Self::reuse_usual), as memory with a record.
    pub(super) fn hand_out_recorded(&self, area: PageRange, request: &Request) -> Result<usize, AllocError> {
        let backing = if self.space.caches { Backing::Cached } else { Backing::None };
        self.space.hand_out(area, self.usual(request, Kind::Vmalloc), backing)?;
        let is_mapped = self.space.caches || self.map_reused(area.start(), area.len() as usize - 1);
        // Without memory the slow path tells why.
        if is_mapped { Ok(self.space.addr(area.start())) } else { self.alloc_slow(request) }
    }

    /// Claims an area for a request without anything special but a record, if one of the size waits
    /// in this CPU's node, which is free: with its memory, if that is what waits there for areas of
    /// this kind.
    pub(super) fn reuse_usual(&self, request: &Request, kind: Kind) -> Option<PageRange> {
        let (bytes, align) = request.usual()?;
        let size = self.size_of(bytes);
        if !align.is_power_of_two() || !SizeStacks::takes(size as u64) {
            return None;
        }
        let align = (align >> self.space.shift()).max(1) as u64;
        let mut node = self.space.cache.try_lock(self.space.platform.cpu())?;
        let start = match kind == Kind::Vmalloc && self.space.caches {
            true => node.reuse(size, align),
            false => node.take_pooled(size, align),
        }?;
        Some(PageRange::of(start, start + size as u64 + 1))
    }

    /// Returns the annotation of an area for such a request.
    pub(super) fn usual(&self, request: &Request, kind: Kind) -> Annotation {
        Annotation { record: request.record, ..Annotation::new(kind, self.space.guard_pages, None) }
    }

    /// Returns the size of the area for `bytes` bytes in the stacks. No bytes are more than any
    /// size there.
    #[inline(always)]
    fn size_of(&self, bytes: usize) -> usize {
        (bytes.wrapping_sub(1) >> self.space.shift()) + self.space.guard_pages as usize
    }

    /// Puts memory behind an area just taken from a pool. If there is none, the area goes back, and
    /// the slow path tells why.
    #[inline(always)]
    fn map_reused(&self, start: u64, size: usize) -> bool {
        let area = PageRange::of(start, start + size as u64 + 1);
        let payload = payload(area, self.space.guard_pages);
        // SAFETY: the area was taken for this caller alone, without memory.
        let mapped = unsafe { self.space.platform.map(payload, Protection::ReadWrite, self.context) };
        if mapped.is_err() {
            self.space.give_up(area, self.space.areas.plain());
        }
        mapped.is_ok()
    }

    /// Makes a retired area that came from a node busy.
    #[inline(always)]
    fn revive(&self, start: u64) {
        if !self.space.areas.revive(start) {
            self.space.platform.fatal(&"an area in a node is not retired");
        }
    }
}
