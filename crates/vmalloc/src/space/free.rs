//! Taking areas back: out of use at once, unmapped later.

use super::alloc::ROUNDS;
use super::annotations::{Annotation, Table};
use super::drain::Drain;
use super::kind::FreedBy;
use super::map::HeldMap;
use super::node::{Lazy, Node, has_room};
use super::pools::Pools;
use super::{AreaInfo, Kind, Space};
use crate::addr::PageRange;
use crate::area_map::Leaf;
use crate::error::FreeError;
use crate::platform::{DrainReason, Platform};
use crate::sync::size;
use core::sync::atomic::Ordering;
use lock_api::MutexGuard;

/// The least that a node asks for at a time of what all may retain: 1 MiB in pages of 4 KiB.
pub(super) const GRANT_PAGES: u64 = size(256, 2);

/// What becomes of the memory of a freed area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disposition {
    /// It may be kept for reuse.
    MayCache,
    /// It has to go, or there is none.
    MustUnmap,
}

/// An area out of use, on its way to a list.
pub(super) struct Retired {
    pub(super) area: PageRange,
    /// The node that asked for it, if it is near enough for a pool.
    owner_node: Option<usize>,
    fate: Disposition,
    pub(super) kind: Kind,
}

impl<P: Platform> Space<P> {
    /// Frees the memory that [`alloc`](Self::alloc) or a relative returned at `addr`. O(1). Now and then it asks the platform
    /// to [drain later](Platform::drain_later). It purges by itself where the platform does not drain, or
    /// where frees have outrun the drain to twice the threshold of lazy pages.
    ///
    /// Cached pages keep what the program has changed about them by system calls of its own (locks,
    /// protection, advice), and the next owner gets them so: see [`vfree_altered`](Self::vfree_altered).
    ///
    /// # Safety
    /// Nothing may use the memory any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed. An area that is freed twice
    /// in a row is told so. A free that comes after the addresses were handed out again is not
    /// caught: it frees the new owner's area.
    #[inline(always)]
    pub unsafe fn vfree(&self, addr: usize) -> Result<(), FreeError> {
        let freed = if self.caches { self.cache_here(addr) } else { self.free_here(addr) };
        if freed { Ok(()) } else { self.free_any(addr) }
    }

    /// Frees memory as [`vfree`](Self::vfree) does, and drops what the program has changed about its
    /// pages: locks, protection, and advice such as `MADV_DONTFORK`. After a plain `vfree` the next
    /// owner of the pages may get them as they were left. The pages are never cached. O(pages).
    ///
    /// # Safety
    /// As for `vfree`.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`, or there is no memory to annotation that its pages
    /// were changed; nothing is changed.
    pub unsafe fn vfree_altered(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let area = self.find(addr).filter(|area| area.addr == addr && area.kind.freed() == FreedBy::Vfree);
        if let Some(area) = area {
            // SAFETY: by the caller's promise the area is the caller's, and nothing uses it any more.
            unsafe { self.platform.mark_altered(PageRange::of(page, page + area.pages)) }
                .map_err(|_| FreeError::NoMemory { page })?;
        }
        self.free_as(page, FreedBy::Vfree, Disposition::MustUnmap)
    }

    /// The common case where memory is cached: this CPU's node is free, and has room for the area. If it is not that, nothing
    /// was changed. A function without calls but for waking those who wait for the node.
    #[inline(never)]
    fn cache_here(&self, addr: usize) -> bool {
        let page = (addr >> self.shift) as u64;
        let Some(record) = self.bitmaps.home(page) else { return false };
        if addr & self.offset_mask != 0 || record.may_be_annotated(page) {
            return false;
        }
        let node = self.nodes.get(self.platform.cpu()).and_then(|node| node.0.try_lock());
        let Some(mut node) = node else { return false };
        // What this is worth if no area starts here does not matter: then none is retired.
        let Some(pages) = self.bitmaps.pages_near(record, page) else { return refuse(node) };
        let this = &mut *node;
        let Some(slot) = this.cached.slot(pages) else { return refuse(node) };
        if this.grant < pages || !self.bitmaps.retire_start(record, page) {
            return refuse(node);
        }
        slot.fill(page);
        this.grant -= pages;
        drop(node);
        true
    }

    /// The same where memory goes.
    #[inline(never)]
    fn free_here(&self, addr: usize) -> bool {
        let page = (addr >> self.shift) as u64;
        let Some(record) = self.bitmaps.home(page) else { return false };
        if addr & self.offset_mask != 0 || record.may_be_annotated(page) {
            return false;
        }
        let id = self.platform.cpu();
        let Some(mut node) = self.nodes.get(id).and_then(|node| node.0.try_lock()) else { return false };
        let Some(pages) = self.bitmaps.pages_near(record, page) else { return refuse(node) };
        let this = &mut *node;
        let (own, lazy) = (&mut this.lazy.own, this.unpublished + pages);
        let fits = own.len() < own.capacity() && lazy < this.alarm;
        if !fits
            || !record.is_owned_by(id)
            || !Pools::takes(pages)
            || !self.bitmaps.retire_start(record, page)
        {
            return refuse(node);
        }
        this.unpublished = lazy;
        own.push(PageRange::of(page, page + pages));
        drop(node);
        true
    }

    /// Any case.
    #[inline(never)]
    fn free_any(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        if let Some(record) = self.bitmaps.sure_home(page)
            && !record.may_be_annotated(page)
        {
            let (id, node) = self.node_with_room(page)?;
            if let Some(area) = self.bitmaps.retire(record, page) {
                self.take_back(id, node, area, record.owner_node(), Disposition::MayCache);
                return Ok(());
            }
        }
        self.free_far(page, FreedBy::Vfree)
    }

    /// Frees the addresses that [`reserve`](Self::reserve) returned at `addr`. They are flushed before reuse, like
    /// any others, and what the caller has mapped there is gone then.
    ///
    /// # Safety
    /// Nothing uses the addresses any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub unsafe fn unreserve(&self, addr: usize) -> Result<(), FreeError> {
        self.free_far(self.page(addr)?, FreedBy::Unreserve)
    }

    /// Frees an area of any kind that has a call of its own to free it, and tells what it was. Frames of the caller's that were mapped there can
    /// be given back after the next [`flush_unmap_aliases`](Self::flush_unmap_aliases).
    ///
    /// # Safety
    /// As for that call.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub unsafe fn remove_vm_area(&self, addr: usize) -> Result<AreaInfo, FreeError> {
        let page = self.page(addr)?;
        let info = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        if info.addr != addr {
            return Err(FreeError::Interior { page, start: (info.addr >> self.shift) as u64 });
        }
        match info.kind.freed() {
            FreedBy::UnmapRam | FreedBy::PcpuFree | FreedBy::Purge => Err(FreeError::WrongKind { page }),
            by => self.free_far(page, by).map(|()| info),
        }
    }

    /// Frees where there may be an annotation, where it takes the map to find the area, or where there is none.
    #[inline(never)]
    pub(super) fn free_far(&self, page: u64, by: FreedBy) -> Result<(), FreeError> {
        self.free_as(page, by, Disposition::MayCache)
    }

    /// The same where the memory has to go, for example because it has gone.
    pub(super) fn free_as(&self, page: u64, by: FreedBy, fate: Disposition) -> Result<(), FreeError> {
        let (id, node) = self.node_with_room(page)?;
        let mut retired =
            self.retire_annotated(self.annotations.lock(page), page, by, || Some(self.map()))?;
        if fate == Disposition::MustUnmap {
            retired.fate = Disposition::MustUnmap;
        }
        let share = if retired.kind.may_show_lot() { self.lots.lock().leave(page) } else { None };
        self.take_back(id, node, retired.area, retired.owner_node, retired.fate);
        // Only now: a purge looks at the shares that were left before it takes the areas.
        if let Some(share) = share {
            self.lots.lock().bury(share);
        }
        Ok(())
    }

    /// This CPU's node, held, with room for one more area to be unmapped. What is freed has to be remembered until then: where
    /// memory for that is short, a purge makes room.
    #[inline]
    fn node_with_room(&self, page: u64) -> Result<(usize, MutexGuard<'_, P::RawLock, Node>), FreeError> {
        let (id, mut node) = self.node();
        if has_room(&mut node.lazy.remote) { Ok((id, node)) } else { self.node_after_purge(page, node) }
    }

    #[cold]
    #[inline(never)]
    fn node_after_purge<'a>(
        &'a self,
        page: u64,
        node: MutexGuard<'a, P::RawLock, Node>,
    ) -> Result<(usize, MutexGuard<'a, P::RawLock, Node>), FreeError> {
        drop(node);
        // Others may take the room that it makes.
        for _ in 0..ROUNDS {
            self.purge_with(Drain::ALL).map_err(|_| FreeError::NoMemory { page })?;
            let (id, mut node) = self.node();
            if has_room(&mut node.lazy.remote) {
                return Ok((id, node));
            }
        }
        Err(FreeError::NoMemory { page })
    }

    /// Takes an area that such a call frees out of use, and its annotation. The map is asked for where it
    /// takes that, once; if it is not to be had, this is contended. No lock is waited for here.
    pub(super) fn retire_annotated<'a>(
        &'a self,
        mut table: MutexGuard<'_, P::RawLock, Table>,
        page: u64,
        by: FreedBy,
        map: impl FnOnce() -> Option<HeldMap<'a, P::RawLock>>,
    ) -> Result<Retired, FreeError> {
        let annotation = table.get(&page).copied().unwrap_or(Annotation::plain(self.config.guard));
        let home = self.bitmaps.sure_home(page);
        let near = home.filter(|record| self.bitmaps.is_busy(record, page));
        let mut held = None;
        let area = match near {
            Some(_) if annotation.kind.freed() != by => return Err(FreeError::WrongKind { page }),
            Some(record) => self.bitmaps.retire(record, page).ok_or(FreeError::AlreadyFreed { page })?,
            None => {
                let map = held.insert(map().ok_or(FreeError::Contended { page })?);
                retire_by_map(map, page, annotation.kind.freed() == by)?
            }
        };
        if self.annotations.remove(&mut table, page)
            // Without a home it took the map.
            && let Some(leaf) = home.or_else(|| held.as_ref().map(|map| map.leaf(page)))
        {
            leaf.annotations_left(page);
        }
        // Only areas with the usual guard are kept: every area of a size can then stand in for every other.
        let usual = annotation.guard_pages == self.guard_pages && annotation.kind == Kind::Vmalloc;
        let fate = if usual { Disposition::MayCache } else { Disposition::MustUnmap };
        Ok(Retired { area, owner_node: home.and_then(Leaf::owner_node), fate, kind: annotation.kind })
    }

    /// Keeps a retired area, or makes it lazy, for which the node has room. `owner_node` is the node that asked for it, if it is near enough for a pool.
    #[inline]
    fn take_back(
        &self,
        id: usize,
        mut node: MutexGuard<'_, P::RawLock, Node>,
        area: PageRange,
        owner_node: Option<usize>,
        fate: Disposition,
    ) {
        let fits = owner_node.is_some() && Pools::takes(area.len());
        if fate == Disposition::MayCache && self.caches && fits {
            let quiet = node.grant == 0;
            if self.keep(&mut node, area) {
                drop(node);
                if quiet {
                    self.platform.drain_later(DrainReason::Age);
                }
                return;
            }
        }
        let Lazy { own, remote } = &mut node.lazy;
        let is_own = owner_node == Some(id) && fits && has_room(own);
        if is_own {
            own.push(area);
        } else {
            remote.push(area);
        }
        node.unpublished += area.len();
        if node.unpublished >= node.alarm {
            self.publish(node);
        }
    }

    /// Keeps the memory of `area`, if that is within what is granted.
    #[inline(always)]
    fn keep(&self, node: &mut Node, area: PageRange) -> bool {
        if node.grant < area.len() && !self.grant(node, area.len()) {
            return false;
        }
        let kept = node.cached.put(area);
        if kept {
            node.grant -= area.len();
        }
        kept
    }

    /// Asks for leave to retain `pages` pages more.
    #[inline(never)]
    fn grant(&self, node: &mut Node, pages: u64) -> bool {
        let missing = pages - node.grant;
        let share = |left: u64| (left >= missing).then(|| left - left.min(missing.max(self.grant_pages)));
        // Relaxed: a number that protects nothing.
        if let Ok(left) = self.ungranted.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, share) {
            node.grant += left.min(missing.max(self.grant_pages));
        } else if node.may_search() {
            self.gather(node, missing);
        }
        node.grant >= pages
    }

    /// Takes half of what nodes have been granted and do not use, if that is much: what a node has just reused it will want to
    /// keep again.
    #[cold]
    fn gather(&self, node: &mut Node, missing: u64) {
        for other in &self.nodes {
            // Nobody waits: our own node is among those that are held.
            let Some(mut other) = other.0.try_lock() else { continue };
            if other.grant > 4 * self.grant_pages {
                let half = other.grant / 2;
                other.grant -= half;
                node.grant += half;
            }
            if node.grant >= missing {
                return;
            }
        }
    }

    /// Lets each node tell the platform of its next free: in the child of a fork, where nobody has
    /// heard of what waits there.
    pub(super) fn forget_who_knows(&self) {
        for node in &self.nodes {
            let mut node = node.0.lock();
            node.alarm = 0;
            self.ungranted.0.fetch_add(core::mem::take(&mut node.grant), Ordering::Relaxed);
        }
    }

    /// Adds a node's lazy pages to the sum, and sees to it that they are drained when there are many.
    #[inline(never)]
    fn publish(&self, mut node: MutexGuard<'_, P::RawLock, Node>) {
        let portion = core::mem::take(&mut node.unpublished);
        let quiet = core::mem::replace(&mut node.alarm, self.portion) == 0;
        // Relaxed: a number that starts work, and protects nothing. Added before a purge can take what it counts.
        let total = self.lazy_pages.0.fetch_add(portion, Ordering::Relaxed) + portion;
        drop(node);
        self.see_to(total, portion, quiet);
    }

    /// Sees to it that `total` lazy pages are drained, if they are too many, or the first ones. `added`
    /// of them are new.
    pub(super) fn see_to(&self, total: u64, added: u64, quiet: bool) {
        if self.deferred.is_unseen() {
            self.see_to_deferred();
        }
        if total > self.lazy_max {
            // Within bounds the drain does it. Beyond, freeing is put before everything else. But one huge
            // area is no sign that the drain falls behind, and the caller does not wait for its purge.
            let is_promised = self.platform.drain_later(DrainReason::Threshold);
            if !is_promised || (total > self.lazy_most && added <= self.lazy_max) {
                self.purge_if_idle();
            }
        } else if quiet {
            self.platform.drain_later(DrainReason::Age);
        }
    }

    /// Frees a claimed area that kept its memory. Returns false, and changes nothing, where there is
    /// no memory to remember it.
    pub(super) fn discard(&self, area: PageRange) -> bool {
        let Some(record) = self.bitmaps.home(area.start()) else { return false };
        let Ok((id, node)) = self.node_with_room(area.start()) else { return false };
        self.take_back(id, node, area, record.owner_node(), Disposition::MayCache);
        true
    }

    /// Removes the annotation of an area that is busy no more, and is in no list yet.
    pub(super) fn forget_annotation(&self, page: u64) {
        let mut table = self.annotations.lock(page);
        if self.annotations.remove(&mut table, page) {
            self.with_leaf(page, |leaf| leaf.annotations_left(page));
        }
    }

    /// Does something with the leaf in which the area at `page` starts.
    pub(super) fn with_leaf(&self, page: u64, change: impl FnOnce(&Leaf)) {
        match self.bitmaps.sure_home(page) {
            Some(leaf) => change(leaf),
            None => change(self.map().leaf(page)),
        }
    }
}

/// Takes an area out of use that is far out, or tells why there is none.
fn retire_by_map<L: lock_api::RawMutex>(
    map: &mut HeldMap<'_, L>,
    page: u64,
    right_kind: bool,
) -> Result<PageRange, FreeError> {
    if !right_kind && map.find(page).is_some_and(|area| area.start() == page) {
        return Err(FreeError::WrongKind { page });
    }
    map.retire(page)
}

/// Apart, so that the common way out of its caller has nothing to remember over the release.
#[cold]
#[inline(never)]
pub(super) fn refuse<L: lock_api::RawMutex>(node: MutexGuard<'_, L, Node>) -> bool {
    drop(node);
    false
}
