//! The calls: short mappings made and ended, and the areas of blocks.

use super::error::{ShortError, UnmapError};
use super::handout::Given;
use super::lifecycle::Recycling;
use super::slots::SlotState;
use super::{Block, Blocks, MAX_SLOTS, MOST_PAGES, is_served};
use alloc::sync::Arc;
use core::fmt;
use vmalloc::tenant::{Tenant, TenantCounts};
use vmalloc::{
    AllocError, Frame, FrameSupply, FreeError, Kind, MapFrames, Origin, PageRange, Platform, PlatformError,
    Protection, Request, SpaceRef, Tag, Unbacked,
};

/// The tag of blocks, and of areas for more pages than blocks serve.
pub const TAG: &str = "vm_map_ram";

/// The lock that a space has.
type Lock<S> = <<S as SpaceRef>::Platform as Platform>::RawLock;

/// The short mappings of a space.
///
/// Mappings are made safely, for an address alone allows nothing, and ended by `unsafe` calls:
/// nothing may use them any more. [`ShortMapping`](crate::ShortMapping) keeps that promise by
/// itself.
///
/// ```
/// # use vmalloc::{Frame, FrameSupply, MapFrames, Space};
/// # use vmalloc_short::ShortMaps;
/// # fn example<P: MapFrames>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
/// let short = ShortMaps::new(space)?;
/// let frames = space.frames(3)?;
/// let addr = short.map(&frames)?;
/// // SAFETY: nothing uses the mapping any more.
/// unsafe { short.unmap(addr, 3) }?;
/// // The frames may be used otherwise once no CPU reaches them through the mapping.
/// space.flush()?;
/// # Ok(())
/// # }
/// ```
pub struct ShortMaps<S: SpaceRef> {
    space: S,
    blocks: Arc<Blocks<Lock<S>>>,
}

impl<S: SpaceRef> ShortMaps<S> {
    /// Returns short mappings in areas of `space`. Their records stay with the space until it is
    /// dropped, so it is to have few: [`of`](Self::of) finds those that there are. O(CPUs).
    ///
    /// # Errors
    /// [`ShortError`]; nothing is changed.
    pub fn new(space: S) -> Result<Self, ShortError> {
        Self::with_block_slots(space, 0)
    }

    /// Does as [`new`](Self::new), with blocks of so many slots: a power of two from 64 to 1024, or
    /// 0 for 1024, and fewer where the span is small.
    ///
    /// # Errors
    /// [`ShortError`]; nothing is changed.
    pub fn with_block_slots(space: S, slots: u64) -> Result<Self, ShortError> {
        let is_size = slots.is_power_of_two() && (MOST_PAGES..=MAX_SLOTS as u64).contains(&slots);
        if slots != 0 && !is_size {
            return Err(ShortError::BadBlock { slots });
        }
        let geometry = space.geometry();
        let (span, replaces) = (geometry.span, geometry.remaps_atomically);
        let blocks = Blocks::new(span, space.node_stats().len(), slots, replaces);
        let blocks = Arc::new(blocks.ok_or(ShortError::Metadata)?);
        // SAFETY: they are new. Their areas are blocks, which `take_new_block` claims of this
        // space. The invariants of blocks say that what is collected is dirty or spent, and that
        // what is spared is all clean.
        unsafe { space.add_tenant(blocks.clone()) }.map_err(|_| ShortError::Metadata)?;
        Ok(Self { space, blocks })
    }

    /// Returns the short mappings that were made first for `space`, or new ones.
    ///
    /// # Errors
    /// [`ShortError::Metadata`] when memory is short; nothing is changed.
    pub fn of(space: S) -> Result<Self, ShortError> {
        if let Some(blocks) = space.tenant() {
            return Ok(Self { space, blocks });
        }
        let Self { space, blocks } = Self::new(space)?;
        // Those of another thread may be the first.
        let blocks = space.tenant().unwrap_or(blocks);
        Ok(Self { space, blocks })
    }

    /// Returns the counts: the areas are blocks.
    #[must_use]
    pub fn counts(&self) -> TenantCounts {
        self.blocks.counts()
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.space
    }

    #[cfg(test)]
    pub(crate) fn blocks(&self) -> &Blocks<Lock<S>> {
        &self.blocks
    }

    /// Hands out addresses for `pages` pages, up to 64 of them from a block, without a guard page:
    /// for frames that the caller maps for a short while. More pages come as a
    /// [reservation](vmalloc::Raw::reserve) of their own. O(1), and some 30 instructions as a rule.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline(always)]
    pub fn reserve(&self, pages: u64) -> Result<usize, AllocError> {
        match self.blocks.take(self.space.platform(), pages) {
            0 => self.take_slots(pages),
            page => Ok(self.addr(page)),
        }
    }

    /// Returns the addresses that [`reserve`](Self::reserve) handed out for `pages` pages, on
    /// whatever CPU. They are unmapped and flushed before they are handed out again. O(1), without
    /// a lock as a rule.
    ///
    /// # Safety
    /// Nothing uses the addresses any more, nor what is mapped there: their owner calls this, once.
    ///
    /// # Errors
    /// [`UnmapError`] when no `pages` pages were handed out at `addr`; nothing is changed.
    #[inline(always)]
    pub unsafe fn unreserve(&self, addr: usize, pages: u64) -> Result<(), UnmapError> {
        // SAFETY: the caller's promise.
        unsafe { self.return_slots(addr, pages) }
    }
}

impl<S: SpaceRef<Platform: MapFrames>> ShortMaps<S> {
    /// Maps `frames` of the supply for a short while, readable and writable. Returns the address of
    /// the first.
    ///
    /// Frames that follow each other are mapped already where the machine has a [linear
    /// map](vmalloc::Geometry::linear_map): then this costs some tens of instructions. Else up to
    /// 64 pages get slots of a [block](crate) without a guard page, at one call of the platform,
    /// and more an [area](vmalloc::Raw::map) of their own. Where mapping
    /// [replaces](vmalloc::Geometry::remaps_atomically) what was there, the windows last used are
    /// kept as they are, so that the same frames are found mapped.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. When the machine has no mapping left, even after
    /// every idle area was unmapped, the cause says so
    /// ([`MapLimit`](vmalloc::PlatformFault::MapLimit)).
    #[doc(alias = "vm_map_ram")]
    pub fn map(&self, frames: &[Frame]) -> Result<usize, AllocError> {
        match self.linear_addr(frames) {
            Some(addr) => Ok(addr),
            None => self.map_scattered(frames),
        }
    }

    /// Ends the mapping that [`map`](Self::map) made at `addr` for `count` frames, on whatever CPU.
    /// The addresses are flushed before they lead elsewhere; until then a wrong access may reach
    /// the frames.
    ///
    /// # Safety
    /// Nothing uses the frames through this mapping any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`UnmapError`] when no such mapping begins there, or one of another number of pages; nothing
    /// is changed.
    #[doc(alias = "vm_unmap_ram")]
    pub unsafe fn unmap(&self, addr: usize, count: usize) -> Result<(), UnmapError> {
        let (page, pages) = (self.page(addr), count as u64);
        if let Some(first) = self.linear_frame(addr) {
            return self.end_linear(page, first, pages);
        }
        if pages > MOST_PAGES && self.blocks.in_use(page).is_none() {
            return match self.own_area(addr, pages)? {
                // SAFETY: it is the caller's. Where there is none, the call tells what is there.
                None | Some(Kind::Vmap) => unsafe { Ok(self.space.raw().unmap(addr)?) },
                _ => Err(FreeError::WrongKind { addr }.into()),
            };
        }
        let block = self.blocks.get(page).filter(|_| self.is_aligned(addr));
        if block.is_some_and(|block| block.slot(page) == SlotState::Live { pages }) {
            let platform = self.space.platform();
            let may_keep = self.blocks.may_keep(pages);
            let first = if may_keep { platform.frame_at(page) } else { None };
            // Before the slots are returned: afterwards they may be another owner's.
            // SAFETY: the mapping is the caller's, and made of frames.
            unsafe { platform.discard_hint(PageRange::of(page, page + pages)) };
            let keep = |Frame(frame)| {
                self.space.tally(|tally| self.blocks.keep_run(platform, tally, page, frame, pages))
            };
            if first.is_some_and(keep) {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.return_slots(addr, pages) }
    }

    /// Returns the address of the frames in the linear map, if they follow each other there.
    #[inline]
    pub(crate) fn linear_addr(&self, frames: &[Frame]) -> Option<usize> {
        let linear = self.space.geometry().linear_map?;
        let first = *frames.first()?;
        if !frames.iter().zip(first.0..).all(|(frame, number)| frame.0 == number) {
            return None;
        }
        let pages = frames.len() as u64;
        if first.0.checked_add(pages).is_none_or(|end| end > linear.len()) {
            return None;
        }
        (self.space.platform().are_taken(first, pages) && self.blocks.linear.take(first, pages))
            .then(|| self.addr(linear.start() + first.0))
    }

    /// Returns the frame that the linear map has at an address, if that is one of its pages.
    pub(crate) fn linear_frame(&self, addr: usize) -> Option<Frame> {
        let (page, linear) = (self.page(addr), self.space.geometry().linear_map?);
        (linear.contains(page) && self.is_aligned(addr)).then(|| Frame(page - linear.start()))
    }

    fn end_linear(&self, page: u64, first: Frame, given: u64) -> Result<(), UnmapError> {
        self.blocks.linear.give(first, given).map_err(|mapped| match mapped {
            0 => FreeError::NotAnArea { addr: self.addr(page) }.into(),
            mapped => UnmapError::WrongCount { addr: self.addr(page), mapped, given },
        })
    }

    /// Maps frames where the linear map does not show them.
    #[inline(never)]
    pub(crate) fn map_scattered(&self, frames: &[Frame]) -> Result<usize, AllocError> {
        let (pages, platform) = (frames.len() as u64, self.space.platform());
        if !is_served(pages) {
            return self.space.raw().map(frames, Protection::ReadWrite, Some(TAG));
        }
        let mut origins = frames.iter().map(|&frame| (frame, platform.origin(frame)));
        if let Some((frame, origin)) = origins.find(|(_, origin)| *origin != Origin::Supply) {
            return Err(AllocError::BadFrame { frame: frame.0, origin });
        }
        let kept = match self.blocks.may_keep(pages) {
            true => self.blocks.take_kept_run(platform, frames[0].0, pages),
            false => None,
        };
        let addr = match kept {
            Some(page) => self.addr(page),
            None => self.reserve(pages)?,
        };
        let page = self.page(addr);
        let range = PageRange::of(page, page + pages);
        // SAFETY: the pages were just obtained for this caller alone, and the frames were checked.
        let map = || unsafe { platform.map_frames(range, frames, Protection::ReadWrite) };
        // Where page tables or mappings run short, everything freed is given back first.
        let mapped = map().or_else(|_| {
            let _ = self.space.purge();
            map()
        });
        mapped.map_err(|cause| self.not_mapped(addr, pages, cause))?;
        Ok(addr)
    }

    #[cold]
    fn not_mapped(&self, addr: usize, pages: u64, cause: PlatformError) -> AllocError {
        // SAFETY: the slots were just obtained for this caller alone.
        let returned = unsafe { self.return_slots(addr, pages) };
        returned.unwrap_or_else(|damage| self.space.platform().fatal(&damage));
        let (geometry, stats) = (self.space.geometry(), self.space.stats());
        let align = geometry.page_bytes() as u64;
        let (size, largest) = (stats.bytes(pages), stats.bytes(stats.largest_free_pages));
        Unbacked { size, align, within: geometry.span.times(align), largest, cause }.into()
    }
}

impl<S: SpaceRef> ShortMaps<S> {
    fn shift(&self) -> u32 {
        <S::Platform as Platform>::PAGE_SHIFT.unwrap_or(self.space.geometry().page_shift)
    }

    #[inline(always)]
    fn addr(&self, page: u64) -> usize {
        (page << self.shift()) as usize
    }

    #[inline(always)]
    fn page(&self, addr: usize) -> u64 {
        (addr >> self.shift()) as u64
    }

    #[inline(always)]
    fn is_aligned(&self, addr: usize) -> bool {
        addr & ((1 << self.shift()) - 1) == 0
    }

    /// Takes slots for `pages` pages where this CPU's window is used up, or a reservation for more
    /// pages than blocks serve. Returns their address.
    #[inline(never)]
    fn take_slots(&self, pages: u64) -> Result<usize, AllocError> {
        if !is_served(pages) {
            let bytes = usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(1 << self.shift());
            return self.space.raw().reserve(&Request::new(bytes).guard(false).tag(TAG));
        }
        let (blocks, platform) = (&self.blocks, self.space.platform());
        let mut may_recycle = true;
        loop {
            match self.space.tally(|tally| blocks.take_opened(platform, tally, pages)) {
                Some(page) => return Ok(self.addr(page)),
                None if core::mem::take(&mut may_recycle) && self.recycle_slots() => {}
                None => return self.take_new_block(pages),
            }
        }
    }

    /// Takes slots from a new block.
    fn take_new_block(&self, pages: u64) -> Result<usize, AllocError> {
        let slots = self.blocks.slots();
        let area = self.space.raw().claim_for_tenant(slots, slots, Tag::new(TAG))?;
        let Some(window) = self.blocks.enter(area.start(), pages) else {
            // SAFETY: it was just claimed, and is no block.
            unsafe { self.space.raw().release_for_tenant(area) };
            return Err(AllocError::Metadata);
        };
        let (blocks, platform) = (&self.blocks, self.space.platform());
        let page = self.space.tally(|tally| blocks.take_new(platform, tally, window, pages));
        Ok(self.addr(page))
    }

    /// Makes returned slots available, if they are so many that this is better than a new block.
    /// Returns whether it did.
    fn recycle_slots(&self) -> bool {
        match self.space.tally(|tally| self.blocks.recycle(tally)) {
            Recycling::None => false,
            Recycling::Done => true,
            Recycling::Flush(worth) => {
                let flushed = self.space.flush_if_idle();
                let most = self.counts().spare_areas.saturating_sub(worth);
                // SAFETY: these are areas of blocks, which are none any more, and were all clean.
                self.blocks.release_ready(most, |area| unsafe { self.space.raw().release_for_tenant(area) });
                flushed
            }
        }
    }

    /// Returns slots of a block, or ends a reservation.
    ///
    /// # Safety
    /// Nothing uses the addresses any more.
    #[inline(always)]
    unsafe fn return_slots(&self, addr: usize, pages: u64) -> Result<(), UnmapError> {
        match self.give_slots(addr, pages) {
            true => Ok(()),
            // SAFETY: the caller's promise.
            false => unsafe { self.give_slots_slow(addr, pages) },
        }
    }

    /// Returns slots in the common case: a live run of one of the first blocks.
    #[inline(never)]
    fn give_slots(&self, addr: usize, pages: u64) -> bool {
        let page = self.page(addr);
        if !self.is_aligned(addr) {
            return false;
        }
        match self.blocks.give_near(page, pages) {
            Given::Not => false,
            Given::Some => true,
            Given::Last(block) => self.give_last_slots(block, page),
        }
    }

    /// Ends the return of the last slots that were held of a block. Returns true.
    #[inline(never)]
    fn give_last_slots(&self, block: &Block, page: u64) -> bool {
        self.space.tally(|tally| self.blocks.emptied(tally, block, page));
        true
    }

    /// Returns slots in any case.
    ///
    /// # Safety
    /// Nothing uses the addresses any more.
    #[inline(never)]
    unsafe fn give_slots_slow(&self, addr: usize, pages: u64) -> Result<(), UnmapError> {
        let page = self.page(addr);
        match self.blocks.in_use(page).filter(|_| self.is_aligned(addr)) {
            Some(block) => self.space.tally(|tally| self.blocks.give_slow(tally, block, addr, page, pages)),
            // SAFETY: the caller's promise.
            None => unsafe { self.end_reservation(addr, pages) },
        }
    }

    /// Ends a reservation of exactly `pages` pages.
    ///
    /// # Safety
    /// Nothing uses the addresses any more.
    unsafe fn end_reservation(&self, addr: usize, pages: u64) -> Result<(), UnmapError> {
        match self.own_area(addr, pages)? {
            // SAFETY: it is the caller's. Where there is none, the call tells what is there.
            None | Some(Kind::Reserved) => unsafe { Ok(self.space.raw().unreserve(addr)?) },
            _ => Err(FreeError::WrongKind { addr }.into()),
        }
    }

    /// Returns the kind of the area for exactly `pages` pages that was made at `addr` because
    /// blocks do not serve so many. `None` if no area begins there.
    fn own_area(&self, addr: usize, pages: u64) -> Result<Option<Kind>, UnmapError> {
        match self.space.find(addr).filter(|area| area.addr == addr) {
            // A block of others has the tag as well.
            Some(area) if area.kind == Kind::Tenant || area.tag != Some(Tag::new(TAG)) => {
                Err(FreeError::WrongKind { addr }.into())
            }
            Some(area) if area.pages != pages => {
                Err(UnmapError::WrongCount { addr, mapped: area.pages, given: pages })
            }
            area => Ok(area.map(|area| area.kind)),
        }
    }
}

impl<S: SpaceRef> fmt::Debug for ShortMaps<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortMaps").field("blocks", &self.counts()).finish_non_exhaustive()
    }
}
