//! Memory, or frames of the caller's, behind parts of reserved areas, at addresses that the caller
//! chooses: buffer pools, wasm memories, heaps of JIT compilers, per-CPU memory.
//!
//! ```text
//!                 commit                     decommit
//!   addresses ──────────────► memory ──────────────────► addresses      a touch traps again
//!   (reserve)                 │    ▲
//!       │                     └────┘ discard, reset                     reads as zero, stays committed
//!       │        map_pages                 unmap_pages
//!       └───────────────────► frames ──────────────────► addresses
//! ```
//!
//! Each call takes many ranges, also of different areas, and makes one call of the platform for all
//! of them, where the platform has such a call.

use super::Raw;
use super::frame_list::FrameList;
use crate::PageRange;
use crate::areas::{Blocking, Kind};
use crate::platform::{Discard, Frame, MapFrames, Origin, Platform, PlatformError, Protection};
use crate::purge::{join, meets, sort};
use crate::{AllocError, AreaError, FreeError, RequestError};
use alloc::vec::Vec;
use core::ops::Range;

impl<P: Platform> Raw<'_, P> {
    /// Puts memory behind `ranges`, which reads as zero: addresses of whole pages inside areas of
    /// [`reserve`](Self::reserve), in any order. O(n log n) in the ranges, and a call of the
    /// platform for each run of neighbours. Purges, and tries again, where memory is short.
    ///
    /// # Safety
    /// The caller owns the areas. None of the pages is committed, or mapped in another way, and no
    /// other thread commits or decommits them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`]: a range is empty, not of whole pages, not inside a reserved area, or meets
    /// another one; or the platform has no memory. Nothing is committed then.
    pub unsafe fn commit(&self, ranges: &[Range<usize>]) -> Result<(), AreaError> {
        let ranges = self.ranges_of(ranges, |kind| kind == Kind::Reserved)?;
        self.finish_pending(&ranges)?;
        for (done, range) in ranges.iter().enumerate() {
            // SAFETY: the pages are the caller's, and not mapped.
            if let Err(error) = unsafe { self.map_zeroed(*range, Blocking::Allowed) } {
                // Pages that can't be unmapped now are unmapped with their area, at the latest. To
                // remember them takes memory, of which there may be none.
                let done = &ranges[..done];
                let _ = self.unmap_parts(done).is_ok()
                    || self.space.hold_purger().means().unmap_and_flush(done).is_ok();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Commits one range as [`commit`](Self::commit) does, but never purges nor waits for a purge:
    /// for contexts that must not. One call of the platform.
    ///
    /// # Safety
    /// See [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`AreaError`] as there; [`FreeError::Contended`] where pages may still have to be unmapped.
    /// Nothing is committed then.
    pub unsafe fn try_commit(&self, range: Range<usize>) -> Result<(), AreaError> {
        let pages = self.pages_between(&range)?;
        self.area_around(pages, |kind| kind == Kind::Reserved)?;
        let is_pending = || self.space.try_hold_purger().is_none_or(|purge| purge.is_pending(pages));
        if self.space.counts.is_anything_pending() && is_pending() {
            return Err(FreeError::Contended { addr: range.start }.into());
        }
        // SAFETY: the pages are the caller's, and not mapped.
        Ok(unsafe { self.map_zeroed(pages, Blocking::Forbidden) }?)
    }

    /// Puts zeroed memory behind pages.
    ///
    /// # Safety
    /// They are the caller's, and not mapped.
    unsafe fn map_zeroed(&self, pages: PageRange, blocking: Blocking) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise.
        let map = || unsafe { self.space.platform().map(pages, Protection::ReadWrite, self.context) };
        self.space.or_after_purge(blocking, map)?;
        if !self.space.geometry.maps_zeroed {
            // SAFETY: the pages are the caller's, and were just mapped.
            unsafe { self.space.platform().zero(pages) };
        }
        Ok(())
    }

    /// Takes the memory behind `ranges` away: addresses of whole pages inside areas of
    /// [`reserve`](Self::reserve), in any order, committed or not. On return a touch of them traps
    /// on every CPU. One unmap and one flush for all of them; waits for a purge under way.
    ///
    /// # Safety
    /// The caller owns the areas, nothing uses the pages any more, none shows frames
    /// ([`unmap_pages`](Self::unmap_pages) is for those), and no other thread commits or decommits
    /// them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`] for ranges as in [`commit`](Self::commit): nothing is changed. If the platform
    /// refused, the next purge decommits the pages, or this when it is called again, and nothing is
    /// committed there before.
    pub unsafe fn decommit(&self, ranges: &[Range<usize>]) -> Result<(), AreaError> {
        let ranges = self.ranges_of(ranges, |kind| kind == Kind::Reserved)?;
        self.unmap_parts(&ranges)
    }
}

impl<P: MapFrames> Raw<'_, P> {
    /// Maps frames of the supply into an area of [`reserve`](Self::reserve), from `addr` on, where nothing is
    /// mapped yet. O(frames).
    ///
    /// # Safety
    /// None of the pages is committed, and no other thread maps, unmaps or frees them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is changed.
    #[doc(alias = "vm_area_map_pages")]
    pub unsafe fn map_pages(
        &self,
        addr: usize,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), AreaError> {
        let range = self.reserved_pages(addr, frames.len() as u64)?;
        FrameList::Frames(frames).check(self.space.platform(), Origin::Supply)?;
        self.finish_pending(&[range])?;
        let mut pages = range.start()..range.end();
        if let Some(page) = pages.find(|&page| self.space.platform.frame_at(page).is_some()) {
            return Err(AreaError::Mapped { addr: self.space.addr(page) });
        }
        // SAFETY: the pages are in an area of the caller's, and not mapped; the frames were
        // checked.
        let map = |list: FrameList<'_>| unsafe { self.map_or_purge(range, list, protection) };
        FrameList::with_runs(self.space.platform(), frames, map).map_err(AreaError::Platform)
    }

    /// Unmaps `pages` pages of an area of [`reserve`](Self::reserve), from `addr` on, all of which
    /// show frames. On return no CPU reaches the frames through them. Waits for a purge under way.
    /// O(pages), and a flush.
    ///
    /// # Safety
    /// Nothing uses the frames through these pages any more, and no other thread maps, unmaps or
    /// frees them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is changed, unless the platform refused: then the next purge unmaps
    /// the pages, or this when it is called again, and nothing is mapped there before.
    #[doc(alias = "vm_area_unmap_pages")]
    pub unsafe fn unmap_pages(&self, addr: usize, pages: u64) -> Result<(), AreaError> {
        let range = self.reserved_pages(addr, pages)?;
        // Pages that were refused before may be those that are asked for again.
        let space = self.space;
        let is_pending = space.counts.is_anything_pending() && space.hold_purger().is_pending(range);
        self.finish_pending(&[range])?;
        let is_mapped = |page: &u64| self.space.platform.frame_at(*page).is_some();
        match (range.start()..range.end()).find(|page| !is_mapped(page)) {
            Some(page) if !is_pending => return Err(AreaError::NotMapped { addr: self.space.addr(page) }),
            _ if !(range.start()..range.end()).any(|page| is_mapped(&page)) => return Ok(()),
            _ => {}
        }
        self.unmap_parts(&[range])
    }
}

impl<P: Discard> Raw<'_, P> {
    /// Makes `ranges` read as zero and gives their memory back to the machine: addresses of whole
    /// pages that are committed, or are memory of [`alloc`](Self::alloc), in any order. They stay
    /// usable. One call of the platform for all of them.
    ///
    /// # Safety
    /// The caller owns the areas, nothing needs the content of the pages, none shows frames, and no
    /// other thread changes them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`]: a range is empty, not of whole pages, not inside such an area, or meets
    /// another one; nothing is changed. If the platform refused, each page reads as zero or as
    /// before.
    pub unsafe fn discard(&self, ranges: &[Range<usize>]) -> Result<(), AreaError> {
        let ranges = self.ranges_of(ranges, is_memory)?;
        // SAFETY: the pages are the caller's, mapped, and of no use to it.
        unsafe { self.space.platform().discard(&ranges) }.map_err(AreaError::Platform)
    }

    /// Makes `ranges` read as zero, as [`discard`](Self::discard) does, but in the way that costs
    /// least if they are used again. Memory of a range stays and is cleared while not more than 64
    /// of its pages were used. Of a range with more, the memory is discarded. O(n log n) in the
    /// ranges, one look at what was used for each large range, and one call for all that is
    /// discarded.
    ///
    /// # Safety
    /// See [`discard`](Self::discard).
    ///
    /// # Errors
    /// See [`discard`](Self::discard).
    pub unsafe fn reset(&self, ranges: &[Range<usize>]) -> Result<(), AreaError> {
        let mut ranges = self.ranges_of(ranges, is_memory)?;
        // SAFETY: the pages are the caller's, mapped, and of no use to it.
        ranges.retain(|range| !unsafe { self.zero_used(*range) });
        if ranges.is_empty() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.space.platform().discard(&ranges) }.map_err(AreaError::Platform)
    }

    /// Clears the pages of `range` that were used, if they are few. Returns whether they were.
    ///
    /// # Safety
    /// The caller owns the pages, they are mapped, and nothing needs their content.
    unsafe fn zero_used(&self, range: PageRange) -> bool {
        let platform = self.space.platform();
        // The caller says that they are used, and a look costs more than they do.
        if range.len() <= MOST_ZEROED / 2 {
            // SAFETY: the pages are the caller's and mapped.
            unsafe { platform.zero(range) };
            return true;
        }
        let mut used = 0;
        // SAFETY: as above.
        unsafe { platform.touched(range, &mut |run| used += run.len()) };
        if used <= MOST_ZEROED {
            // SAFETY: as above; no thread has used other pages meanwhile.
            unsafe { platform.touched(range, &mut |run| platform.zero(run)) };
        }
        used <= MOST_ZEROED
    }
}

/// The most used pages that a reset clears: to clear one takes a thirtieth of dropping it and
/// touching it again. More would hold memory that may not be needed.
const MOST_ZEROED: u64 = 64;

fn is_memory(kind: Kind) -> bool {
    matches!(kind, Kind::Reserved | Kind::Vmalloc)
}

impl<P: Platform> Raw<'_, P> {
    /// Returns the pages of `ranges`, ascending and with neighbours joined, which all lie in areas
    /// of a kind that is wanted.
    fn ranges_of(
        &self,
        ranges: &[Range<usize>],
        is_wanted: impl Fn(Kind) -> bool,
    ) -> Result<Vec<PageRange>, AreaError> {
        let mut all = Vec::new();
        all.try_reserve_exact(ranges.len()).map_err(|_| AllocError::Metadata)?;
        // Many ranges of one area cost one look-up: the area is in use, and stays where it is.
        let mut area: Option<PageRange> = None;
        for range in ranges {
            let asked = self.pages_between(range)?;
            if !area.is_some_and(|pages| pages.covers(&asked)) {
                area = Some(self.area_around(asked, &is_wanted)?);
            }
            all.push(asked);
        }
        sort(&mut all);
        if let Some(two) = all.windows(2).find(|two| two[0].end() > two[1].start()) {
            let (first, second) = (self.space.addrs(two[0]), self.space.addrs(two[1]));
            return Err(AreaError::Overlap { first, second });
        }
        join(&mut all);
        Ok(all)
    }

    /// Returns the pages of one range.
    pub(crate) fn pages_between(&self, range: &Range<usize>) -> Result<PageRange, AreaError> {
        // The end is of no area, wherever it lies.
        let end = self.space.page(range.end).map_err(|_| FreeError::Unaligned { addr: range.end });
        let (start, end) = (self.space.page(range.start)?, end?);
        Ok(PageRange::new(start, end).ok_or(RequestError::ZeroSize)?)
    }

    /// Returns the pages of the area that holds all of `asked`, if it is of a kind that is wanted.
    pub(super) fn area_around(
        &self,
        asked: PageRange,
        is_wanted: impl Fn(Kind) -> bool,
    ) -> Result<PageRange, AreaError> {
        let addr = self.space.addr(asked.start());
        let area = self.space.find(addr).ok_or(FreeError::NotAnArea { addr })?;
        let pages = self.space.pages_of(&area);
        if !is_wanted(area.kind) {
            return Err(FreeError::WrongKind { addr: area.addr }.into());
        }
        if pages.covers(&asked) { Ok(pages) } else { Err(self.space.beyond(asked, pages)) }
    }

    /// Returns `pages` pages from `addr` on, which lie in a reserved area.
    fn reserved_pages(&self, addr: usize, pages: u64) -> Result<PageRange, AreaError> {
        let asked = PageRange::from_len(self.space.page(addr)?, pages).ok_or(match pages {
            0 => RequestError::ZeroSize,
            _ => RequestError::SizeOverflow { bytes: self.space.bytes(pages) },
        })?;
        self.area_around(asked, |kind| kind == Kind::Reserved).map(|_| asked)
    }

    /// Unmaps and flushes parts of areas in use, which are disjoint and ascending.
    fn unmap_parts(&self, ranges: &[PageRange]) -> Result<(), AreaError> {
        // One at a time, as the platform is promised.
        if ranges.is_empty() { Ok(()) } else { self.space.hold_purger().unmap_parts(ranges) }
    }

    /// Makes sure that no page of `ranges`, which are disjoint and ascending, has still to be
    /// unmapped, before pages are mapped there.
    pub(super) fn finish_pending(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if !self.space.counts.is_anything_pending() {
            return Ok(());
        }
        let (mut purge, meets) = (self.space.hold_purger(), |pending: &PageRange| meets(ranges, pending));
        let means = purge.means();
        purge.purger.finish_pending(&means, meets).map_or(Ok(()), Err)
    }
}
