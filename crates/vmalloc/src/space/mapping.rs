//! Mappings of frames: the caller's, a device's, or the space's own that several areas show.

use super::alloc::Backing;
use super::annotations::Annotation;
use super::drain::Drain;
use super::kind::FreedBy;
use super::request::{Blocking, Checked};
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::error::{AllocError, AreaError, FreeError, RequestError};
use crate::platform::{Frame, FrameSupply, MapFrames, Origin, Platform, PlatformError, Protection};
use crate::request::Fit;
use alloc::vec::Vec;

impl<P: MapFrames> Space<P> {
    /// Maps `frames` of the platform's supply, in this order, to consecutive pages of an area with a guard page behind it; its address. A
    /// frame may be among them twice, and mapped elsewhere too: then both show the same bytes. The frames stay the caller's, and have
    /// to stay taken until the area is [unmapped](Self::vunmap). O(log n + frames), one call of the platform.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. [`BadFrame`](AllocError::BadFrame) for one that is not taken from the supply.
    pub fn vmap(
        &self,
        frames: &[Frame],
        protection: Protection,
        tag: Option<&'static str>,
    ) -> Result<usize, AllocError> {
        self.check_frames(frames, Origin::Supply)?;
        self.map_area(frames, protection, Kind::Vmap, tag)
    }

    /// The same for memory of a device, which is never in the supply.
    ///
    /// # Errors
    /// As for [`vmap`](Self::vmap): a frame of the supply is refused.
    pub fn vmap_pfn(
        &self,
        frames: &[Frame],
        protection: Protection,
        tag: Option<&'static str>,
    ) -> Result<usize, AllocError> {
        self.check_frames(frames, Origin::Device)?;
        self.map_area(frames, protection, Kind::IoMap, tag)
    }

    /// Ends what [`vmap`](Self::vmap), [`vmap_pfn`](Self::vmap_pfn) or [`remap_vmalloc_range`](Self::remap_vmalloc_range) began. The
    /// addresses are flushed before they are handed out again; until then a stray access may reach the frames.
    ///
    /// # Safety
    /// Nothing uses the frames through this area any more: its owner calls this, once.
    ///
    /// # Errors
    /// [`FreeError`] when no such area starts at `addr`; nothing is changed.
    pub unsafe fn vunmap(&self, addr: usize) -> Result<(), FreeError> {
        let page = self.page(addr)?;
        // SAFETY: the caller owns the area, if there is one.
        unsafe { self.let_go(page, FreedBy::Vunmap) };
        self.free_far(page, FreedBy::Vunmap)
    }

    /// Memory as [`vzalloc`](Self::vzalloc) gives it, from the platform's supply of frames, so that it can be shown at other addresses as well
    /// ([`remap_vmalloc_range`](Self::remap_vmalloc_range)). [`vfree`](Self::vfree) frees it; its frames go back when the last area that
    /// shows them is freed and flushed.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc_user(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let area = self.claim_checked(&checked)?;
        let annotation = checked.annotation(area, self.shift, Kind::User, request.tag);
        self.hand_out(area, annotation, Backing::None)?;
        let payload = self.payload(area, checked.guard_pages);
        self.back_with_frames(payload, &checked).inspect_err(|_| self.give_up(area, annotation))?;
        Ok(self.addr(area.start()))
    }

    /// Takes frames for `payload` and maps them, zeroed.
    fn back_with_frames(&self, payload: PageRange, checked: &Checked) -> Result<(), AllocError> {
        let (mut frames, mut kept) = (Vec::new(), Vec::new());
        let count = usize::try_from(payload.len()).unwrap_or(usize::MAX);
        frames.try_reserve_exact(count).map_err(|_| AllocError::Metadata)?;
        kept.try_reserve_exact(count).map_err(|_| AllocError::Metadata)?;
        frames.resize(count, Frame::default());
        let unbacked = |cause| self.unbacked(&checked.fit, cause);
        self.or_after_purge(checked, || self.platform.take_frames(&mut frames)).map_err(unbacked)?;
        kept.extend_from_slice(&frames);
        // Before anything leads to the frames, so that there is nothing to be undone that might fail.
        if let Err(frames) = self.lots.lock().enter(payload.start(), kept.into_boxed_slice(), give) {
            give(&self.platform, &frames);
            return Err(AllocError::Metadata);
        }
        // SAFETY: the area was just obtained for this caller alone, the frames just taken.
        let map = || unsafe { self.platform.map_frames(payload, &frames, Protection::ReadWrite) };
        if let Err(cause) = self.or_after_purge(checked, map) {
            self.end_share(payload.start());
            return Err(unbacked(cause));
        }
        // SAFETY: the pages are this caller's alone, and have just been mapped.
        unsafe { self.platform.zero(payload) };
        Ok(())
    }

    /// Shows `bytes` bytes at `addr`, a page inside an area of [`vmalloc_user`](Self::vmalloc_user), at another address as well; its
    /// address. [`vunmap`](Self::vunmap) ends it.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is lost or changed.
    pub fn remap_vmalloc_range(
        &self,
        addr: usize,
        bytes: usize,
        protection: Protection,
        tag: Option<&'static str>,
    ) -> Result<usize, AreaError> {
        let page = self.page(addr)?;
        let area = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        let first = (area.addr >> self.shift) as u64;
        if area.kind != Kind::User {
            return Err(FreeError::WrongKind { page: first }.into());
        }
        let pages = PageRange::of(first, first + area.pages);
        let asked = PageRange::from_len(page, bytes.div_ceil(1 << self.shift) as u64);
        let asked = asked.ok_or(RequestError::ZeroSize)?;
        if !pages.covers(&asked) {
            return Err(AreaError::Beyond { asked, pages });
        }
        self.remap(first, asked, protection, tag)
    }

    fn remap(
        &self,
        first: u64,
        asked: PageRange,
        protection: Protection,
        tag: Option<&'static str>,
    ) -> Result<usize, AreaError> {
        let area = self.claim_mapping(asked.len(), self.guard_pages, Kind::Vmap, tag)?;
        let frames = self.shared_frames(first, asked, area.start());
        let payload = self.payload(area, self.guard_pages);
        let mapped = frames.and_then(|frames| {
            // SAFETY: the area was just obtained for this caller alone; the lot that the frames are of has one more share now.
            unsafe { self.map_or_purge(payload, &frames, protection) }.map_err(AreaError::from)
        });
        if let Err(error) = mapped {
            self.end_share(area.start());
            self.give_up(area, self.mapping_annotation(Kind::Vmap, tag));
            return Err(error);
        }
        Ok(self.addr(area.start()))
    }

    /// The frames behind the pages `asked` of the area at `first`, of which the area at `other` has a share from now on.
    fn shared_frames(&self, first: u64, asked: PageRange, other: u64) -> Result<Vec<Frame>, AreaError> {
        let mut frames = Vec::new();
        frames.try_reserve_exact(asked.len() as usize).map_err(|_| AllocError::Metadata)?;
        let mut lots = self.lots.lock();
        let from = (asked.start() - first) as usize;
        let lot = lots.frames(first).ok_or(FreeError::AlreadyFreed { page: first })?;
        frames.extend_from_slice(&lot[from..from + asked.len() as usize]);
        if lots.share(first, other) { Ok(frames) } else { Err(AllocError::Metadata.into()) }
    }

    /// Ends the share of the area at `page` in a lot: nothing was mapped there.
    fn end_share(&self, page: u64) {
        let mut lots = self.lots.lock();
        let lot = lots.leave(page).and_then(|share| lots.end(share));
        drop(lots);
        if let Some(lot) = lot {
            lot.give_back(&self.platform);
        }
    }

    pub(super) fn check_frames(&self, frames: &[Frame], wanted: Origin) -> Result<(), AllocError> {
        let origins = frames.iter().map(|&frame| (frame, self.platform.origin(frame)));
        match { origins }.find(|(_, origin)| *origin != wanted) {
            Some((frame, origin)) => Err(AllocError::BadFrame { frame: frame.0, origin }),
            None => Ok(()),
        }
    }

    fn map_area(
        &self,
        frames: &[Frame],
        protection: Protection,
        kind: Kind,
        tag: Option<&'static str>,
    ) -> Result<usize, AllocError> {
        let area = self.claim_mapping(frames.len() as u64, self.guard_pages, kind, tag)?;
        // SAFETY: the area was just obtained for this caller alone, and the frames were checked.
        let mapped = unsafe { self.map_or_purge(self.payload(area, self.guard_pages), frames, protection) };
        mapped.map_err(|cause| {
            self.give_up(area, self.mapping_annotation(kind, tag));
            self.unbacked(&Fit::plain(area.len(), 0), cause)
        })?;
        Ok(self.addr(area.start()))
    }

    /// Maps `frames`; where page tables or mappings run short, everything freed is given back first.
    ///
    /// # Safety
    /// As for [`MapFrames::map_frames`].
    pub(super) unsafe fn map_or_purge(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise.
        let map = || unsafe { self.platform.map_frames(range, frames, protection) };
        map().or_else(|error| if self.purge_with(Drain::ALL).is_ok() { map() } else { Err(error) })
    }

    /// Tells the platform that nothing uses the area at `page`, if it is one that such a call frees.
    ///
    /// # Safety
    /// The caller owns the area.
    pub(super) unsafe fn let_go(&self, page: u64, by: FreedBy) {
        let area = self.find(self.addr(page)).filter(|area| area.addr == self.addr(page));
        if let Some(area) = area.filter(|area| area.kind.freed() == by) {
            // SAFETY: by the caller's promise the area is his, and areas of such kinds are mapped by frames.
            unsafe { self.platform.discard_hint(PageRange::of(page, page + area.pages)) };
        }
    }
}

/// Gives frames back that the space took.
fn give<P: FrameSupply>(platform: &P, frames: &[Frame]) {
    // SAFETY: the space took them for an area that nothing leads to any more: it was never seen, or is flushed.
    unsafe { platform.give_frames(frames) };
}

impl<P: Platform> Space<P> {
    /// What `act` needs of the platform; where it is short of that, once more when everything freed has been given back.
    pub(super) fn or_after_purge(
        &self,
        checked: &Checked,
        mut act: impl FnMut() -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        act().or_else(|error| match checked.blocking {
            Blocking::Allowed if self.purge_with(Drain::ALL).is_ok() => act(),
            _ => Err(error),
        })
    }

    /// An area for what is not memory of its own from the start: within the limits asked for, or in the upper half of the span.
    pub(super) fn claim_checked(&self, checked: &Checked) -> Result<PageRange, AllocError> {
        let fit = checked.fit;
        match checked.blocking {
            Blocking::Forbidden => self.try_claim(&fit),
            Blocking::Allowed if fit.limits().is_some() => self.claim(fit),
            Blocking::Allowed => self.claim_high(fit),
        }
    }

    fn mapping_annotation(&self, kind: Kind, tag: Option<&'static str>) -> Annotation {
        Annotation { kind, guard_pages: self.guard_pages, slack: 0, tag }
    }

    /// An area for `pages` pages of somebody's, with its annotation, and nothing mapped yet.
    pub(super) fn claim_mapping(
        &self,
        pages: u64,
        guard_pages: u64,
        kind: Kind,
        tag: Option<&'static str>,
    ) -> Result<PageRange, AllocError> {
        if pages == 0 {
            return Err(RequestError::ZeroSize.into());
        }
        if pages >= isize::MAX as u64 >> self.shift {
            return Err(RequestError::SizeOverflow { bytes: usize::MAX }.into());
        }
        let area = self.claim_high(Fit::new(pages + guard_pages)?)?;
        self.hand_out(area, Annotation { kind, guard_pages, slack: 0, tag }, Backing::None)?;
        Ok(area)
    }

    /// Unmaps and flushes pages of an area in use at once. If the platform refuses, the next purge does it before all else.
    ///
    /// # Safety
    /// The caller owns `range`, and nothing uses what is mapped there.
    pub(super) unsafe fn unmap_now(&self, range: PageRange) -> Result<(), AreaError> {
        // One at a time, as the platform is promised.
        let mut purger = self.purger.0.lock();
        purger.torn.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        self.unmap_or_remember(&mut purger, range).map_err(AreaError::Platform)
    }
}
