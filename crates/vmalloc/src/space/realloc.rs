//! Changing the size of an area: in place where that is possible.
//!
//! ```text
//!   grow, the neighbour is free      │ area │g│   free   │    ──►   │ area  new │g│ free │
//!   grow, it is not                  │ area │g│ other │          ──►   pages move to an area elsewhere, with as much again free behind it
//!   shrink                           │ area     │g│             ──►   │ area │g│ given back │
//! ```
//! In the area map a change of size is a free and an allocation at the same place, with the map held: others see one or the
//! other.

use super::alloc::Backing;
use super::annotations::{Annotation, Table};
use super::free::Disposition;
use super::kind::FreedBy;
use super::map::HeldMap;
use super::purge::Purger;
use super::request::Checked;
use super::{AreaInfo, Kind, Request, Space};
use crate::addr::PageRange;
use crate::area_map::Leaf;
use crate::error::{AllocError, AreaError, FreeError};
use crate::platform::{DirectMemory, Platform, PlatformError, PlatformFault, Protection, Relocate};
use crate::request::Fit;
use core::fmt;
use core::ptr::NonNull;
use lock_api::MutexGuard;

impl<P: DirectMemory + Relocate> Space<P> {
    /// Makes the area at `memory` one of `bytes` bytes; where it is now. What it held is kept as far as it fits; what is new is of any
    /// content. It grows in place when the addresses behind it are free, and else its pages are moved, without copying them where the platform
    /// can do that. What it no longer needs is given back at once. Its tag stays, and so does its alignment only as long as it does.
    ///
    /// O(log n) and one call of the platform in place; a move costs what the platform's does. Waits for a purge under way when it shrinks.
    ///
    /// # Safety
    /// The caller owns the area. If another address is returned nothing uses the old one any more.
    ///
    /// # Errors
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or what it takes is not to be had; nothing is changed.
    pub unsafe fn vrealloc(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, AreaError> {
        // SAFETY: the caller's promise.
        unsafe { self.vrealloc_addr(memory.as_ptr().expose_provenance(), bytes) }
            .map(|addr| self.pointer(addr))
    }

    /// The same, by address.
    ///
    /// # Safety
    /// As for [`vrealloc`](Self::vrealloc).
    ///
    /// # Errors
    /// As for [`vrealloc`](Self::vrealloc).
    pub unsafe fn vrealloc_addr(&self, addr: usize, bytes: usize) -> Result<usize, AreaError> {
        let info = self.resizable(addr)?;
        let request = if info.guard { Request::new(bytes) } else { Request::new(bytes).without_guard() };
        let checked =
            request.check(self.shift, self.config.guard, self.config.policy).map_err(AllocError::from)?;
        let page = (addr >> self.shift) as u64;
        let old = PageRange::of(page, page + info.pages + u64::from(info.guard));
        if checked.fit.pages() <= old.len() {
            self.shrink_area(old, &info, &checked)?;
        } else if !self.grow_area(old, &info, &checked)? {
            return self.move_area(old, &info, &checked);
        }
        Ok(addr)
    }

    fn resizable(&self, addr: usize) -> Result<AreaInfo, FreeError> {
        let page = self.page(addr)?;
        let info = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        match info.kind {
            _ if info.addr != addr => {
                Err(FreeError::Interior { page, start: (info.addr >> self.shift) as u64 })
            }
            Kind::Vmalloc => Ok(info),
            _ => Err(FreeError::WrongKind { page }),
        }
    }

    /// Gives back what `old` has and the request does not need.
    fn shrink_area(&self, old: PageRange, info: &AreaInfo, checked: &Checked) -> Result<(), AreaError> {
        let new = PageRange::of(old.start(), old.start() + checked.fit.pages());
        let annotation = checked.annotation(new, self.shift, Kind::Vmalloc, info.tag);
        let Some(tail) = PageRange::new(new.end(), old.end()) else {
            return self.reannotate(old, annotation).map_err(AreaError::from);
        };
        let mut purger = self.purger.0.lock();
        purger.remote().try_reserve(1).map_err(|_| AllocError::Metadata)?;
        purger.torn.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        self.reshape(old, new, annotation)?;
        self.give_tail(&mut purger, tail, checked.guard_pages);
        Ok(())
    }

    /// Unmaps the retired pages `tail` and as many before them as a guard has, and gives their addresses back. What the platform refuses to
    /// unmap is tried again by the next purge; until then the guard page before them may be accessible.
    fn give_tail(&self, purger: &mut Purger, tail: PageRange, guard_pages: u64) {
        let gone = PageRange::of(tail.start() - guard_pages, tail.end());
        if self.unmap_or_remember(purger, gone).is_ok() {
            self.release(&[tail]);
        } else {
            purger.remote().push(tail);
            self.count_taken(1, tail.len());
        }
    }

    /// Whether `old` now has what the request needs, because the addresses behind it were free.
    fn grow_area(&self, old: PageRange, info: &AreaInfo, checked: &Checked) -> Result<bool, AreaError> {
        let new = PageRange::of(old.start(), old.start() + checked.fit.pages());
        if !self.geometry.span.covers(&new) || self.mend(new).is_err() {
            return Ok(false);
        }
        match self.reshape(old, new, checked.annotation(new, self.shift, Kind::Vmalloc, info.tag)) {
            Ok(()) => {}
            Err(AllocError::Metadata) => return Err(AllocError::Metadata.into()),
            Err(_) => return Ok(false),
        }
        let more = PageRange::of(old.end() - checked.guard_pages, new.end() - checked.guard_pages);
        // SAFETY: the pages are the area's, which is the caller's, and were not mapped: the last guard page, and free ones.
        let map = || unsafe { self.platform.map(more, Protection::ReadWrite) };
        if let Err(cause) = self.or_after_purge(checked, map) {
            let mut table = self.annotations.lock(old.start());
            let mut map = self.map();
            self.cut_back(&mut map, new, old);
            // There is room for the annotation that was there.
            let _ = table.try_reserve(1);
            self.set_annotation(&mut table, map.leaf(old.start()), old.start(), self.annotation_of(info));
            drop((map, table));
            return Err(self.unbacked(&checked.fit, cause).into());
        }
        Ok(true)
    }

    /// Moves the area to a larger one.
    fn move_area(&self, old: PageRange, info: &AreaInfo, checked: &Checked) -> Result<usize, AreaError> {
        let new = self.claim_with_room(checked)?;
        let annotation = checked.annotation(new, self.shift, Kind::Vmalloc, info.tag);
        self.hand_out(new, annotation, Backing::None)?;
        let kept = PageRange::of(new.start(), new.start() + info.pages);
        let more = PageRange::of(kept.end(), new.end() - checked.guard_pages);
        // SAFETY: the area was just obtained for this caller alone.
        let map = || unsafe { self.platform.map(more, Protection::ReadWrite) };
        if let Err(cause) = self.or_after_purge(checked, map) {
            self.give_up(new, annotation);
            return Err(self.unbacked(&checked.fit, cause).into());
        }
        let from = PageRange::of(old.start(), old.start() + info.pages);
        // SAFETY: both are the caller's; the first was mapped by `map`, and the second is not mapped.
        let fate = match unsafe { self.platform.relocate(from, kept) } {
            Ok(()) => Disposition::MustUnmap,
            Err(error) => self.copy_area(from, kept, error, checked).map_err(|cause| {
                self.abandon(new.start());
                self.unbacked(&checked.fit, cause)
            })?,
        };
        self.free_as(old.start(), FreedBy::Vfree, fate)?;
        Ok(self.addr(new.start()))
    }

    /// Copies what could not be moved; what becomes of the pages it was in.
    fn copy_area(
        &self,
        from: PageRange,
        to: PageRange,
        why: PlatformError,
        checked: &Checked,
    ) -> Result<Disposition, PlatformError> {
        if why.fault != PlatformFault::Unsupported && why.fault != PlatformFault::MapLimit {
            return Err(why);
        }
        // SAFETY: the pages were obtained for this caller alone, and are not mapped.
        self.or_after_purge(checked, || unsafe { self.platform.map(to, Protection::ReadWrite) })?;
        let (source, target) = (self.pointer(self.addr(from.start())), self.pointer(self.addr(to.start())));
        // SAFETY: both are mapped memory of this program (`DirectMemory`), of this length, disjoint, and the caller's alone.
        unsafe { target.copy_from_nonoverlapping(source, (from.len() << self.shift) as usize) };
        Ok(Disposition::MayCache)
    }

    /// Frees an area that nobody has seen, of which some part is mapped.
    fn abandon(&self, page: u64) {
        if let Err(error) = self.free_as(page, FreedBy::Vfree, Disposition::MustUnmap) {
            self.platform.fatal(&error);
        }
    }
}

impl<P: Platform> Space<P> {
    fn annotation_of(&self, info: &AreaInfo) -> Annotation {
        let slack = (info.pages << self.shift) - info.bytes as u64;
        Annotation { kind: info.kind, guard_pages: u64::from(info.guard), slack, tag: info.tag }
    }

    /// The table of the annotation of the area at `page`, held, with room for one.
    fn roomy_table(&self, page: u64) -> Result<MutexGuard<'_, P::RawLock, Table>, AllocError> {
        let mut table = self.annotations.lock(page);
        table.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        Ok(table)
    }

    /// Enters another annotation for the busy area `area`, or none.
    fn reannotate(&self, area: PageRange, annotation: Annotation) -> Result<(), AllocError> {
        let mut table = self.roomy_table(area.start())?;
        self.set_annotation(&mut table, self.map().leaf(area.start()), area.start(), annotation);
        Ok(())
    }

    /// Enters `annotation` for the area at `page`, which lies in `leaf`, into its table, where there is room;
    /// or removes the annotation that is there if this is none.
    fn set_annotation(&self, table: &mut Table, leaf: &Leaf, page: u64, annotation: Annotation) {
        if !annotation.is_plain(self.config.guard) {
            table.insert(page, annotation);
            leaf.annotation_entered(page);
        } else if self.annotations.remove(table, page) {
            leaf.annotations_left(page);
        }
    }

    /// Makes the busy area `old` the area `new`, which starts at the same page, with another annotation. The
    /// table and the map are held together, so nobody finds the range of one with the annotation of the other.
    fn reshape(&self, old: PageRange, new: PageRange, annotation: Annotation) -> Result<(), AllocError> {
        let mut table = self.roomy_table(old.start())?;
        let mut map = self.map();
        self.resize(&mut map, old, new)?;
        self.set_annotation(&mut table, map.leaf(new.start()), new.start(), annotation);
        Ok(())
    }

    /// Makes the busy area `old` the area `new`, which starts at the same page. What is left of a larger one is retired.
    fn resize(
        &self,
        map: &mut HeldMap<'_, P::RawLock>,
        old: PageRange,
        new: PageRange,
    ) -> Result<(), AllocError> {
        let leaf = map.leaf(old.start());
        let (owner_node, noted) = (leaf.owner_node(), leaf.may_be_annotated(old.start()));
        let result = self.replace(map, old, new);
        if result.is_err() {
            // What was there a moment ago fits again: its records have just been given back.
            self.sure(map.alloc_at(old));
        }
        self.describe_leaf(map, old.start(), owner_node, noted);
        result
    }

    /// The same without its undoing: when it fails, `old` is free.
    fn replace(
        &self,
        map: &mut HeldMap<'_, P::RawLock>,
        old: PageRange,
        new: PageRange,
    ) -> Result<(), AllocError> {
        self.sure(map.free(old.start()));
        map.alloc_at(new)?;
        let Some(tail) = PageRange::new(new.end(), old.end()) else { return Ok(()) };
        if let Err(refused) = map.alloc_at(tail) {
            self.sure(map.free(new.start()));
            return Err(refused);
        }
        self.sure(map.retire(tail.start()));
        Ok(())
    }

    /// Cuts the busy area `old` down to `new`, which starts at the same page; the rest is free, and was never mapped.
    fn cut_back(&self, map: &mut HeldMap<'_, P::RawLock>, old: PageRange, new: PageRange) {
        let leaf = map.leaf(old.start());
        let (owner_node, noted) = (leaf.owner_node(), leaf.may_be_annotated(old.start()));
        self.sure(map.free(old.start()));
        // It takes no more records than the larger one.
        self.sure(map.alloc_at(new));
        self.describe_leaf(map, new.start(), owner_node, noted);
    }

    /// Tells a leaf again what it may have forgotten with its last area.
    fn describe_leaf(
        &self,
        map: &HeldMap<'_, P::RawLock>,
        page: u64,
        owner_node: Option<usize>,
        noted: bool,
    ) {
        let leaf = map.leaf(page);
        if let Some(owner_node) = owner_node {
            leaf.set_owner_node(owner_node);
        }
        if noted {
            leaf.annotation_entered(page);
        }
    }

    pub(super) fn sure<T, E: fmt::Display>(&self, result: Result<T, E>) -> T {
        match result {
            Ok(value) => value,
            Err(damage) => self.platform.fatal(&damage),
        }
    }

    /// An area for the request, behind which as much again is free if possible: so that it can grow in place the next time.
    fn claim_with_room(&self, checked: &Checked) -> Result<PageRange, AllocError> {
        let pages = checked.fit.pages();
        let roomy = Fit::new(pages.saturating_mul(2)).ok().and_then(|fit| self.try_claim(&fit).ok());
        let Some(area) = roomy else { return self.claim(checked.fit) };
        let part = PageRange::of(area.start(), area.start() + pages);
        let mut map = self.map();
        self.sure(map.revive(area.start()));
        self.cut_back(&mut map, area, part);
        // Not busy before it is handed out.
        self.sure(map.retire(part.start()));
        Ok(part)
    }
}
