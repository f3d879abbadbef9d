//! Short mappings of given frames: the calls, and the areas of blocks.

use super::alloc::Backing;
use super::frame_list::FrameList;
use super::{Raw, Space};
use crate::Fit;
use crate::PageRange;
use crate::areas::{FreedBy, Kind};
use crate::platform::{Frame, MapFrames, Origin, Platform, PlatformError, Protection};
use crate::short_map::{BLOCK, Block, Given, MOST_PAGES, Opened, Recycling, SlotState, is_served};
use crate::{AllocError, FreeError, RequestError};

impl<P: MapFrames> Raw<'_, P> {
    /// Maps `frames` of the supply for a short while, readable and writable. Returns the address of
    /// the first.
    ///
    /// Frames that follow each other are mapped already where the machine has a [linear
    /// map](crate::Geometry::linear_map): then this costs some tens of instructions. Else up to 64
    /// pages get slots of a [block](crate::short_map), at one call of the platform, and more an
    /// area of their own. Where mapping [replaces](crate::Geometry::remaps_atomically) what was
    /// there, the windows last used are kept as they are, so that the same frames are found mapped.
    /// No guard page.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. When the machine has no mapping left, even after
    /// every idle area was unmapped, the cause says so
    /// ([`MapLimit`](crate::PlatformFault::MapLimit)).
    #[doc(alias = "vm_map_ram")]
    pub fn map_short(&self, frames: &[Frame]) -> Result<usize, AllocError> {
        match self.linear_addr(frames) {
            Some(addr) => Ok(addr),
            None => self.map_scattered(frames),
        }
    }

    /// Ends the mapping that [`map_short`](Self::map_short) made at `addr` for `count` frames, on
    /// whatever CPU. The addresses are flushed before they lead elsewhere; until then a wrong
    /// access may reach the frames.
    ///
    /// # Safety
    /// Nothing uses the frames through this mapping any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such mapping begins there; nothing is changed.
    /// [`WrongCount`](FreeError::WrongCount) when it is one of another number of pages.
    #[doc(alias = "vm_unmap_ram")]
    pub unsafe fn unmap_short(&self, addr: usize, count: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        if let Some(linear) = self.geometry.linear_map.filter(|linear| linear.contains(page)) {
            return self.end_linear(page, Frame(page - linear.start()), count);
        }
        let pages = count as u64;
        if pages > MOST_PAGES && self.short.in_use(page).is_none() {
            if self.area_starting(addr).is_ok_and(|area| area.pages == pages) {
                // SAFETY: the caller owns the mapping.
                unsafe { self.hint_unused(addr, FreedBy::UnmapShort) };
            }
            return self.free_large(page, pages);
        }
        let block = self.short.get(page);
        if block.is_some_and(|block| block.slot(page) == SlotState::Live { pages }) {
            let may_keep = self.short.may_keep(pages);
            let first = if may_keep { self.platform.frame_at(page) } else { None };
            // Before the slots are returned: afterwards they may be another owner's.
            // SAFETY: the mapping is the caller's, and made of frames.
            unsafe { self.platform.discard_hint(PageRange::of(page, page + pages)) };
            let (cpus, lazy) = (&self.platform, &self.cache.lazy);
            let keep = |Frame(frame)| self.short.keep_run(cpus, lazy, page, frame, pages);
            if let Some(trigger) = first.and_then(keep) {
                self.trigger_drain(trigger);
                return Ok(());
            }
        }
        self.return_slots(addr, pages)
    }
}

impl<P: Platform> Raw<'_, P> {
    /// Hands out addresses for `pages` pages, up to 64 of them from a block, without a guard page:
    /// for frames that the caller maps for a short while. More pages come as an area of their own.
    /// O(1), and some 30 instructions as a rule.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline(always)]
    pub fn reserve_short(&self, pages: u64) -> Result<usize, AllocError> {
        match self.short.take(&self.platform, pages) {
            0 => self.take_slots(pages).map(|page| self.addr(page)),
            page => Ok(self.addr(page)),
        }
    }

    /// Returns the addresses that [`reserve_short`](Self::reserve_short) handed out for `pages`
    /// pages, on whatever CPU. They are unmapped and flushed before they are handed out again.
    /// O(1), without a lock as a rule.
    ///
    /// # Safety
    /// Nothing uses the addresses any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no `pages` pages were handed out at `addr`; nothing is changed.
    #[inline(always)]
    pub unsafe fn unreserve_short(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        self.return_slots(addr, pages)
    }
}

impl<P: MapFrames> Space<P> {
    /// Returns the address of the frames in the linear map, if they follow each other there.
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
        (self.platform.are_taken(first, pages) && self.short.linear.take(first, pages))
            .then(|| self.addr(linear.start() + first.0))
    }

    fn end_linear(&self, page: u64, first: Frame, count: usize) -> Result<(), FreeError> {
        let given = count as u64;
        self.short.linear.give(first, given).map_err(|mapped| match mapped {
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
        let kept = match self.short.may_keep(pages) {
            true => self.short.take_kept_run(&self.platform, frames[0].0, pages),
            false => None,
        };
        let addr = match kept {
            Some(page) => self.addr(page),
            None => self.raw().reserve_short(pages)?,
        };
        let page = (addr >> self.shift()) as u64;
        let range = PageRange::of(page, page + pages);
        // SAFETY: the pages were just obtained for this caller alone, and the frames were checked.
        unsafe { self.map_or_purge(range, FrameList::Frames(frames), Protection::ReadWrite) }
            .map_err(|cause| self.not_mapped(addr, pages, cause))?;
        Ok(addr)
    }

    #[cold]
    fn not_mapped(&self, addr: usize, pages: u64, cause: PlatformError) -> AllocError {
        self.sure(self.return_slots(addr, pages));
        self.unbacked(&Fit::plain(pages, 0), cause)
    }
}

impl<P: Platform> Space<P> {
    /// Takes slots for `pages` pages where this CPU's window is used up, or an area for more pages
    /// than blocks serve. Returns the first page.
    #[inline(never)]
    fn take_slots(&self, pages: u64) -> Result<u64, AllocError> {
        if !is_served(pages) {
            let area = self.claim_mapping(pages, 0, 0, Kind::ShortMap, None)?;
            return Ok(area.start());
        }
        let mut may_recycle = true;
        loop {
            match self.short.take_opened(&self.platform, &self.cache.lazy, pages) {
                Opened::Slots(page) => return Ok(page),
                Opened::Retry(trigger) => self.trigger_drain(trigger),
                Opened::Empty if core::mem::take(&mut may_recycle) && self.recycle_slots() => {}
                Opened::Empty => return self.take_new_block(pages),
            }
        }
    }

    /// Takes slots from a new block.
    fn take_new_block(&self, pages: u64) -> Result<u64, AllocError> {
        let slots = self.short.slots();
        let area = self.claim_high(Fit::plain(slots, slots.ilog2()))?;
        self.hand_out(area, BLOCK, Backing::None)?;
        let Some(window) = self.short.enter(area.start(), pages) else {
            self.give_up(area, BLOCK);
            return Err(AllocError::Metadata);
        };
        let (platform, lazy) = (&self.platform, &self.cache.lazy);
        let (page, trigger) = self.short.take_new(platform, lazy, window, pages);
        self.trigger_drain(trigger);
        Ok(page)
    }

    /// Makes returned slots available, if they are so many that this is better than a new block.
    /// Returns whether it did.
    fn recycle_slots(&self) -> bool {
        match self.short.recycle(&self.cache.lazy) {
            Recycling::None => false,
            Recycling::Done(trigger) => {
                self.trigger_drain(trigger);
                true
            }
            Recycling::Flush(worth) => {
                let flushed = self.flush_if_idle();
                let ready = self.short.counts().ready;
                self.release_blocks(ready.saturating_sub(worth));
                flushed
            }
        }
    }

    /// Gives up to `most` blocks that are all clean to the map. Returns how many.
    pub(super) fn release_blocks(&self, most: u64) -> u64 {
        self.short.release_ready(most, |area| self.give_up(area, BLOCK))
    }

    /// Returns slots of a block, or frees a short mapping's own area.
    #[inline(always)]
    fn return_slots(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        match self.give_slots(addr, pages) {
            true => Ok(()),
            false => self.give_slots_slow(addr, pages),
        }
    }

    /// Returns slots in the common case: a live run of one of the first blocks.
    #[inline(never)]
    fn give_slots(&self, addr: usize, pages: u64) -> bool {
        let page = (addr >> self.shift()) as u64;
        if addr & self.offset_mask() != 0 {
            return false;
        }
        match self.short.give_near(page, pages) {
            Given::Not => false,
            Given::Some => true,
            Given::Last(block) => self.give_last_slots(block, page),
        }
    }

    /// Ends the return of the last slots that were held of a block. Returns true.
    #[inline(never)]
    fn give_last_slots(&self, block: &Block, page: u64) -> bool {
        let trigger = self.short.emptied(&self.cache.lazy, block, page);
        self.trigger_drain(trigger);
        true
    }

    #[inline(never)]
    fn give_slots_slow(&self, addr: usize, pages: u64) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        let Some(block) = self.short.in_use(page) else { return self.free_large(page, pages) };
        let trigger = self.short.give_slow(&self.cache.lazy, block, page, pages)?;
        self.trigger_drain(trigger);
        Ok(())
    }

    /// Frees a mapping of exactly `pages` pages that has an area of its own.
    fn free_large(&self, page: u64, pages: u64) -> Result<(), FreeError> {
        let area = self.area_starting(self.addr(page))?;
        if area.kind == Kind::ShortMap && area.pages != pages {
            return Err(FreeError::WrongCount { page, mapped: area.pages, given: pages });
        }
        self.free_slow(page, FreedBy::UnmapShort)
    }
}
