//! Memory for code: writable or executable, never both.

use super::alloc::Backing;
use super::request::Blocking;
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::error::{AllocError, AreaError, FreeError};
use crate::platform::{Protect, Protection};

impl<P: Protect> Space<P> {
    /// Allocates zeroed memory that is writable at first, and executable once
    /// [`set_protection`](Self::set_protection) says so. It is never cached: what is freed is unmapped and flushed before its
    /// addresses or its pages are used again. [`vfree`](Self::vfree) frees it.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc_exec(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        let area = match checked.blocking {
            Blocking::Allowed => self.claim(checked.fit),
            Blocking::Forbidden => self.try_claim(&checked.fit),
        }?;
        let annotation = checked.annotation(area, self.shift, Kind::Exec, request.tag);
        self.hand_out(area, annotation, Backing::None)?;
        self.back_with(area, &checked, annotation, &request.zeroed())
    }

    /// Changes what may be done with the area that [`vmalloc_exec`](Self::vmalloc_exec) or [`vmap`](Self::vmap) returned at `addr`; on return it holds
    /// for every CPU.
    ///
    /// # Safety
    /// Nothing uses the area in a way that it will not allow. What is made executable is code for this machine.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is changed, unless the platform refused: then some pages may have the new protection.
    pub unsafe fn set_protection(&self, addr: usize, protection: Protection) -> Result<(), AreaError> {
        let page = self.page(addr)?;
        let area = self.find(addr).ok_or(FreeError::NotAnArea { page })?;
        if area.addr != addr {
            return Err(FreeError::Interior { page, start: (area.addr >> self.shift) as u64 }.into());
        }
        // Plain areas are cached as they are, and others rely on writing to them.
        if !matches!(area.kind, Kind::Exec | Kind::Vmap) {
            return Err(FreeError::WrongKind { page }.into());
        }
        // SAFETY: the area is the caller's.
        unsafe { self.platform.protect(PageRange::of(page, page + area.pages), protection) }
            .map_err(AreaError::Platform)
    }
}
