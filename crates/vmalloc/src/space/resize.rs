//! Changing the size of an area: in place where that is possible.
//!
//! ```text
//!   grow, the neighbour is free      │ area │g│   free   │    ──►   │ area  new │g│ free │
//!   grow, it is not                  │ area │g│ other │          ──►   pages move to an area elsewhere, with as much again free behind it
//!   shrink                           │ area     │g│             ──►   │ area │g│ given back │
//! ```

use super::alloc::{Backing, payload};
use super::request::{Checked, Content};
use super::{Raw, Request, Space};
use crate::Fit;
use crate::PageRange;
use crate::areas::{AreaInfo, Disposition, FreedBy, Kind};
use crate::cache::Borders;
use crate::platform::{DirectMemory, Platform, PlatformError, Protection, Relocate};
use crate::purge::{PurgePlan, Purger};
use crate::{AllocError, AreaError, FitError, FreeError};
use vmalloc_map::State;

/// From this size on, 4 MiB in pages of 4 KiB, an area that grows gets room to grow again, where
/// areas are cached: elsewhere guards are to be right behind them.
const ROOMY_PAGES: u64 = 1024;
/// That room, in percent of the area: the system is called once for so much.
const ROOM_PERCENT: u64 = 12;

impl<P: DirectMemory + Relocate> Raw<'_, P> {
    /// Makes the area at `addr` meet `request`: its size, and its alignment. Returns where it is
    /// now. The content is kept as far as it fits; new pages are of any content, or zeros if the
    /// request asks for them. It grows in place when the addresses behind it are free, large areas
    /// by up to an eighth more, as far as [`SpaceOptions::max_slack_percent`](crate::SpaceOptions) allows;
    /// else its pages are moved, without copying them where the platform can do that. Pages
    /// that it no longer needs are given back at once, but for as many as that setting allows. Its
    /// tag and its guard stay.
    ///
    /// An area consists of whole pages, and the bytes asked for are not noted. A caller that grows
    /// an area by zeros asks for zeros in each call for it, from its allocation on, and writes no
    /// more than it asked for.
    ///
    /// O(log n) and one call of the platform in place; a move costs what the platform's does. Waits
    /// for a purge under way when it shrinks.
    ///
    /// # Safety
    /// The caller owns the area. If another address is returned nothing uses the old one any more.
    ///
    /// # Errors
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or addresses, memory or
    /// metadata for it run out; nothing is changed.
    #[doc(alias = "vrealloc")]
    pub unsafe fn realloc(&self, addr: usize, request: &Request) -> Result<usize, AreaError> {
        // SAFETY: the caller's promise.
        unsafe { self.realloc_written(addr, request, usize::MAX) }
    }

    /// Does what [`realloc`](Self::realloc) does for an area of which all but the first `written`
    /// bytes are zeros.
    ///
    /// # Safety
    /// That of `realloc`.
    pub(crate) unsafe fn realloc_written(
        &self,
        addr: usize,
        request: &Request,
        written: usize,
    ) -> Result<usize, AreaError> {
        let info = self.resizable(addr)?;
        let checked = self.check_resize(&info, request)?;
        let page = (addr >> self.shift()) as u64;
        let old = PageRange::of(page, page + info.pages + u64::from(info.guard));
        let stays = page & (checked.fit.alignment() - 1) == 0;
        let new_addr = if stays && checked.fit.pages() <= old.len() {
            // As many more pages may have been given for this size.
            if old.len() > checked.fit.pages() + self.slack_for(&checked.fit) {
                self.shrink_area(old, &checked)?;
            }
            addr
        } else if stays && self.grow_with_room(old, &checked)? {
            addr
        } else {
            self.move_area(old, &info, &checked)?
        };
        if request.content == Content::Zeros {
            self.zero_behind(new_addr, &info, request.bytes(), written);
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
    /// [`AreaError`] when no area of [`alloc`](Self::alloc) starts there, or the addresses behind
    /// it are not free ([`AllocError::Occupied`]); nothing is changed.
    pub unsafe fn grow_in_place(&self, addr: usize, bytes: usize) -> Result<(), AreaError> {
        let info = self.resizable(addr)?;
        let checked = self.check_resize(&info, &Request::new(bytes))?;
        let page = (addr >> self.shift()) as u64;
        let old = PageRange::of(page, page + info.pages + u64::from(info.guard));
        let asked = PageRange::of(page, page + checked.fit.pages());
        if asked.len() <= old.len() {
            return Ok(());
        }
        // Areas that wait for reuse behind it give way.
        let pages = checked.fit.pages();
        let is_grown = self.grow_area(old, &checked, pages)?
            || self.is_idle(old.end(), asked.end())
                && self.purge_with(PurgePlan::ALL).is_ok()
                && self.grow_area(old, &checked, pages)?;
        if is_grown {
            return Ok(());
        }
        let by = self.addrs(PageRange::of(old.end(), asked.end()));
        Err(AllocError::Occupied { asked: self.addrs(asked), by }.into())
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
        let info = self.resizable(addr)?;
        let checked = self.check_resize(&info, &Request::new(bytes))?;
        let page = (addr >> self.shift()) as u64;
        let old = PageRange::of(page, page + info.pages + u64::from(info.guard));
        if checked.fit.pages() > old.len() {
            let asked = PageRange::of(page, page + checked.fit.pages());
            return Err(self.beyond(asked, self.pages_of(&info)));
        }
        self.shrink_area(old, &checked)
    }
}

impl<P: Platform> Space<P> {
    fn resizable(&self, addr: usize) -> Result<AreaInfo, FreeError> {
        let info = self.area_starting(addr)?;
        match info.kind {
            Kind::Vmalloc => Ok(info),
            _ => Err(FreeError::WrongKind { addr }),
        }
    }

    /// Returns whether the pages from `start` to `end` are in the span, and none is busy.
    fn is_idle(&self, start: u64, end: u64) -> bool {
        let map = self.areas.map();
        let mut segments = map.segments_from(start).take_while(|it| it.range.start() < end);
        end <= self.geometry.span.end() && segments.all(|segment| segment.state != State::Busy)
    }

    fn check_resize(&self, info: &AreaInfo, request: &Request) -> Result<Checked, AllocError> {
        self.check(&if info.guard { *request } else { request.guard(false) })
    }

    /// Gives back the pages that `old` has and the request does not need.
    fn shrink_area(&self, old: PageRange, checked: &Checked) -> Result<(), AreaError> {
        let end = old.start() + checked.fit.pages();
        let Some(tail) = PageRange::new(end, old.end()) else { return Ok(()) };
        let mut purger = self.purger.lock();
        purger.list().try_reserve(1).map_err(|_| AllocError::Metadata)?;
        purger.pending.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        if !self.areas.cut(old, tail) {
            return Err(AllocError::Metadata.into());
        }
        self.give_tail(&mut purger, tail, checked.guard_pages);
        Ok(())
    }

    /// Unmaps the retired pages `tail` and as many before them as a guard has, and gives their
    /// addresses back. Pages that the platform refuses to unmap are tried again by the next purge;
    /// until then the guard page before them may be accessible.
    fn give_tail(&self, purger: &mut Purger, tail: PageRange, guard_pages: u64) {
        let gone = PageRange::of(tail.start() - guard_pages, tail.end());
        if purger.unmap_or_remember(&self.unmapper(), &[gone]).is_ok() {
            self.release(&[tail]);
        } else {
            purger.list().push(tail);
            self.count_taken(1, tail.len());
        }
    }

    /// Grows `old`, a large area by an eighth more than was asked for: so that it has room the next
    /// time. Returns whether the addresses behind it were free.
    fn grow_with_room(&self, old: PageRange, checked: &Checked) -> Result<bool, AreaError> {
        let pages = checked.fit.pages();
        let may_slack = self.caches && self.max_slack_percent >= ROOM_PERCENT;
        let may_have_room = pages >= ROOMY_PAGES && may_slack;
        let roomy = pages + pages * ROOM_PERCENT / 100;
        // Without addresses or memory for the room, the size asked for may be had.
        if may_have_room && self.grow_area(old, checked, roomy) == Ok(true) {
            return Ok(true);
        }
        self.grow_area(old, checked, pages)
    }

    /// Grows `old` to `pages` pages if the addresses behind it are free. Returns whether they were.
    fn grow_area(&self, old: PageRange, checked: &Checked, pages: u64) -> Result<bool, AreaError> {
        let new = PageRange::of(old.start(), old.start() + pages);
        if !self.geometry.span.covers(&new) || self.finish_pending(&[new]).is_err() {
            return Ok(false);
        }
        let (behind, guard) = (PageRange::of(old.end(), new.end()), checked.guard_pages);
        match self.areas.claim_behind(behind) {
            Ok(()) => {}
            Err(FitError::Metadata) => return Err(AllocError::Metadata.into()),
            Err(_) => return Ok(false),
        }
        let more = PageRange::of(old.end() - guard, new.end() - guard);
        // SAFETY: the pages are the caller's, and were not mapped: the guard page of its area, and
        // pages just claimed.
        let map = || unsafe { self.platform.map(more, Protection::ReadWrite) };
        if let Err(cause) = self.or_after_purge(checked.blocking, map) {
            self.release(&[behind]);
            return Err(self.unbacked(&checked.fit, cause).into());
        }
        self.areas.join(behind.start());
        Ok(true)
    }

    /// Claims an area for the request, behind which as much again is free if possible: so that it
    /// can grow in place the next time.
    fn claim_with_room(&self, checked: &Checked) -> Result<PageRange, AllocError> {
        let pages = checked.fit.pages();
        let roomy = Fit::new(pages.saturating_mul(2)).align(checked.fit.alignment());
        let claim_start = |place: PageRange| {
            let start = checked.fit.within(place.start(), place.start() + pages);
            self.try_claim(&start).ok()
        };
        // Another thread may be quicker.
        let claimed = self.place_for(&roomy).ok().and_then(claim_start);
        claimed.map_or_else(|| self.claim(checked.fit, checked.blocking), Ok)
    }
}

impl<P: DirectMemory + Relocate> Space<P> {
    /// Zeroes what is behind `bytes` bytes of the area at `addr`, which was this one: as far as the
    /// caller has written, and where new pages may hold anything.
    fn zero_behind(&self, addr: usize, info: &AreaInfo, bytes: usize, written: usize) {
        let now = self.find(addr).map_or(0, |area| area.bytes);
        let fresh = if self.geometry.maps_zeroed { now } else { info.bytes.min(now) };
        let clear = |from: usize, end: usize| {
            let start = core::ptr::with_exposed_provenance_mut::<u8>(addr + from);
            // SAFETY: the area is the caller's, mapped, and that large (`DirectMemory`).
            unsafe { start.write_bytes(0, end.saturating_sub(from)) };
        };
        clear(bytes, written.min(info.bytes).min(now));
        clear(fresh, now);
    }

    /// Moves the area to a larger one, or to one that is aligned.
    fn move_area(&self, old: PageRange, info: &AreaInfo, checked: &Checked) -> Result<usize, AreaError> {
        let new = self.claim_with_room(checked)?;
        let annotation = checked.annotation(Kind::Vmalloc, info.tag, info.cookie);
        self.hand_out(new, annotation, Backing::None)?;
        let payload = payload(new, checked.guard_pages);
        let kept_pages = info.pages.min(payload.len());
        let kept = PageRange::of(new.start(), new.start() + kept_pages);
        if let Some(more) = PageRange::new(kept.end(), payload.end()) {
            // SAFETY: the area was just obtained for this caller alone.
            let map = || unsafe { self.platform.map(more, Protection::ReadWrite) };
            if let Err(cause) = self.or_after_purge(checked.blocking, map) {
                self.give_up(new, annotation);
                return Err(self.unbacked(&checked.fit, cause).into());
            }
        }
        let from = PageRange::of(old.start(), old.start() + kept_pages);
        // SAFETY: both are the caller's; the first was mapped by `map`, and the second is not
        // mapped.
        let disposition = match unsafe { self.platform.relocate(from, kept) } {
            Ok(()) => Disposition::MustUnmap,
            Err(_) => self.copy_area(from, kept, checked).map_err(|cause| {
                // Some part of it is mapped, and no caller has seen it.
                let page = new.start();
                self.sure(self.free_as(page, FreedBy::Free, Disposition::MustUnmap));
                self.unbacked(&checked.fit, cause)
            })?,
        };
        // The content is at the new place, so that is the answer in any case. If there is no memory
        // to note the old area, and the platform refuses to unmap others, its addresses are lost.
        let _ = self.free_as(old.start(), FreedBy::Free, disposition);
        Ok(self.addr(new.start()))
    }

    /// Copies pages that could not be moved. Returns what becomes of those they were in.
    fn copy_area(
        &self,
        from: PageRange,
        to: PageRange,
        checked: &Checked,
    ) -> Result<Disposition, PlatformError> {
        // SAFETY: the pages were obtained for this caller alone, and are not mapped.
        let map = || unsafe { self.platform.map(to, Protection::ReadWrite) };
        self.or_after_purge(checked.blocking, map)?;
        let [source, target] =
            [from, to].map(|range| core::ptr::with_exposed_provenance_mut::<u8>(self.addr(range.start())));
        // SAFETY: both are mapped memory of this program (`DirectMemory`), of this length,
        // disjoint, and the caller's alone.
        unsafe { target.copy_from_nonoverlapping(source, self.bytes(from.len())) };
        Ok(Disposition::MayCache)
    }
}
