//! Memory for code: writable or executable, never both.

use super::{Raw, Request};
use crate::areas::Kind;
use crate::platform::{Protect, Protection};
use crate::{AllocError, AreaError, FreeError};

impl<P: Protect> Raw<'_, P> {
    /// Allocates zeroed memory that is writable at first, and executable once
    /// [`protect`](Self::protect) says so. It is never cached: a freed area is unmapped and flushed
    /// before its addresses or its pages are used again. [`free`](Self::free) frees it.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "vmalloc_exec")]
    #[doc(alias = "execmem_alloc")]
    pub fn alloc_exec(&self, request: &Request) -> Result<usize, AllocError> {
        let request = request.zeroed();
        let allocation = self.begin(&request)?;
        let (area, _) = allocation.claim_as(Kind::Exec, false)?;
        allocation.back(area, Kind::Exec)
    }

    /// Changes what may be done with the area that [`alloc_exec`](Self::alloc_exec) or
    /// [`map`](Self::map) returned at `addr`. On return it holds for every CPU.
    ///
    /// # Safety
    /// Nothing uses the area in a way that it will not allow. Bytes that are made executable are
    /// code for this machine.
    ///
    /// # Errors
    /// [`AreaError`]; nothing is changed, unless the platform refused: then some pages may have the
    /// new protection.
    #[doc(alias = "set_memory_ro")]
    #[doc(alias = "set_memory_rox")]
    pub unsafe fn protect(&self, addr: usize, protection: Protection) -> Result<(), AreaError> {
        let area = self.space.area_starting(addr)?;
        // Plain areas are cached as they are, and others rely on writing to them.
        if !matches!(area.kind, Kind::Exec | Kind::Vmap) {
            return Err(FreeError::WrongKind { addr }.into());
        }
        // SAFETY: the area is the caller's.
        unsafe { self.space.platform.protect(self.space.pages_of(&area), protection) }
            .map_err(AreaError::Platform)
    }
}
