//! Short mappings of given frames: `vm_map_ram`.

use super::kind::FreedBy;
use super::{Kind, Space};
use crate::addr::PageRange;
use crate::block::{MOST_PAGES, Mark, Place};
use crate::error::{AllocError, FreeError, RequestError};
use crate::platform::{Frame, MapFrames, Origin, Platform, PlatformError, Protection};
use crate::request::Fit;

impl<P: MapFrames> Space<P> {
    /// Maps `frames` of the supply for a short while, readable and writable; the address of the first. Frames that follow each other
    /// are mapped already where the platform has a [linear map](Frames::linear): then this costs some tens of instructions. Else up to 64
    /// pages get slots of a [block](crate::block), at one call of the platform, and more an area of their own. Where mappings
    /// [replace](Platform::replaces) each other, the windows last used are kept as they are, so that the same frames are found mapped.
    /// No guard page.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. When the machine has no mapping left, even after everything that is not in use was unmapped,
    /// the cause says so ([`MapLimit`](crate::PlatformFault::MapLimit)).
    pub fn vm_map_ram(&self, frames: &[Frame]) -> Result<usize, AllocError> {
        match self.linear_addr(frames) {
            Some(addr) => Ok(addr),
            None => self.map_scattered(frames),
        }
    }

    /// Ends what [`vm_map_ram`](Self::vm_map_ram) began at `addr` for `count` frames, on whatever CPU. The addresses are flushed before
    /// they lead elsewhere; until then a stray access may reach the frames.
    ///
    /// # Safety
    /// Nothing uses the frames through this mapping any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such mapping begins there; nothing is changed. [`WrongCount`](FreeError::WrongCount) when it is one of another
    /// number of pages.
    pub unsafe fn vm_unmap_ram(&self, addr: usize, count: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        if let Some(linear) = self.geometry.linear_map.filter(|linear| linear.contains(page)) {
            return self.end_linear(page, Frame(page - linear.start()), count);
        }
        let pages = count as u64;
        if pages > MOST_PAGES && !self.is_in_block(page) {
            let area = self.find(addr).filter(|area| area.addr == addr && area.pages == pages);
            if area.is_some() {
                // SAFETY: the caller owns the mapping.
                unsafe { self.let_go(page, FreedBy::UnmapRam) };
            }
            return self.free_large(page, pages);
        }
        let block = self.blocks.near(page).or_else(|| self.blocks.get(page));
        if block.is_some_and(|block| block.mark(page) == Mark::Live { pages }) {
            let first = if self.may_keep(pages) { self.platform.frame_at(page) } else { None };
            // Before the slots are returned: afterwards they may be somebody else's.
            // SAFETY: the mapping is the caller's, and made of frames.
            unsafe { self.platform.discard_hint(PageRange::of(page, page + pages)) };
            if let Some(Frame(frame)) = first
                && self.keep_run(page, frame, pages)
            {
                return Ok(());
            }
        }
        self.return_slots(addr, pages)
    }

    /// The frames where they always are, if they follow each other there.
    #[inline]
    fn linear_addr(&self, frames: &[Frame]) -> Option<usize> {
        let linear = self.geometry.linear_map?;
        let first = *frames.first()?;
        if !frames.iter().zip(first.0..).all(|(frame, number)| frame.0 == number) {
            return None;
        }
        let pages = frames.len() as u64;
        if first.0.checked_add(pages).is_none_or(|end| end > linear.len()) {
            return None;
        }
        (self.platform.are_taken(first, pages) && self.linear.take(first, pages))
            .then(|| self.addr(linear.start() + first.0))
    }

    fn end_linear(&self, page: u64, first: Frame, count: usize) -> Result<(), FreeError> {
        let given = count as u64;
        self.linear.give(first, given).map_err(|mapped| match mapped.pages {
            0 => FreeError::NotAnArea { page },
            mapped => FreeError::WrongCount { page, mapped, given },
        })
    }

    #[inline(never)]
    fn map_scattered(&self, frames: &[Frame]) -> Result<usize, AllocError> {
        let pages = frames.len() as u64;
        if pages == 0 {
            return Err(RequestError::ZeroSize.into());
        }
        self.check_frames(frames, Origin::Supply)?;
        let kept = if self.may_keep(pages) { self.take_kept_run(frames[0].0, pages) } else { None };
        let addr = kept.map_or_else(|| self.block_alloc(pages), Ok)?;
        let page = (addr >> self.shift) as u64;
        let range = PageRange::of(page, page + pages);
        // SAFETY: the pages were just obtained for this caller alone, and the frames were checked.
        unsafe { self.map_or_purge(range, frames, Protection::ReadWrite) }
            .map_err(|cause| self.unmapped(addr, pages, cause))?;
        Ok(addr)
    }

    #[cold]
    fn unmapped(&self, addr: usize, pages: u64, cause: PlatformError) -> AllocError {
        if let Err(error) = self.return_slots(addr, pages) {
            self.platform.fatal(&error);
        }
        self.unbacked(&Fit::plain(pages, 0), cause)
    }
}

impl<P: Platform> Space<P> {
    /// Frees a mapping of exactly `pages` pages that has an area of its own.
    pub(super) fn free_large(&self, page: u64, pages: u64) -> Result<(), FreeError> {
        let area = self.find(self.addr(page)).ok_or(FreeError::NotAnArea { page })?;
        let start = (area.addr >> self.shift) as u64;
        match area.kind {
            _ if start != page => Err(FreeError::Interior { page, start }),
            Kind::MapRam if area.pages != pages => {
                Err(FreeError::WrongCount { page, mapped: area.pages, given: pages })
            }
            _ => self.free_far(page, FreedBy::UnmapRam),
        }
    }

    /// Whether `page` is in a block that is in use.
    pub(super) fn is_in_block(&self, page: u64) -> bool {
        self.blocks.get(page).is_some_and(|block| block.place() != Place::Unused)
    }
}

const _: () =
    assert!(MOST_PAGES <= 64, "one byte says how many pages are mapped, and whether they were returned");
