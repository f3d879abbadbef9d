//! Addresses into which frames are mapped page by page.

use super::frames::Frames;
use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::platform::{MapFrames, Protection};
use crate::purge::FrameShare;
use crate::space::{Request, Space};
use crate::{AllocError, AreaError, FreeError};
use alloc::vec::Vec;

/// Frames somewhere in an area: see [`SparseArea`].
#[derive(Debug)]
pub struct Sparse {
    bytes: usize,
    mapped: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    addr: usize,
    pages: u64,
    share: FrameShare,
}

impl Sealed for Sparse {}

// SAFETY: areas of `Raw::alloc_sparse` end by `Raw::free_sparse`.
unsafe impl<P: MapFrames> Ends<P> for Sparse {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        let ended = unsafe { space.raw().free_sparse(addr) };
        self.mapped.drain(..).for_each(|piece| space.release_share(piece.share, addr));
        ended
    }
}

/// Owned addresses into which [`Frames`] are mapped piece by piece. It keeps the frames alive that
/// are mapped in it.
pub type SparseArea<S> = Owned<S, Sparse>;

impl<S: SpaceRef<Platform: MapFrames>> SparseArea<S> {
    /// Allocates addresses. Cost as [`Raw::reserve`](crate::Raw::reserve).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let addr = space.raw().alloc_sparse(request)?;
        let bytes = space.usable_size(addr).unwrap_or(0);
        Ok(Self::own(space, addr, Sparse { bytes, mapped: Vec::new() }))
    }

    /// Maps all `frames` from `offset` bytes on, where nothing is mapped yet. Returns their
    /// address.
    ///
    /// # Errors
    /// [`AreaError`], among them [`AreaError::Beyond`] where the area has no such pages, and
    /// [`AreaError::ForeignFrames`] for frames of another space; nothing is changed.
    pub fn map(
        &mut self,
        offset: usize,
        frames: &Frames<S>,
        protection: Protection,
    ) -> Result<usize, AreaError> {
        if !core::ptr::eq::<Space<_>>(&**self.space(), &**frames.space()) {
            return Err(AreaError::ForeignFrames);
        }
        let (addr, shift) = (self.addr().saturating_add(offset), self.space().geometry().page_shift);
        self.pages_inside(self.kind.bytes, &(offset..offset.saturating_add(frames.len() << shift)))?;
        self.kind.mapped.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        let share = frames.share_again()?;
        // SAFETY: this owns the area, and is borrowed exclusively.
        if let Err(error) = unsafe { self.raw().map_pages(addr, frames, protection) } {
            self.space().end_share(share);
            return Err(error);
        }
        self.kind.mapped.push(Piece { addr, pages: frames.len() as u64, share });
        Ok(addr)
    }

    /// Unmaps the frames that were mapped from `offset` bytes on. On return no CPU reaches them
    /// through this area.
    ///
    /// # Safety
    /// Nothing uses them through this area any more.
    ///
    /// # Errors
    /// [`AreaError`]: see [`Raw::unmap_pages`](crate::Raw::unmap_pages).
    pub unsafe fn unmap(&mut self, offset: usize) -> Result<(), AreaError> {
        let addr = self.addr().saturating_add(offset);
        let Some(index) = self.kind.mapped.iter().position(|piece| piece.addr == addr) else {
            let page = (addr >> self.space().geometry().page_shift) as u64;
            return Err(AreaError::NotMapped { page });
        };
        let pages = self.kind.mapped[index].pages;
        // SAFETY: this owns the area, and is borrowed exclusively; the caller uses the pages no
        // more.
        unsafe { self.raw().unmap_pages(addr, pages) }?;
        let piece = self.kind.mapped.swap_remove(index);
        self.space().end_share(piece.share);
        Ok(())
    }
}
