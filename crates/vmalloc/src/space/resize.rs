//! Changing the size of an area: in place where that is possible.
//!
//! ```text
//!   grow much, memory waits          │ area │g│                    ──►   its bytes are copied to that memory
//!   grow, the neighbour is free      │ area │g│   free   │    ──►   │ area  new │g│ free │
//!   grow, it is not                  │ area │g│ other │          ──►   pages move to an area elsewhere, with as much again free behind it
//!   shrink                           │ area     │g│             ──►   │ area │g│ given back │
//! ```
//!
//! # Where each fact comes from
//! One fact has one source. A caller that changes an area says what is to change; all else is what
//! the area has, or where it has nothing of its own, what the space has.
//!
//! | call | the caller says | the area has | the space has |
//! |---|---|---|---|
//! | [`realloc`](Raw::realloc) | size, alignment, zeros, may block: a [`Resize`] | kind, guard, tag, record; limits, policy, huge pages | policy, slack |
//! | [`grow_in_place`](Raw::grow_in_place), [`shrink_in_place`](Raw::shrink_in_place) | size | kind, guard, start; limits, huge pages | |
//! | [`set_record`](Raw::set_record) | record | | |
//! | `commit`, `decommit`, `map_pages`, `unmap_pages`, `discard`, `reset` | pages, frames, protection | kind, end | |
//! | `protect` | protection | kind, pages | |
//! | `free` and the other calls that free | | kind, guard, tag, pages | what becomes of memory |
//!
//! The node of a request is none of an area's facts: it says where memory is taken from.

use super::alloc::Allocation;
use super::claim::Backing;
use super::request::Content;
use super::{Raw, Request, Resize};
use crate::PageRange;
use crate::areas::{AreaInfo, Blocking, Disposition, FreedBy, Kind};
use crate::platform::{DirectMemory, Platform, PlatformError, Relocate};
use crate::purge::PurgePlan;
use crate::wait::Borders;
use crate::{AllocError, AreaError, FitError, FreeError};
use vmalloc_map::State;

/// From this size on, 4 MiB in pages of 4 KiB, an area that grows gets room to grow again, where
/// areas are cached: elsewhere guards are to be right behind them.
const ROOMY_PAGES: u64 = 1024;
/// That room, in percent of the area: the system is called once for so much.
const ROOM_PERCENT: u64 = 12;
/// A new page takes as long as so many that are copied, or longer: docs/decisions.md has the
/// figures.
const COPIES: u64 = 4;

impl<P: DirectMemory + Relocate> Raw<'_, P> {
    /// Makes the area at `addr` as large as `resize` says, and as aligned. Returns where it is now.
    /// The content is kept as far as it fits; new bytes are of any content, or zeros if that is
    /// asked for. Where freed memory of the new size waits, and a fifth or more of that would be
    /// new, the content is copied to it. Else it grows in place when the addresses behind it are
    /// free, large areas by up to an eighth more, as far as
    /// [`SpaceOptions::max_slack_percent`](crate::SpaceOptions) allows; or its pages are moved,
    /// without copying them where the platform can do that. Pages that it no longer needs are given
    /// back at once, but for as many as that setting allows.
    ///
    /// Everything else stays as the request for the area said: guard, tag and record, and the place
    /// of a move, which is one of the area's limits and policy, at a huge page where it has some.
    ///
    /// Only the content goes along for certain. What the program has changed about the pages by
    /// system calls of its own (locks, protection, advice) may stay with the old place, and its
    /// next owner gets it as after [`free`](Self::free).
    ///
    /// An area consists of whole pages, and the bytes asked for are not noted. A caller that grows
    /// an area by zeros asks for zeros in each call for it, from its allocation on, and writes no
    /// more than it asked for.
    ///
    /// O(log n) and one call of the platform in place; a move costs what the platform's does, and
    /// frees the old place as [`free`](Self::free) does. Waits for a purge under way when it
    /// shrinks, if it may block.
    ///
    /// # Safety
    /// The caller owns the area. If another address is returned nothing uses the old one any more.
    ///
    /// # Errors
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or addresses, memory or
    /// metadata for it run out; nothing is changed.
    #[doc(alias = "vrealloc")]
    pub unsafe fn realloc(&self, addr: usize, resize: &Resize) -> Result<usize, AreaError> {
        // SAFETY: the caller's promise.
        unsafe { self.realloc_written(addr, resize, usize::MAX) }
    }

    /// Does what [`realloc`](Self::realloc) does for an area of which all but the first `written`
    /// bytes are zeros.
    ///
    /// # Safety
    /// That of `realloc`.
    pub(crate) unsafe fn realloc_written(
        &self,
        addr: usize,
        resize: &Resize,
        written: usize,
    ) -> Result<usize, AreaError> {
        let (info, request) = self.resizable(addr, resize)?;
        let resizing = self.resizing(&info, &request)?;
        let (old, pages) = (resizing.old, resizing.asked().len());
        let stays = addr & (request.alignment() - 1) == 0;
        let (new_addr, backing) = if stays && pages <= old.len() {
            // As many more pages may have been given for this size.
            if old.len() > pages + self.space.slack_for(&resizing.allocation.checked.fit) {
                resizing.shrink()?;
            }
            (addr, Backing::None)
        } else if let Some(area) = resizing.take_memory() {
            (resizing.copy_to_memory(area)?, Backing::Cached)
        } else if stays && resizing.grow_with_room()? {
            (addr, Backing::None)
        } else {
            (resizing.move_area()?, Backing::None)
        };
        if resize.content == Content::Zeros {
            resizing.zero_behind(new_addr, resize.bytes(), written, backing);
        }
        Ok(new_addr)
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Makes the area at `addr` larger without moving it. New bytes are of any content. O(log n)
    /// and one call of the platform; a purge as well if freed areas that wait for reuse are behind
    /// it.
    ///
    /// # Safety
    /// The caller owns the area.
    ///
    /// # Errors
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or the addresses behind it
    /// are not free or not inside its limits ([`AllocError::Occupied`]); nothing is changed.
    pub unsafe fn grow_in_place(&self, addr: usize, bytes: usize) -> Result<(), AreaError> {
        let (info, request) = self.resizable(addr, &Resize::new(bytes))?;
        let resizing = self.resizing(&info, &request)?;
        let (old, asked) = (resizing.old, resizing.asked());
        if asked.len() <= old.len() {
            return Ok(());
        }
        // Areas that wait for reuse behind it give way.
        let is_grown = resizing.grow(asked.len())?
            || resizing.is_inside(asked)
                && self.is_idle(old.end(), asked.end())
                && self.space.purge_with(PurgePlan::ALL).is_ok()
                && resizing.grow(asked.len())?;
        if is_grown {
            return Ok(());
        }
        let by = self.space.addrs(PageRange::of(old.end(), asked.end()));
        Err(AllocError::Occupied { asked: self.space.addrs(asked), by }.into())
    }

    /// Makes the area at `addr` smaller without moving it. Pages that it no longer needs are given
    /// back at once. Waits for a purge under way.
    ///
    /// # Safety
    /// The caller owns the area, and nothing uses the bytes behind the new size.
    ///
    /// # Errors
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or `bytes` is more than
    /// it has; nothing is changed.
    pub unsafe fn shrink_in_place(&self, addr: usize, bytes: usize) -> Result<(), AreaError> {
        let (info, request) = self.resizable(addr, &Resize::new(bytes))?;
        let resizing = self.resizing(&info, &request)?;
        if resizing.asked().len() > resizing.old.len() {
            return Err(self.space.beyond(resizing.asked(), self.space.pages_of(&info)));
        }
        resizing.shrink()
    }

    /// Returns what is known of an area that can be resized, and the request for one like it of the
    /// new size.
    fn resizable(&self, addr: usize, resize: &Resize) -> Result<(AreaInfo, Request), FreeError> {
        let info = self.space.area_starting(addr)?;
        if info.kind != Kind::Vmalloc {
            return Err(FreeError::WrongKind { addr });
        }
        Ok((info, resize.like(&info, self.space.areas.placement(self.space.pages_of(&info).start()))))
    }

    /// Returns whether no page from `start` to `end` is busy.
    fn is_idle(&self, start: u64, end: u64) -> bool {
        let map = self.space.areas.map();
        let mut segments = map.segments_from(start).take_while(|it| it.range.start() < end);
        segments.all(|segment| segment.state != State::Busy)
    }

    /// Begins to make an area of the caller's meet `request`.
    fn resizing<'a>(
        &'a self,
        info: &'a AreaInfo,
        request: &'a Request,
    ) -> Result<Resizing<'a, P>, AllocError> {
        let pages = self.space.pages_of(info);
        let old = PageRange::of(pages.start(), pages.end() + u64::from(info.guard));
        let mut allocation = self.begin(request)?;
        allocation.begin_at_huge_page();
        Ok(Resizing { allocation, info, old })
    }
}

/// A change of the size of an area of the caller's.
struct Resizing<'a, P: Platform> {
    /// The area that it is to become.
    allocation: Allocation<'a, P>,
    info: &'a AreaInfo,
    /// All of its pages, the guard too.
    old: PageRange,
}

impl<P: Platform> Resizing<'_, P> {
    /// Returns the pages that the area would have in place.
    fn asked(&self) -> PageRange {
        PageRange::of(self.old.start(), self.old.start() + self.allocation.checked.fit.pages())
    }

    /// Returns whether the area may lie at these pages.
    fn is_inside(&self, pages: PageRange) -> bool {
        let Allocation { space, checked, .. } = &self.allocation;
        checked.fit.limits().unwrap_or(space.geometry.span).covers(&pages)
    }

    /// Gives back the pages that the request does not need. Beside a purge under way they stay
    /// where the call may not wait for it.
    fn shrink(&self) -> Result<(), AreaError> {
        let (space, old) = (self.allocation.space, self.old);
        let Some(tail) = PageRange::new(self.asked().end(), old.end()) else { return Ok(()) };
        let held = match self.allocation.checked.blocking {
            Blocking::Allowed => Some(space.hold_purger()),
            Blocking::Forbidden => space.try_hold_purger(),
        };
        let Some(mut purge) = held else { return Ok(()) };
        purge.purger.list().try_reserve(1).map_err(|_| AllocError::Metadata)?;
        purge.purger.pending.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        space.areas.change(|map| match map.cut_retired(old, tail) {
            true => Ok(()),
            false => Err(AllocError::Metadata),
        })?;
        // The guard of the smaller area goes with the tail. Pages that the platform refuses to
        // unmap are tried again by the next purge; until then that guard may be accessible.
        let gone = PageRange::of(tail.start() - self.allocation.checked.guard_pages, tail.end());
        if purge.unmap_parts(&[gone]).is_ok() {
            space.release(&[tail]);
        } else {
            purge.purger.list().push(tail);
            space.count_taken(usize::MAX, 1, tail.len());
        }
        Ok(())
    }

    /// Grows the area, a large one by an eighth more than was asked for: so that it has room the
    /// next time. Returns whether the addresses behind it were free.
    fn grow_with_room(&self) -> Result<bool, AreaError> {
        let (space, pages) = (self.allocation.space, self.asked().len());
        let may_slack = space.caches && space.max_slack_percent >= ROOM_PERCENT;
        let may_have_room = pages >= ROOMY_PAGES && may_slack;
        let roomy = pages + pages * ROOM_PERCENT / 100;
        // Without addresses or memory for the room, the size asked for may be had.
        if may_have_room && self.grow(roomy) == Ok(true) {
            return Ok(true);
        }
        self.grow(pages)
    }

    /// Grows the area to `pages` pages if the addresses behind it are free. Returns whether they
    /// were.
    fn grow(&self, pages: u64) -> Result<bool, AreaError> {
        let (space, old, checked) = (self.allocation.space, self.old, &self.allocation.checked);
        let new = PageRange::of(old.start(), old.start() + pages);
        let may_wait = checked.blocking == Blocking::Allowed || !space.counts.is_anything_pending();
        if !self.is_inside(new) || !may_wait || space.raw().finish_pending(&[new]).is_err() {
            return Ok(false);
        }
        let (behind, guard) = (PageRange::of(old.end(), new.end()), checked.guard_pages);
        match space.areas.claim_at(behind) {
            Ok(()) => {}
            Err(FitError::Metadata) => return Err(AllocError::Metadata.into()),
            Err(_) => return Ok(false),
        }
        let more = PageRange::of(old.end() - guard, new.end() - guard);
        // The guard page of the area, and pages just claimed.
        if let Err(cause) = self.map(more, 0) {
            space.release(&[behind]);
            return Err(self.allocation.unbacked(cause).into());
        }
        space.areas.join(behind.start());
        Ok(true)
    }

    /// Puts memory behind pages that were just obtained, and are not mapped. Cached memory makes
    /// way for it as for a new area. `moving` pages are used twice, and have memory once.
    fn map(&self, pages: PageRange, moving: u64) -> Result<(), PlatformError> {
        let space = self.allocation.space;
        self.allocation.grow(pages.len(), pages.len() + moving, None);
        // SAFETY: the pages are the caller's alone, and not mapped.
        let map = || unsafe { self.allocation.map_pages(pages) };
        space.or_after_purge(self.allocation.checked.blocking, map)
    }

    /// Takes memory that waits, if a copy to it takes no longer than the pages that would be new.
    fn take_memory(&self) -> Option<PageRange> {
        let new = self.asked().len().saturating_sub(self.old.len());
        if self.info.pages <= COPIES * new { self.allocation.take_memory_for(new) } else { None }
    }

    /// Claims an area for the request, behind which as much again is free if possible: so that it
    /// can grow in place the next time.
    fn claim_with_room(&self) -> Result<PageRange, AllocError> {
        let (space, fit) = (self.allocation.space, self.allocation.placed(Kind::Vmalloc));
        let roomy = fit.of_pages(fit.pages().saturating_mul(2));
        let claim_start = |place: PageRange| {
            let start = fit.within(place.start(), place.start() + fit.pages());
            space.claim_of_map(&start, false).ok()
        };
        // Another thread may be quicker.
        let claimed = space.place_for(&roomy).ok().and_then(claim_start);
        claimed.map_or_else(|| space.claim(&fit, self.allocation.checked.blocking), Ok)
    }
}

impl<P: DirectMemory + Relocate> Resizing<'_, P> {
    /// Zeroes what is behind `bytes` bytes of the area, which is at `addr` now: as far as the
    /// caller has written, and where new pages may hold anything.
    fn zero_behind(&self, addr: usize, bytes: usize, written: usize, backing: Backing) {
        let (space, before) = (self.allocation.space, self.info.bytes);
        let now = space.find(addr).map_or(0, |area| area.bytes);
        let are_zeros = backing == Backing::None && space.geometry.maps_zeroed;
        let fresh = if are_zeros { now } else { before.min(now) };
        let clear = |from: usize, end: usize| {
            let start = core::ptr::with_exposed_provenance_mut::<u8>(addr + from);
            // SAFETY: the area is the caller's, mapped, and that large (`DirectMemory`).
            unsafe { start.write_bytes(0, end.saturating_sub(from)) };
        };
        clear(bytes, written.min(before).min(now));
        clear(fresh, now);
    }

    /// Copies the area to one with memory, which was taken for it.
    fn copy_to_memory(&self, new: PageRange) -> Result<usize, AreaError> {
        let (allocation, space) = (&self.allocation, self.allocation.space);
        space.hand_out(new, allocation.annotation(Kind::Vmalloc), Backing::Cached)?;
        let kept_pages = self.info.pages.min(allocation.payload(new).len());
        let [from, to] = [self.old, new].map(|area| PageRange::of(area.start(), area.start() + kept_pages));
        // SAFETY: both areas are the caller's, with memory.
        unsafe { self.copy(from, to) };
        // As after a move.
        // SAFETY: the old area is the caller's, and its content has another place.
        let _ = unsafe { space.raw().free(self.info.addr) };
        Ok(space.addr(new.start()))
    }

    /// Moves the area to a larger one, or to one that is aligned.
    fn move_area(&self) -> Result<usize, AreaError> {
        let (allocation, space) = (&self.allocation, self.allocation.space);
        let new = self.claim_with_room()?;
        space.hand_out(new, allocation.annotation(Kind::Vmalloc), Backing::None)?;
        let payload = allocation.payload(new);
        let kept_pages = self.info.pages.min(payload.len());
        let kept = PageRange::of(new.start(), new.start() + kept_pages);
        if let Some(more) = PageRange::new(kept.end(), payload.end()) {
            if let Err(cause) = self.map(more, self.old.len()) {
                space.give_up(new, allocation.annotation(Kind::Vmalloc));
                return Err(allocation.unbacked(cause).into());
            }
        }
        let from = PageRange::of(self.old.start(), self.old.start() + kept_pages);
        // SAFETY: both are the caller's; the first was mapped by `map`, and the second is not
        // mapped.
        let disposition = match unsafe { space.platform.relocate(from, kept) } {
            Ok(()) => Disposition::MustUnmap,
            Err(_) => self.copy_area(from, kept).map_err(|cause| {
                // Some part of it is mapped, and no caller has seen it.
                let page = new.start();
                space.sure(space.raw().free_as(page, FreedBy::Free, Disposition::MustUnmap));
                allocation.unbacked(cause)
            })?,
        };
        // The content is at the new place, so that is the answer in any case. If there is no memory
        // to note the old area, and the platform refuses to unmap others, its addresses are lost.
        let _ = space.raw().free_as(self.old.start(), FreedBy::Free, disposition);
        Ok(space.addr(new.start()))
    }

    /// Copies pages that could not be moved. Returns what becomes of those they were in.
    fn copy_area(&self, from: PageRange, to: PageRange) -> Result<Disposition, PlatformError> {
        self.map(to, 0)?;
        // SAFETY: the first is the caller's area, and the second was just mapped for it.
        unsafe { self.copy(from, to) };
        Ok(Disposition::MayCache)
    }

    /// Copies the bytes of pages to as many others.
    ///
    /// # Safety
    /// Both are mapped, disjoint, and the caller's alone.
    unsafe fn copy(&self, from: PageRange, to: PageRange) {
        let space = self.allocation.space;
        let [source, target] =
            [from, to].map(|range| core::ptr::with_exposed_provenance_mut::<u8>(space.addr(range.start())));
        // SAFETY: both are memory of this program (`DirectMemory`), of this length; the rest is the
        // caller's promise.
        unsafe { target.copy_from_nonoverlapping(source, space.bytes(from.len())) };
    }
}
