//! Areas in which the caller maps frames page by page.

use super::alloc::Backing;
use super::frame_list::FrameList;
use super::{Raw, Request, Space};
use crate::PageRange;
use crate::areas::{FreedBy, Kind};
use crate::platform::{Frame, MapFrames, Origin, Platform, PlatformError, Protection};
use crate::purge::meets;
use crate::{AllocError, AreaError, FreeError, RequestError};

impl<P: Platform> Raw<'_, P> {
    /// Allocates addresses into which frames can be mapped later, at any page. Returns the first.
    /// Cost as [`reserve`](Self::reserve).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "get_vm_area")]
    pub fn alloc_sparse(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = self.check(request)?;
        let area = self.claim_checked(&checked)?;
        let annotation = checked.annotation(Kind::Sparse, request.tag);
        self.hand_out(area, annotation, Backing::None)?;
        Ok(self.addr(area.start()))
    }
}

impl<P: MapFrames> Raw<'_, P> {
    /// Frees the area that [`alloc_sparse`](Self::alloc_sparse) returned at `addr`, and unmaps all
    /// of it. The frames are the caller's. O(mapped pages), and what the platform takes to skip the
    /// rest.
    ///
    /// # Safety
    /// Nothing uses what is mapped there any more, or maps there: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[doc(alias = "free_vm_area")]
    pub unsafe fn free_sparse(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        if let Some(area) = self.area_starting(addr).ok().filter(|area| area.kind == Kind::Sparse) {
            // SAFETY: the caller owns the area.
            unsafe { self.hint_unused_frames(self.pages_of(&area)) };
        }
        self.free_slow(page, FreedBy::FreeSparse)
    }

    /// Maps frames of the supply into a sparse or reserved area, from `addr` on, where nothing is
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
        let range = self.sparse_area(addr, frames.len() as u64)?;
        self.finish_pending(&[range])?;
        self.check_frames(frames, Origin::Supply)?;
        let mut pages = range.start()..range.end();
        if let Some(page) = pages.find(|&page| self.platform.frame_at(page).is_some()) {
            return Err(AreaError::Mapped { page });
        }
        // SAFETY: the pages are in an area of the caller's, and not mapped; the frames were
        // checked.
        let map = |list: FrameList<'_>| unsafe { self.map_or_purge(range, list, protection) };
        self.with_runs(frames, map).map_err(AreaError::Platform)
    }

    /// Unmaps `pages` pages of a sparse or reserved area, from `addr` on, all of which show frames.
    /// On return no CPU reaches the frames through them. Waits for a purge under way.
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
        let range = self.sparse_area(addr, pages)?;
        // Pages that were refused before may be those that are asked for again.
        let is_pending = self.is_pending(range);
        self.finish_pending(&[range])?;
        let is_mapped = |page: &u64| self.platform.frame_at(*page).is_some();
        match (range.start()..range.end()).find(|page| !is_mapped(page)) {
            Some(page) if !is_pending => return Err(AreaError::NotMapped { page }),
            _ if !(range.start()..range.end()).any(|page| is_mapped(&page)) => return Ok(()),
            _ => {}
        }
        // One at a time, as the platform is promised.
        let mut purger = self.purger.lock();
        purger.pending.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        // The caller owns the pages.
        purger.unmap_or_remember(&self.unmapper(), &[range]).map_err(AreaError::Platform)
    }
}

impl<P: MapFrames> Space<P> {
    /// Tells the platform that nothing uses the frames that are mapped somewhere in `range`.
    ///
    /// # Safety
    /// The caller owns the pages, and nothing uses them.
    unsafe fn hint_unused_frames(&self, range: PageRange) {
        let mut rest = Some(range);
        while let Some(start) = rest.and_then(|left| self.platform.first_mapped(left)) {
            let is_empty = |page: &u64| self.platform.frame_at(*page).is_none();
            let end = (start..range.end()).find(is_empty).unwrap_or(range.end());
            // SAFETY: the caller owns the pages, and frames are mapped there.
            unsafe { self.platform.discard_hint(PageRange::of(start, end)) };
            rest = PageRange::new(end, range.end());
        }
    }
}

impl<P: Platform> Space<P> {
    /// Returns the pages asked for, which lie in a sparse area.
    fn sparse_area(&self, addr: usize, pages: u64) -> Result<PageRange, AreaError> {
        let page = self.page(addr)?;
        let asked = PageRange::from_len(page, pages).ok_or(match pages {
            0 => RequestError::ZeroSize,
            _ => RequestError::SizeOverflow { bytes: self.bytes(pages) },
        })?;
        let area = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        let pages = self.pages_of(&area);
        if !matches!(area.kind, Kind::Sparse | Kind::Reserved) {
            return Err(FreeError::WrongKind { page: pages.start() }.into());
        }
        if pages.covers(&asked) { Ok(asked) } else { Err(AreaError::Beyond { asked, pages }) }
    }

    /// Makes sure that no page of `ranges`, which are disjoint and ascending, has still to be
    /// unmapped, before pages are mapped there.
    pub(super) fn finish_pending(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        if !self.counts.is_anything_pending() {
            return Ok(());
        }
        let meets = |pending: &PageRange| meets(ranges, pending);
        let refusal = self.purger.lock().finish_pending(&self.unmapper(), meets);
        refusal.map_or(Ok(()), Err)
    }

    /// Returns whether a page of `range` has still to be unmapped.
    fn is_pending(&self, range: PageRange) -> bool {
        self.counts.is_anything_pending()
            && self.purger.lock().pending.iter().any(|it| it.intersection(&range).is_some())
    }
}
