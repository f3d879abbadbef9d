//! Handing areas out: retained ones first, then new ones, then what a purge brings back.

use super::request::{Checked, Content};
use super::state::Note;
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::error::{AllocError, PlatformError, Unbacked};
use crate::platform::{DirectMemory, Platform, Protection};
use crate::request::{Fit, Policy};
use core::ptr::NonNull;

impl<P: Platform> Space<P> {
    /// Allocates memory; its address. O(log n) and one call of the platform; O(1) and none when a retained area
    /// of the size is at hand. When addresses or memory run out it purges, waiting for a purge under way, and tries once
    /// more.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let note = checked.note(Kind::Vmalloc, request.tag);
        if let Some(area) = self.take_retained(&checked, note)? {
            if request.content == Content::Zeros {
                // SAFETY: the area was just taken for this caller alone, and retained areas are mapped.
                unsafe { self.platform.zero(self.payload(area, checked.guard_pages)) };
            }
            return Ok(self.addr(area.start()));
        }
        let area = self.claim(&checked, note)?;
        self.back(area, &checked, note)
    }

    /// Reserves addresses without memory; the first. For mappings of one's own, I/O addresses, and the like. O(log n), and a
    /// purge when addresses run out.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn reserve(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let note = checked.note(Kind::Reserved, request.tag);
        Ok(self.addr(self.claim(&checked, note)?.start()))
    }

    /// Hands a retained area out again.
    #[inline]
    fn take_retained(&self, checked: &Checked, note: Note) -> Result<Option<PageRange>, AllocError> {
        let fit = &checked.fit;
        let usual = checked.guard_pages == u64::from(self.config.guard);
        if self.config.retain_bytes == 0 || !usual || fit.lowest_order().is_none() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        state.reserve_note(&note, self.config.guard)?;
        let Some(start) = state.retained.take(fit.pages(), fit.alignment()) else { return Ok(None) };
        match state.map.revive(start) {
            Ok(area) => {
                state.enter(area, note, self.config.guard);
                Ok(Some(area))
            }
            Err(damage) => self.platform.fatal(&damage),
        }
    }

    /// A busy area, not mapped yet. When there is no room for it, everything freed is given back first.
    fn claim(&self, checked: &Checked, note: Note) -> Result<PageRange, AllocError> {
        let mut fit = checked.fit;
        if let Policy::Random { seed } = fit.placement() {
            fit = fit.policy(Policy::Random { seed: seed ^ self.platform.entropy() });
        }
        match self.try_claim(&fit, note) {
            Err(AllocError::NoSpace(_)) => {
                // Should the platform fail here, less is free than could be: the retry tells.
                let _ = self.purge();
                self.try_claim(&fit, note)
            }
            result => result,
        }
    }

    fn try_claim(&self, fit: &Fit, note: Note) -> Result<PageRange, AllocError> {
        let mut state = self.state.lock();
        state.reserve_note(&note, self.config.guard)?;
        let area = state.map.alloc(fit)?;
        state.enter(area, note, self.config.guard);
        Ok(area)
    }

    /// Puts pages behind a claimed area. When there are none, everything retained is given back first.
    fn back(&self, area: PageRange, checked: &Checked, note: Note) -> Result<usize, AllocError> {
        let Err(cause) = self.map(area, checked) else { return Ok(self.addr(area.start())) };
        self.unclaim(area);
        if self.purge().is_err() {
            return Err(self.unbacked(checked, cause));
        }
        let area = self.claim(checked, note)?;
        self.map(area, checked).map_err(|cause| {
            self.unclaim(area);
            self.unbacked(checked, cause)
        })?;
        Ok(self.addr(area.start()))
    }

    #[cold]
    fn unbacked(&self, checked: &Checked, cause: PlatformError) -> AllocError {
        let fit = &checked.fit;
        let (pages, align) = (fit.pages(), fit.alignment());
        let within = fit.limits().unwrap_or(self.platform.span());
        let largest = self.state.lock().map.largest_free();
        Unbacked { pages, align, within, largest, cause }.into()
    }

    fn map(&self, area: PageRange, checked: &Checked) -> Result<(), PlatformError> {
        let payload = self.payload(area, checked.guard_pages);
        // SAFETY: the area was claimed for this caller alone.
        unsafe { self.platform.map(payload, Protection::ReadWrite) }
    }

    /// Frees an area that was never mapped: nothing to unmap, nothing to flush.
    fn unclaim(&self, area: PageRange) {
        let mut state = self.state.lock();
        let retired = state.retire(area.start(), Kind::Vmalloc, self.config.guard);
        let result = retired.and_then(|(area, _)| state.map.release(area.start()));
        if let Err(damage) = result {
            self.platform.fatal(&damage);
        }
    }

    /// The area's pages without its guard.
    fn payload(&self, area: PageRange, guard_pages: u64) -> PageRange {
        PageRange::of(area.start(), area.end() - guard_pages)
    }
}

impl<P: DirectMemory> Space<P> {
    /// Allocates `bytes` bytes, of any content. Cost as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes)).map(|addr| self.pointer(addr))
    }

    /// Allocates `bytes` bytes of zeros. Cost as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vzalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes).zeroed()).map(|addr| self.pointer(addr))
    }

    pub(super) fn pointer(&self, addr: usize) -> NonNull<u8> {
        match NonNull::new(core::ptr::with_exposed_provenance_mut(addr)) {
            Some(pointer) => pointer,
            None => self.platform.fatal(&"an area at address zero"),
        }
    }
}
