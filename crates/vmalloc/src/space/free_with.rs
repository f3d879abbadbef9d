//! Freeing what the owner unmaps by itself.

use super::{Raw, Space};
use crate::FreeError;
use crate::areas::{AreaInfo, Blocking, Disposition, FreedBy, Retired};
use crate::platform::Platform;

impl<P: Platform> Raw<'_, P> {
    /// Lets `unmap` end what the owner has done with an area of any kind that one call frees, and
    /// then frees it: one look-up instead of two. `unmap` is told what the area is, its
    /// [record](super::Request::record) too. Meanwhile no call finds the area, and none frees it.
    /// `unmap` holds no lock, and may call the space. The addresses are flushed before they are
    /// handed out again.
    ///
    /// ```
    /// # use vmalloc::{FreeError, Platform, Request, Space};
    /// # fn unmap_of_my_own(addr: usize, object: u64) -> Result<(), FreeError> { Ok(()) }
    /// # fn example<P: Platform>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
    /// let addr = space.raw().reserve(&Request::new(100_000).record(7))?;
    /// // SAFETY: nothing uses the addresses any more.
    /// unsafe { space.raw().free_with(addr, |area| unmap_of_my_own(area.addr, area.record)) }?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// As for the call that frees such an area.
    ///
    /// # Errors
    /// - [`FreeError`] when no such area starts at `addr`; `unmap` is not called.
    /// - What `unmap` returns. The area is its owner's as before, with its record; so it is if
    ///   `unmap` panics.
    /// - [`FreeError::NoMemory`] when there is none to remember the area until it is flushed, even
    ///   after a purge: `unmap` was called, and the area is its owner's.
    #[doc(alias = "vfree")]
    #[doc(alias = "remove_vm_area")]
    pub unsafe fn free_with<T, E: From<FreeError>>(
        &self,
        addr: usize,
        unmap: impl FnOnce(&AreaInfo) -> Result<T, E>,
    ) -> Result<T, E> {
        let page = self.space.page(addr)?;
        let retired = self.space.areas.retire(page, FreedBy::Any, Blocking::Allowed)?;
        let info = self.space.areas.info(retired.area, Some(retired.annotation), self.space.shift());
        let mut claimed = Claimed { space: self.space, retired: Some(retired) };
        let result = unmap(&info)?;
        let held = self.space.node_with_room(page)?;
        if let Some(retired) = claimed.retired.take() {
            held.put_retired(retired, u64::MAX, Disposition::MustUnmap)?;
        }
        Ok(result)
    }
}

/// An area out of use, which goes back to its owner if it is dropped.
struct Claimed<'a, P: Platform> {
    space: &'a Space<P>,
    retired: Option<Retired>,
}

impl<P: Platform> Drop for Claimed<'_, P> {
    fn drop(&mut self) {
        if let Some(Retired { area, annotation, entry, .. }) = self.retired.take() {
            self.space.raw().not_freed(area, annotation, entry, None);
        }
    }
}
