//! Freeing: out of use at once, unmapped later.

use super::Raw;
use super::held_node::HeldNode;
use crate::FreeError;
use crate::PageRange;
use crate::areas::{Annotation, AreaInfo, Blocking, Disposition, FreedBy, Kind, Retired, Tag};
use crate::platform::Platform;
use crate::wait::{Cache, Node, SizeStacks, make_lazy_room, make_room};
use lock_api::MutexGuard;

/// An area that was freed.
#[derive(Clone, Copy)]
pub(super) struct FreedArea {
    pub(super) area: PageRange,
    /// Pages of memory behind it, or an upper bound.
    memory: u64,
    /// The node that owns it, if its leaf is dense enough for a pool.
    pub(super) owner_node: Option<usize>,
    /// Pages at its end that were never mapped.
    pub(super) guard_pages: u64,
    pub(super) tag: Option<Tag>,
}

impl<P: Platform> Raw<'_, P> {
    /// Frees the memory that [`alloc`](Self::alloc), [`alloc_shared`](Self::alloc_shared) or
    /// [`alloc_exec`](Self::alloc_exec) returned at `addr`. O(1). Now and then it asks the platform
    /// to [drain later](Platform::drain_later). It purges by itself where the platform does not
    /// drain, or where frees have outrun the drain to twice the threshold of lazy pages.
    ///
    /// Cached pages keep what the program has changed about them by system calls of its own (locks,
    /// protection, advice), and the next owner gets them so: see
    /// [`free_altered`](Self::free_altered).
    ///
    /// # Safety
    /// Nothing may use the memory any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed. An area that is freed
    /// twice in a row is told so. A free that comes after the addresses were handed out again is
    /// not caught: it frees the new owner's area.
    #[doc(alias = "vfree")]
    #[inline(always)]
    pub unsafe fn free(&self, addr: usize) -> Result<(), FreeError> {
        if self.free_to_cache(addr) { Ok(()) } else { self.free_any(addr) }
    }

    /// Frees memory in the common case: it is cached, and this CPU's node has room for it. Returns
    /// false, and changes nothing, in any other case: then [`free`](Self::free) does it. This
    /// becomes a part of its caller, for functions that are the last frame before the program.
    ///
    /// # Safety
    /// As for `free`, if this returns true.
    #[inline(always)]
    #[doc(hidden)]
    pub unsafe fn free_to_node(&self, addr: usize) -> bool {
        addr & self.space.cache_mask == 0 && self.free_to_cache_here(addr)
    }

    /// Frees memory, and drops what the program has changed about its pages: locks, protection, and
    /// advice such as `MADV_DONTFORK`. After a plain [`free`](Self::free) the next owner of the
    /// pages may get them as they were left. The pages are never cached. O(pages).
    ///
    /// # Safety
    /// As for `free`.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`, or there is no memory to note that its
    /// pages were changed; nothing is changed.
    #[doc(hidden)]
    pub unsafe fn free_altered(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.space.page(addr)?;
        let is_memory = |area: &AreaInfo| area.kind.freed() == FreedBy::Free;
        if let Some(area) = self.space.area_starting(addr).ok().filter(is_memory) {
            // SAFETY: by the caller's promise the area is the caller's, and nothing uses it any
            // more.
            unsafe { self.space.platform.extras().mark_altered(self.space.pages_of(&area)) }
                .map_err(|_| FreeError::NoMemory { addr })?;
        }
        self.free_as(page, FreedBy::Free, Disposition::MustUnmap)
    }

    /// Frees the addresses that [`reserve`](Self::reserve) returned at `addr`. They are flushed
    /// before reuse, like any others, and what the caller has mapped there is gone then.
    ///
    /// # Safety
    /// Nothing uses the addresses any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub unsafe fn unreserve(&self, addr: usize) -> Result<(), FreeError> {
        self.free_slow(self.space.page(addr)?, FreedBy::Unreserve)
    }

    /// Frees memory or reserved addresses in the common case, where there may be a record, as
    /// [`free_to_node`](Self::free_to_node) does.
    ///
    /// # Safety
    /// As for the call that frees such an area, if this returns true.
    #[inline(always)]
    #[doc(hidden)]
    pub unsafe fn free_noted_to_node(&self, addr: usize, is_reserved: bool) -> bool {
        let by = if is_reserved { FreedBy::Unreserve } else { FreedBy::Free };
        addr & self.space.offset_mask() == 0 && self.free_noted((addr >> self.space.shift()) as u64, by)
    }

    /// Frees an area of any kind that one call frees, and tells what it was. Frames of the caller's
    /// that were mapped there can be given back after the next [`flush`](super::Space::flush).
    ///
    /// # Safety
    /// As for that call.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[doc(alias = "remove_vm_area")]
    pub unsafe fn remove(&self, addr: usize) -> Result<AreaInfo, FreeError> {
        let page = self.space.page(addr)?;
        let info = self.space.area_starting(addr)?;
        match info.kind.freed() {
            FreedBy::Tenant => Err(FreeError::WrongKind { addr }),
            by => self.free_slow(page, by).map(|()| info),
        }
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Frees in the common case: this CPU's node is free, and has room for the area. If it is not
    /// that, nothing was changed. A function without calls but for waking a thread that waits for
    /// the node.
    #[inline(never)]
    fn free_to_cache(&self, addr: usize) -> bool {
        if addr & self.space.cache_mask != 0 {
            return !self.space.caches && self.free_to_lazy(addr);
        }
        self.free_to_cache_here(addr)
    }

    /// Frees in the common case where memory is cached, as a part of its caller. The address has no
    /// bit of [`cache_mask`](super::Space::cache_mask).
    #[inline(always)]
    fn free_to_cache_here(&self, addr: usize) -> bool {
        let page = (addr >> self.space.shift()) as u64;
        let bitmaps = &*self.space.areas.bitmaps;
        let Some(leaf) = bitmaps.home(page) else { return false };
        if leaf.is_noted() {
            return false;
        }
        // Where each leaf is one node's, an area goes home to it: two CPUs that reuse areas of one
        // leaf would wait for each other's cache lines.
        let id = if page < self.space.apart_end { leaf.owner_hint() } else { self.space.platform.cpu() };
        let Some(mut node) = self.space.cache.try_lock(id) else { return false };
        // If no area starts at `page`, this length is garbage; `retire_start` below then fails and
        // it is not used.
        let Some(size) = bitmaps.size_near(leaf, page) else { return refuse(node) };
        let Some((top, credit)) = node.place(size) else { return refuse(node) };
        if !bitmaps.retire_start(leaf, page) {
            return refuse(node);
        }
        top.fill(page);
        *credit -= size + 1;
        drop(node);
        true
    }

    /// Frees in the common case where memory is unmapped later. Where frees trap at once it refuses
    /// every address.
    #[inline(never)]
    fn free_to_lazy(&self, addr: usize) -> bool {
        let page = (addr >> self.space.shift()) as u64;
        let bitmaps = &*self.space.areas.bitmaps;
        let Some(leaf) = bitmaps.home(page) else { return false };
        if addr & self.space.free_mask != 0 || leaf.is_noted() {
            return false;
        }
        let Some(mut node) = self.space.cache.try_lock(self.space.platform.cpu()) else { return false };
        let Some(size) = bitmaps.size_near(leaf, page) else { return refuse(node) };
        // Of an address that may not be of this space, until its start is retired.
        let pages = size.wrapping_add(1);
        if node.is_lazy_special(pages) || !bitmaps.retire_start(leaf, page) {
            return refuse(node);
        }
        node.enter_lazy(PageRange::of(page, page + pages), pages);
        drop(node);
        true
    }

    /// Frees an area with a note in the common case: its memory is cached, goes at once, or is
    /// unmapped later, and a node is free and has room. If it is not that, nothing was changed.
    #[inline(never)]
    fn free_noted(&self, page: u64, by: FreedBy) -> bool {
        let space = self.space;
        let bitmaps = &*space.areas.bitmaps;
        let Some(leaf) = bitmaps.home(page) else { return false };
        let Some(slot) = bitmaps.note_slot(leaf, page) else { return false };
        let Some(size) = bitmaps.size_near(leaf, page) else { return false };
        let simple = space.areas.simple(slot.get(), by);
        let Some(disposition) = simple.filter(|_| space.free_mask != usize::MAX) else { return false };
        let is_cached = space.caches && disposition == Disposition::MayCache;
        let id = if is_cached && page < space.apart_end { leaf.owner_hint() } else { space.platform.cpu() };
        let Some(mut node) = space.cache.try_lock(id) else { return false };
        // Of an address that may not be of this space, until its start is retired.
        let pages = size.wrapping_add(1);
        let has_room = if is_cached { node.place(size).is_some() } else { !node.is_lazy_special(pages) };
        if !has_room || !bitmaps.retire_start(leaf, page) {
            return refuse(node);
        }
        slot.take();
        match node.place(size).filter(|_| is_cached) {
            Some((top, credit)) => {
                top.fill(page);
                *credit -= pages;
            }
            None => node.enter_lazy(PageRange::of(page, page + pages), pages),
        }
        drop(node);
        true
    }

    /// Frees memory in any case.
    #[inline(never)]
    fn free_any(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.space.page(addr)?;
        let home = self.space.areas.bitmaps.sure_home(page);
        if let Some(leaf) = home.filter(|leaf| !leaf.is_noted() && !self.space.options.zero_on_free) {
            let held = self.space.node_with_room(page)?;
            if let Some(area) = self.space.areas.bitmaps.retire(leaf, page) {
                let freed = self.plain_freed(area, leaf.owner_node());
                let put = held.put_freed(freed, Disposition::MayCache);
                return put.inspect_err(|_| self.not_freed(area, self.space.areas.plain(), None, None));
            }
        }
        self.free_slow(page, FreedBy::Free)
    }

    /// Fills memory with zeros that is about to be freed, if it is little. Returns what becomes of
    /// it.
    #[cold]
    fn clear_freed(&self, addr: usize) -> Disposition {
        match self.space.area_starting(addr) {
            Ok(area) if area.kind != Kind::Vmalloc || !SizeStacks::takes(area.pages + 1) => {
                Disposition::MustUnmap
            }
            Ok(area) => {
                // SAFETY: the area's owner frees it, and it is mapped as a whole.
                unsafe { self.space.platform.zero(self.space.pages_of(&area)) };
                Disposition::MayCache
            }
            // The free tells what is wrong.
            Err(_) => Disposition::MayCache,
        }
    }

    /// Frees where there may be an annotation, where it takes the map to find the area, or where
    /// there is none.
    #[inline(never)]
    pub(super) fn free_slow(&self, page: u64, by: FreedBy) -> Result<(), FreeError> {
        if self.free_noted(page, by) { Ok(()) } else { self.free_as(page, by, Disposition::MayCache) }
    }

    /// Frees an area, and says what becomes of its memory.
    pub(super) fn free_as(
        &self,
        page: u64,
        by: FreedBy,
        mut disposition: Disposition,
    ) -> Result<(), FreeError> {
        if self.space.options.zero_on_free && disposition == Disposition::MayCache && by == FreedBy::Free {
            disposition = self.clear_freed(self.space.addr(page));
        }
        let memory = if self.space.options.trap_on_free { u64::MAX } else { self.memory_behind(page, by) };
        let held = self.space.node_with_room(page)?;
        let retired = self.space.areas.retire(page, by, Blocking::Allowed)?;
        if retired.disposition == Disposition::MustUnmap {
            disposition = Disposition::MustUnmap;
        }
        held.put_retired(retired, memory, disposition)
    }
}

impl<P: Platform> HeldNode<'_, P> {
    /// Puts a retired area where its memory belongs. If that fails it is busy as before.
    pub(super) fn put_retired(
        self,
        retired: Retired,
        memory: u64,
        disposition: Disposition,
    ) -> Result<(), FreeError> {
        let space = self.space;
        // The entry is dropped at the end, when no lock is held.
        let Retired { area, owner_node, annotation, entry, .. } = retired;
        let page = area.start();
        let may_show = annotation.kind.may_show_frames();
        let share = if may_show { space.frame_sets.lock().leave(page) } else { None };
        let Annotation { guard_pages, tag, .. } = annotation;
        let freed = FreedArea { area, memory: memory.min(area.len()), owner_node, guard_pages, tag };
        if let Err(error) = self.put_freed(freed, disposition) {
            space.raw().not_freed(area, annotation, entry, share);
            return Err(error);
        }
        // Only now: a purge looks at the shares that were released before it takes the areas.
        if let Some(share) = share {
            space.frame_sets.lock().release(share, page);
        }
        Ok(())
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Returns how many pages of memory are behind the area at `page`, or an upper bound. Only
    /// areas that would start a drain alone are looked at: of others the difference is not
    /// worth a look.
    fn memory_behind(&self, page: u64, by: FreedBy) -> u64 {
        let (space, bitmaps) = (self.space, &self.space.areas.bitmaps);
        let is_memory = matches!(by, FreedBy::Free | FreedBy::Unreserve);
        let is_large = |area: &AreaInfo| area.pages > space.cache.lazy.threshold() && area.kind.freed() == by;
        let near = bitmaps.home(page).and_then(|leaf| bitmaps.size_near(leaf, page));
        // A hint: the address may be of no area.
        let may_be_large = near.is_none_or(|pages| pages >= space.cache.lazy.threshold());
        let area =
            if is_memory && may_be_large { space.find(space.addr(page)).filter(is_large) } else { None };
        // SAFETY: the owner of the area frees it.
        area.map_or(u64::MAX, |area| unsafe { space.platform.extras().resident(space.pages_of(&area)) })
    }

    /// Returns an area without an annotation that was freed.
    #[inline(always)]
    fn plain_freed(&self, area: PageRange, owner_node: Option<usize>) -> FreedArea {
        FreedArea { area, memory: area.len(), owner_node, guard_pages: self.space.guard_pages, tag: None }
    }

    /// Frees a claimed area that kept its memory. Returns false, and changes nothing, where there
    /// is no memory to remember it.
    pub(super) fn free_claimed(&self, area: PageRange) -> bool {
        let Some(leaf) = self.space.areas.bitmaps.sure_home(area.start()) else { return false };
        let Ok(held) = self.space.node_with_room(area.start()) else { return false };
        let freed = self.plain_freed(area, leaf.owner_node());
        held.put_freed(freed, Disposition::MayCache).is_ok()
    }
}

impl<P: Platform> HeldNode<'_, P> {
    /// Caches a retired area, makes it lazy, for which there is room, or unmaps it at once. It
    /// fails where frees trap, or where there is room no more, as other threads had the node while
    /// a list was lengthened; the area is retired still then.
    #[inline]
    fn put_freed(mut self, freed: FreedArea, disposition: Disposition) -> Result<(), FreeError> {
        let space = self.space;
        if space.options.trap_on_free {
            let is_clear = !space.options.zero_on_free || disposition == Disposition::MayCache;
            drop(self);
            return space.raw().unmap_freed(&freed, is_clear);
        }
        let FreedArea { area, memory, owner_node, .. } = freed;
        let fits = owner_node.is_some() && SizeStacks::takes(area.len());
        let may_cache = disposition == Disposition::MayCache && space.caches;
        let has_credit = |node: &Node| node.credit >= area.len();
        let keep = |held: &mut Self| {
            space.cache.keep(&mut held.node, area) || has_credit(&held.node) && held.keep_with_room(area)
        };
        if may_cache && fits && keep(&mut self) {
            drop(self);
            space.tell();
        } else if may_cache && !fits {
            if space.cache.stock.lock().lacks(2).is_some() {
                MutexGuard::unlocked(&mut self.node, || drop(space.cache.lock_stock(2)));
            }
            self.check_room(area)?;
            self.put_stocked(area, memory);
        } else {
            self.check_room(area)?;
            self.node.lazy.areas.push(area);
            self.make_lazy(area.len(), memory);
            self.publish_if_due();
        }
        Ok(())
    }

    /// Caches an area for which there is credit, where it is room that is missing.
    #[cold]
    fn keep_with_room(&mut self, area: PageRange) -> bool {
        make_room(&mut self.node, Node::cached, area.len(), 1) && self.space.cache.keep(&mut self.node, area)
    }

    /// Makes sure that an area can become lazy.
    #[inline]
    fn check_room(&mut self, area: PageRange) -> Result<(), FreeError> {
        let has_room = make_lazy_room(&mut self.node);
        if has_room { Ok(()) } else { Err(FreeError::NoMemory { addr: self.space.addr(area.start()) }) }
    }

    /// Caches an area for which no node has a place, or makes it lazy. Those that it takes the
    /// place of are lazy then.
    #[inline(never)]
    fn put_stocked(mut self, area: PageRange, memory: u64) {
        let (space, areas) = (self.space, &mut self.node.lazy.areas);
        let (room, before) = (areas.capacity() - areas.len(), areas.len());
        // The last place is for the area itself.
        let Cache { stock, budget, .. } = &space.cache;
        let (is_kept, mut evicted) = stock.lock().put(budget, area, memory, room - 1, areas, &space.areas);
        if !is_kept {
            areas.push(area);
            evicted += memory;
        }
        let pages = areas[before..].iter().map(PageRange::len).sum();
        space.counts.held(areas.len() - before + 1);
        if pages == 0 {
            drop(self);
            return space.tell();
        }
        self.make_lazy(pages, evicted);
        self.publish_if_due();
        space.areas.supply_late();
    }

    /// Counts pages that became lazy here, and of which `memory` have memory.
    #[inline]
    pub(super) fn make_lazy(&mut self, pages: u64, memory: u64) {
        self.node.count_lazy(pages, memory);
        if pages != memory && self.space.cache.lazy.add_absent(pages - memory) {
            self.node.publish_next();
        }
    }
}

/// Releases the node and returns false. Apart, so that the common way out of its caller has nothing
/// to remember over the release.
#[cold]
#[inline(never)]
pub(super) fn refuse<L: lock_api::RawMutex>(node: MutexGuard<'_, L, Node>) -> bool {
    drop(node);
    false
}
