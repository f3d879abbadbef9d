//! Areas in which the caller maps frames page by page.

use super::alloc::Backing;
use super::kind::FreedBy;
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::error::{AllocError, AreaError, FreeError, RequestError};
use crate::platform::{Frame, MapFrames, Origin, Platform, Protection};

impl<P: Platform> Space<P> {
    /// Addresses into which frames can be mapped later, at any page; the first. Cost as [`reserve`](Self::reserve).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "get_vm_area")]
    pub fn sparse(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let area = self.claim_checked(&checked)?;
        let annotation = checked.annotation(area, self.shift, Kind::Sparse, request.tag);
        self.hand_out(area, annotation, Backing::None)?;
        Ok(self.addr(area.start()))
    }

    /// The pages of the sparse area that `asked` lies in.
    fn sparse_area(&self, addr: usize, pages: u64) -> Result<PageRange, AreaError> {
        let page = self.page(addr)?;
        let asked = PageRange::from_len(page, pages).ok_or(match pages {
            0 => RequestError::ZeroSize,
            _ => RequestError::SizeOverflow { bytes: self.bytes(pages) },
        })?;
        let area = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        let start = (area.addr >> self.shift) as u64;
        if !matches!(area.kind, Kind::Sparse | Kind::Percpu) {
            return Err(FreeError::WrongKind { page: start }.into());
        }
        match PageRange::of(start, start + area.pages) {
            pages if pages.covers(&asked) => Ok(asked),
            pages => Err(AreaError::Beyond { asked, pages }),
        }
    }
}

impl<P: MapFrames> Space<P> {
    /// Frees the area that [`sparse`](Self::sparse) returned at `addr`, and unmaps what is mapped in it. The frames are the caller's.
    /// O(what is mapped), and what the platform takes to skip the rest.
    ///
    /// # Safety
    /// Nothing uses what is mapped there any more, or maps there: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[doc(alias = "free_vm_area")]
    pub unsafe fn free_sparse(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let area = self.find(addr).filter(|area| area.addr == addr && area.kind == Kind::Sparse);
        if let Some(area) = area {
            // SAFETY: the caller owns the area.
            unsafe { self.let_go_mapped(PageRange::of(page, page + area.pages)) };
        }
        self.free_far(page, FreedBy::FreeSparse)
    }

    /// Tells the platform that nothing uses what is mapped in `range`.
    ///
    /// # Safety
    /// The caller owns the pages.
    unsafe fn let_go_mapped(&self, range: PageRange) {
        let mut rest = Some(range);
        while let Some((range, start)) = rest.and_then(|rest| Some((rest, self.platform.first_mapped(rest)?)))
        {
            let is_empty = |page: &u64| self.platform.frame_at(*page).is_none();
            let end = (start..range.end()).find(is_empty).unwrap_or(range.end());
            // SAFETY: the caller owns the pages, and frames are mapped there.
            unsafe { self.platform.discard_hint(PageRange::of(start, end)) };
            rest = PageRange::new(end, range.end());
        }
    }

    /// Maps frames of the supply into a sparse area, or one of a group of [congruent ones](Self::pcpu_get_vm_areas), from `addr` on, where nothing is mapped yet. O(frames).
    ///
    /// # Safety
    /// Nobody else maps, unmaps or frees these pages meanwhile.
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
        self.mend(range)?;
        self.check_frames(frames, Origin::Supply)?;
        let mut pages = range.start()..range.end();
        if let Some(page) = pages.find(|&page| self.platform.frame_at(page).is_some()) {
            return Err(AreaError::Mapped { page });
        }
        // SAFETY: the pages are in an area of the caller's, and not mapped; the frames were checked.
        unsafe { self.map_or_purge(range, frames, protection) }.map_err(AreaError::Platform)
    }

    /// Unmaps `pages` pages of a sparse area, from `addr` on, all of which are mapped; on return no CPU reaches the frames through them.
    /// Waits for a purge under way. O(pages), and a flush.
    ///
    /// # Safety
    /// Nothing uses the frames through these pages any more, and nobody else maps, unmaps or frees them meanwhile.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is changed, unless the platform refused: then the next purge unmaps the pages, or this when it is called
    /// again, and nothing is mapped anew before.
    #[doc(alias = "vm_area_unmap_pages")]
    pub unsafe fn unmap_pages(&self, addr: usize, pages: u64) -> Result<(), AreaError> {
        let range = self.sparse_area(addr, pages)?;
        // What was refused before may be what is asked for again.
        let is_torn = self.is_torn_in(range);
        self.mend(range)?;
        let is_mapped = |page: &u64| self.platform.frame_at(*page).is_some();
        match (range.start()..range.end()).find(|page| !is_mapped(page)) {
            Some(page) if !is_torn => return Err(AreaError::NotMapped { page }),
            _ if !(range.start()..range.end()).any(|page| is_mapped(&page)) => return Ok(()),
            _ => {}
        }
        // SAFETY: the caller owns the pages.
        unsafe { self.unmap_now(range) }
    }
}
