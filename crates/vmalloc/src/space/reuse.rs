//! Areas that are used again: the common way of an allocation, which calls nothing and touches
//! nothing that CPUs share.

use super::alloc::payload;
use super::claim::Backing;
use super::free::refuse;
use super::{Raw, Request};
use crate::PageRange;
use crate::areas::{Annotation, Kind};
use crate::platform::{Platform, Protection};
use crate::wait::SizeStacks;
use vmalloc_map::parts::Note;

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
        let Some(mut node) = self.space.cache.try_lock(self.space.platform.cpu()) else { return 0 };
        let Some(start) = node.reuse(self.size_of(bytes), 1) else { return usize::from(refuse(node)) };
        self.revive(start);
        drop(node);
        self.space.addr(start)
    }

    /// Allocates in the common case with an alignment above a page, or where nothing is cached.
    #[inline(never)]
    fn reuse_otherwise(&self, bytes: usize, align: usize) -> usize {
        self.reuse_as(Kind::Vmalloc, bytes, align, Note::default())
    }

    /// Allocates in the common case for a request without anything special but a record, as memory
    /// or as reserved addresses, or returns 0. This becomes a part of its caller, as
    /// [`alloc_from_node`](Self::alloc_from_node) does.
    #[inline(always)]
    #[doc(hidden)]
    pub fn reuse_noted(&self, request: &Request, is_reserved: bool) -> usize {
        let Some((bytes, align)) = request.usual() else { return 0 };
        let kind = if is_reserved { Kind::Reserved } else { Kind::Vmalloc };
        let (record, usual) = (request.record, Annotation::new(kind, self.space.guard_pages, None));
        self.reuse_as(kind, bytes, align, Annotation { record, ..usual }.note(self.space.options.guard))
    }

    /// Allocates in the common case: an area of the size waits in this CPU's node, which is free,
    /// with its memory if areas of this kind have that there. Returns its address, else 0.
    #[inline(always)]
    fn reuse_as(&self, kind: Kind, bytes: usize, align: usize, note: Note) -> usize {
        let (space, size) = (self.space, self.size_of(bytes));
        if !align.is_power_of_two() || !SizeStacks::takes(size as u64) {
            return 0;
        }
        let align = (align >> space.shift()).max(1) as u64;
        let (is_memory, is_cached) = (kind == Kind::Vmalloc, kind == Kind::Vmalloc && space.caches);
        let Some(mut node) = space.cache.try_lock(space.platform.cpu()) else { return 0 };
        let found = if is_cached { node.reuse(size, align) } else { node.take_pooled(size, align) };
        let Some(start) = found else { return usize::from(refuse(node)) };
        let enter = |leaf| space.areas.bitmaps.enter_note(leaf, start, note);
        if note == Note::default() || space.areas.bitmaps.home(start).is_some_and(enter) {
            self.revive(start);
            drop(node);
        } else {
            drop(node);
            let area = PageRange::of(start, start + size as u64 + 1);
            let known = Annotation::of_note(note, space.options.guard).unwrap_or(space.areas.plain());
            // The first note among 256 pages takes memory.
            let backing = if is_cached { Backing::Cached } else { Backing::None };
            if space.hand_out(area, known, backing).is_err() {
                return 0;
            }
        }
        let is_mapped = !is_memory || is_cached || self.map_reused(start, size);
        if is_mapped { space.addr(start) } else { 0 }
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
