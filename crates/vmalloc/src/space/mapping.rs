//! Mappings of frames: the caller's, a device's, or the space's own that several areas show.

use super::alloc::{Allocation, payload};
use super::frame_list::FrameList;
use super::request::Checked;
use super::{Raw, Request};
use crate::Fit;
use crate::PageRange;
use crate::areas::{Annotation, Blocking, FreedBy, Kind, Tag};
use crate::platform::{Frame, FrameSupply, MapFrames, Origin, PlatformError, PlatformFault, Protection};
use crate::purge::copy;
use crate::{AllocError, AreaError, FreeError, RequestError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use zerocopy::FromZeros;

impl<P: MapFrames> Raw<'_, P> {
    /// Maps `frames` of the platform's supply, in this order, to consecutive pages of an area with
    /// a guard page behind it. Returns its address. A frame may be among them twice, and mapped
    /// elsewhere too: then both show the same bytes. The frames stay the caller's, and have to stay
    /// taken until the area is [unmapped](Self::unmap). O(log n + frames), one call of the
    /// platform. Where the machine [finds runs](MapFrames::runs_of), frames that follow each other
    /// take less, and huge pages where they fill any.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. [`BadFrame`](AllocError::BadFrame) for one that
    /// is not taken from the supply.
    #[doc(alias = "vmap")]
    pub fn map(
        &self,
        frames: &[Frame],
        protection: Protection,
        tag: Option<&str>,
    ) -> Result<usize, AllocError> {
        self.map_listed(frames, Origin::Supply, protection, Kind::Vmap, tag)
    }

    /// Maps memory of a device, which is never in the supply: see [`map`](Self::map).
    ///
    /// # Errors
    /// As for [`map`](Self::map): a frame of the supply is refused.
    #[doc(alias = "vmap_pfn")]
    #[doc(alias = "ioremap")]
    pub fn map_device(
        &self,
        frames: &[Frame],
        protection: Protection,
        tag: Option<&str>,
    ) -> Result<usize, AllocError> {
        self.map_listed(frames, Origin::Device, protection, Kind::IoMap, tag)
    }

    /// Ends a mapping that [`map`](Self::map), [`map_device`](Self::map_device) or
    /// [`map_shared`](Self::map_shared) made at `addr`. The addresses are flushed before they are
    /// handed out again; until then a wrong access may reach the frames.
    ///
    /// # Safety
    /// Nothing uses the frames through this area any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    #[doc(alias = "vunmap")]
    #[doc(alias = "iounmap")]
    pub unsafe fn unmap(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.space.page(addr)?;
        // SAFETY: the caller owns the area, if there is one.
        unsafe { self.hint_unused(addr, FreedBy::Unmap) };
        self.free_slow(page, FreedBy::Unmap)
    }

    /// Allocates zeroed memory from the platform's supply of frames, so that it can be shown at
    /// other addresses as well ([`map_shared`](Self::map_shared)). [`free`](Self::free) frees it;
    /// its frames go back when the last area that shows them is freed and flushed.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "vmalloc_user")]
    pub fn alloc_shared(&self, request: &Request) -> Result<usize, AllocError> {
        let allocation = self.begin(request)?;
        let (area, annotation) = allocation.claim_as(Kind::Shared, true)?;
        allocation.back_with_frames(area).inspect_err(|_| self.space.give_up(area, annotation))?;
        Ok(self.space.addr(area.start()))
    }

    /// Shows `bytes` bytes at `addr`, a page inside an area of
    /// [`alloc_shared`](Self::alloc_shared), at another address as well. Returns that.
    /// [`unmap`](Self::unmap) ends it.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is lost or changed.
    #[doc(alias = "remap_vmalloc_range")]
    pub fn map_shared(
        &self,
        addr: usize,
        bytes: usize,
        protection: Protection,
        tag: Option<&str>,
    ) -> Result<usize, AreaError> {
        let (page, tag) = (self.space.page(addr)?, tag.map(Tag::new));
        let asked = PageRange::from_len(page, bytes.div_ceil(1 << self.space.shift()) as u64);
        let asked = asked.ok_or(RequestError::ZeroSize)?;
        let first = self.area_around(asked, |kind| kind == Kind::Shared)?.start();
        let (area, annotation) = self.claim_mapping(asked.len(), 0, Kind::Vmap, tag)?;
        let mapped = self.shared_frames(first, asked, area.start()).and_then(|frames| {
            let payload = payload(area, self.space.guard_pages);
            // SAFETY: the area was just obtained for this caller alone; the set that the frames are
            // of has one more share now.
            let map = |list: FrameList<'_>| unsafe { self.map_or_purge(payload, list, protection) };
            FrameList::with_runs(self.space.platform(), &frames, map).map_err(AreaError::from)
        });
        if let Err(error) = mapped {
            self.space.frame_sets.end_shown(area.start(), self.space.platform());
            self.space.give_up(area, annotation);
            return Err(error);
        }
        Ok(self.space.addr(area.start()))
    }
}

impl<P: FrameSupply> Raw<'_, P> {
    /// Takes `count` frames from the supply; where that is short of them, and the caller may wait,
    /// everything freed is given back first. An error names the request `fit`.
    pub(crate) fn take_frames(
        &self,
        count: usize,
        fit: &Fit,
        blocking: Blocking,
        take: impl Fn(&mut [Frame]) -> Result<(), PlatformError>,
    ) -> Result<Box<[Frame]>, AllocError> {
        core::num::NonZero::new(count).ok_or(RequestError::ZeroSize)?;
        // Each frame is somewhere in the linear map. No page of the list is touched before there
        // are so many frames.
        let few = PlatformError { call: "too few frames", fault: PlatformFault::OutOfMemory, code: 0 };
        let fits = self.space.geometry().linear_map.is_none_or(|map| count as u64 <= map.len());
        fits.then_some(()).ok_or_else(|| self.space.unbacked(fit, few))?;
        let mut frames = <[Frame]>::new_box_zeroed_with_elems(count).map_err(|_| AllocError::Metadata)?;
        let taken = self.space.or_after_purge(blocking, || take(&mut frames));
        taken.map(|()| frames).map_err(|cause| self.space.unbacked(fit, cause))
    }
}

impl<P: MapFrames> Allocation<'_, P> {
    /// Takes frames for an area just obtained and maps them, zeroed.
    fn back_with_frames(&self, area: PageRange) -> Result<(), AllocError> {
        let (space, payload, Checked { fit, blocking, .. }) = (self.space, self.payload(area), self.checked);
        let count = usize::try_from(payload.len()).unwrap_or(usize::MAX);
        let take = |frames: &mut [Frame]| space.platform.take_frames(frames);
        let frames = space.raw().take_frames(count, &fit, blocking, take)?;
        let listed = copy(&frames);
        // Before anything leads to the frames, so that there is nothing to be undone that might
        // fail.
        let (sets, platform) = (&space.frame_sets, &space.platform);
        let share = sets.enter(frames, give, platform).ok_or(AllocError::Metadata)?;
        let room = listed.and_then(|listed| Some((listed, sets.lock_with_room()?)));
        let shown = room.map(|(listed, mut sets)| {
            sets.show(&share, payload.start());
            listed
        });
        let result = shown.ok_or(AllocError::Metadata).and_then(|frames| {
            // SAFETY: the area was just obtained for this caller alone, the frames just taken.
            let map = || unsafe { space.platform.map_frames(payload, &frames, Protection::ReadWrite) };
            space.or_after_purge(blocking, map).map_err(|cause| self.unbacked(cause))
        });
        sets.end(share, platform);
        if result.is_err() {
            sets.end_shown(payload.start(), platform);
            return result;
        }
        // SAFETY: the pages are this caller's alone, and have just been mapped.
        unsafe { space.platform.zero(payload) };
        Ok(())
    }
}

impl<P: MapFrames> Raw<'_, P> {
    /// Claims and hands out an area of `pages` pages for a mapping, with nothing mapped yet. It
    /// begins at a multiple of `2^order` where there is such a place.
    fn claim_mapping(
        &self,
        pages: u64,
        order: u32,
        kind: Kind,
        tag: Option<Tag>,
    ) -> Result<(PageRange, Annotation), AllocError> {
        let mut request = Request::new(self.space.bytes(pages));
        request.tag = tag;
        let mut allocation = self.begin(&request)?;
        let fit = allocation.checked.fit;
        allocation.checked.fit = fit.align(1 << order);
        match allocation.claim_as(kind, true) {
            Err(AllocError::NoSpace(_)) if order > 0 => {
                allocation.checked.fit = fit;
                allocation.claim_as(kind, true)
            }
            claimed => claimed,
        }
    }

    /// Returns the frames behind the pages `asked` of the area at `first`, of which the area at
    /// `other` has a share from now on.
    fn shared_frames(&self, first: u64, asked: PageRange, other: u64) -> Result<Vec<Frame>, AreaError> {
        let from = (asked.start() - first) as usize;
        let part = from..from + asked.len() as usize;
        let freed = FreeError::AlreadyFreed { addr: self.space.addr(first) };
        // Another thread may have freed the area, and a smaller one may begin there now.
        self.space.frame_sets.lock().frames(first).and_then(|all| all.get(part.clone())).ok_or(freed)?;
        let mut frames = Vec::new();
        frames.try_reserve_exact(part.len()).map_err(|_| AllocError::Metadata)?;
        let mut sets = self.space.frame_sets.lock_with_room().ok_or(AllocError::Metadata)?;
        frames.extend_from_slice(sets.frames(first).and_then(|all| all.get(part)).ok_or(freed)?);
        sets.share(first, other);
        Ok(frames)
    }

    /// Maps frames of the origin `wanted` to an area.
    fn map_listed(
        &self,
        frames: &[Frame],
        wanted: Origin,
        protection: Protection,
        kind: Kind,
        tag: Option<&str>,
    ) -> Result<usize, AllocError> {
        FrameList::with_runs(self.space.platform(), frames, |list| {
            list.check(self.space.platform(), wanted)?;
            self.map_area(list, protection, kind, tag.map(Tag::new))
        })
    }

    /// Maps frames, which were checked, to an area.
    pub(super) fn map_area(
        &self,
        list: FrameList<'_>,
        protection: Protection,
        kind: Kind,
        tag: Option<Tag>,
    ) -> Result<usize, AllocError> {
        let order = list.order(self.space.platform());
        let (area, annotation) = self.claim_mapping(list.pages(), order, kind, tag)?;
        let payload = payload(area, self.space.guard_pages);
        // SAFETY: the area was just obtained for this caller alone, and the frames were checked.
        let mapped = unsafe { self.map_or_purge(payload, list, protection) };
        mapped.map_err(|cause| {
            self.space.give_up(area, annotation);
            self.space.unbacked(&Fit::plain(area.len(), 0), cause)
        })?;
        Ok(self.space.addr(area.start()))
    }

    /// Maps the frames of `list`. Where page tables or mappings run short, everything freed is
    /// given back first.
    ///
    /// # Safety
    /// As for [`MapFrames::map_frames`].
    pub(super) unsafe fn map_or_purge(
        &self,
        range: PageRange,
        list: FrameList<'_>,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller owns the range, and the frames may be mapped.
        let map = || unsafe { list.map(self.space.platform(), range, protection) };
        self.space.or_after_purge(Blocking::Allowed, map)
    }

    /// Tells the platform that nothing uses the area at `addr`, if it is one that such a call
    /// frees.
    ///
    /// # Safety
    /// The caller owns the area.
    pub(super) unsafe fn hint_unused(&self, addr: usize, by: FreedBy) {
        if let Some(area) = self.space.area_starting(addr).ok().filter(|area| area.kind.freed() == by) {
            // SAFETY: by the caller's promise the area is the caller's, and areas of such kinds are
            // mapped by frames.
            unsafe { self.space.platform.discard_hint(self.space.pages_of(&area)) };
        }
    }
}

/// Gives frames back that the space took.
pub(crate) fn give<P: FrameSupply>(platform: &P, frames: &[Frame]) {
    // SAFETY: the space took them for areas that no page leads to any more: they were never seen,
    // or are flushed.
    unsafe { platform.give_frames(frames) };
}
