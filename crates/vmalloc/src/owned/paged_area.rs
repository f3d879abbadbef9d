//! Addresses of which the owner decides where memory or frames are.

use super::frames::Frames;
use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::PageRange;
use crate::PageSet;
use crate::platform::{Discard, MapFrames, Platform, Protection};
use crate::purge::FrameShare;
use crate::space::{Raw, Request, Space};
use crate::{AllocError, AreaError, FreeError};
use alloc::vec::Vec;
use core::ops::Range;

/// The use of the pages of an area: see [`PagedArea`].
#[derive(Debug)]
pub struct Paged {
    /// Pages with memory or a frame behind them.
    used: PageSet,
    /// Those with frames, in address order.
    mapped: Vec<Piece>,
}

/// Frames that were mapped in one call.
#[derive(Debug)]
struct Piece {
    pages: PageRange,
    share: FrameShare,
}

impl Sealed for Paged {}

// SAFETY: areas of `Raw::reserve` end by `Raw::unreserve`.
unsafe impl<P: Platform> Ends<P> for Paged {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        let ended = unsafe { space.raw().unreserve(addr) };
        let page = (addr >> space.geometry().page_shift) as u64;
        self.mapped.drain(..).for_each(|piece| space.frame_sets.lock().release(piece.share, page));
        ended
    }
}

/// Owned addresses, parts of which have memory, or show [`Frames`]: a heap that grows, a pool of
/// pages, a table with holes, a file of frames. It knows which parts are *committed* and which
/// *mapped*, refuses what makes no sense, and keeps the frames alive that are mapped in it. A touch
/// of the other parts traps.
///
/// Ranges are in bytes from the start of the area, of whole pages. For many ranges in one call, of
/// many areas, or from many threads, see [`Raw::commit`](crate::Raw::commit).
///
/// ```
/// # use vmalloc::{Discard, PagedArea, Request, Space};
/// # fn example<P: Discard>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut heap = PagedArea::new(space, &Request::new(1 << 40).tag("heap"))?;
/// heap.commit(0..1 << 20)?;
/// heap.reset(0..1 << 16)?;
/// heap.decommit(1 << 16..1 << 20)?;
/// assert_eq!(heap.committed_bytes(), 1 << 16);
/// # Ok(())
/// # }
/// ```
pub type PagedArea<S> = Owned<S, Paged>;

impl<S: SpaceRef> PagedArea<S> {
    /// Reserves addresses. Cost as [`Raw::reserve`](crate::Raw::reserve).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let addr = space.raw().reserve(request)?;
        let bytes = space.usable_size(addr).unwrap_or(0);
        let pages = |addr: usize| (addr >> space.geometry().page_shift) as u64;
        let span = PageRange::of(pages(addr), pages(addr + bytes));
        match PageSet::new(span) {
            Ok(used) => Ok(Self::own(space, addr, bytes, Paged { used, mapped: Vec::new() })),
            Err(error) => {
                // SAFETY: the area was reserved above, and no caller has seen it.
                let freed = unsafe { space.raw().unreserve(addr) };
                freed.map_or(Err(AllocError::Metadata), |()| Err(error.into()))
            }
        }
    }

    /// Returns how many bytes have memory of their own.
    #[must_use]
    pub fn committed_bytes(&self) -> usize {
        let mapped: u64 = self.kind.mapped.iter().map(|piece| piece.pages.len()).sum();
        ((self.kind.used.len() - mapped) << self.space().geometry().page_shift) as usize
    }

    /// Puts memory behind `range`, which reads as zero.
    ///
    /// # Errors
    /// [`AreaError`]: the range is empty, not of whole pages, not inside the area, or a page of it
    /// is committed or mapped ([`AreaError::Mapped`]); or memory is short. Nothing is changed.
    pub fn commit(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        // SAFETY: the pages are an owned area's, and nothing is behind them.
        self.commit_by(range, |raw, addrs| unsafe { raw.commit(&[addrs]) })
    }

    /// Puts memory behind `range` as [`commit`](Self::commit) does, but never purges nor waits for
    /// a purge.
    ///
    /// # Errors
    /// [`AreaError`] as there, and see [`Raw::try_commit`]; nothing is changed.
    pub fn try_commit(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        // SAFETY: the pages are an owned area's, and nothing is behind them.
        self.commit_by(range, |raw, addrs| unsafe { raw.try_commit(addrs) })
    }

    /// Commits unused pages of this area by `commit`.
    fn commit_by(
        &mut self,
        range: Range<usize>,
        commit: impl FnOnce(Raw<'_, S::Platform>, Range<usize>) -> Result<(), AreaError>,
    ) -> Result<(), AreaError> {
        let (pages, addrs) = (self.unused_pages(&range)?, self.addrs(&range));
        let entered = self.kind.used.insert(pages).map_err(AreaError::from);
        let committed = entered.and_then(|()| commit(self.raw(), addrs));
        if committed.is_err() {
            self.kind.used.remove(pages);
        }
        committed
    }

    /// Takes the memory behind `range` away. A touch of it traps then, on every CPU.
    ///
    /// # Errors
    /// [`AreaError`]: the range is empty, not of whole pages, not inside the area, or a page of it
    /// is not committed ([`AreaError::NotMapped`]), or memory is short; nothing is changed. If the
    /// platform refused, the pages are not committed any more, and the next purge takes what is
    /// left of their memory.
    pub fn decommit(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        let pages = self.committed_pages(&range)?;
        self.kind.used.split_at_edges(pages)?;
        // SAFETY: this owns the area and is borrowed exclusively: nothing uses the pages.
        let decommitted = unsafe { self.raw().decommit(&[self.addrs(&range)]) };
        // What the platform refuses may be gone at any time: safe code must not reach it.
        if matches!(decommitted, Ok(()) | Err(AreaError::Platform(_))) {
            self.kind.used.remove(pages);
        }
        decommitted
    }

    /// Returns the pages of a range in which nothing is.
    fn unused_pages(&self, range: &Range<usize>) -> Result<PageRange, AreaError> {
        let pages = self.pages_inside(range)?;
        match self.kind.used.first(pages, true) {
            Some(page) => Err(AreaError::Mapped { addr: self.page_addr(page) }),
            None => Ok(pages),
        }
    }

    /// Returns the pages of a range that is committed as a whole.
    fn committed_pages(&self, range: &Range<usize>) -> Result<PageRange, AreaError> {
        let pages = self.pages_inside(range)?;
        let mapped = self.kind.mapped[self.piece_from(pages.start())..].first();
        let mapped = mapped.and_then(|piece| piece.pages.intersection(&pages));
        match self.kind.used.first(pages, false).or(mapped.map(|pages| pages.start())) {
            Some(page) => Err(AreaError::NotMapped { addr: self.page_addr(page) }),
            None => Ok(pages),
        }
    }

    /// Returns the place of the first piece that ends behind `page`.
    fn piece_from(&self, page: u64) -> usize {
        self.kind.mapped.partition_point(|piece| piece.pages.end() <= page)
    }

    fn page_addr(&self, page: u64) -> usize {
        (page << self.space().geometry().page_shift) as usize
    }

    fn addrs(&self, range: &Range<usize>) -> Range<usize> {
        self.addr().saturating_add(range.start)..self.addr().saturating_add(range.end)
    }
}

impl<S: SpaceRef<Platform: MapFrames>> PagedArea<S> {
    /// Maps all `frames` from `offset` bytes on, where nothing is yet. Returns their address.
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
        let shift = self.space().geometry().page_shift;
        let pages = self.unused_pages(&(offset..offset.saturating_add(frames.len() << shift)))?;
        self.kind.mapped.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        let (addr, share) = (self.addr() + offset, frames.share_again()?);
        let entered = self.kind.used.insert(pages).map_err(AreaError::from);
        let mapped = entered.and_then(|()| {
            // SAFETY: this owns the area, is borrowed exclusively, and nothing is behind the pages.
            unsafe { self.raw().map_pages(addr, frames, protection) }
        });
        if let Err(error) = mapped {
            self.kind.used.remove(pages);
            self.space().frame_sets.end(share, self.space().platform());
            return Err(error);
        }
        let place = self.piece_from(pages.start());
        self.kind.mapped.insert(place, Piece { pages, share });
        Ok(addr)
    }

    /// Unmaps the frames that were mapped from `offset` bytes on. On return no CPU reaches them
    /// through this area.
    ///
    /// # Safety
    /// Nothing uses them through this area any more.
    ///
    /// # Errors
    /// [`AreaError`]: see [`Raw::unmap_pages`](crate::Raw::unmap_pages). Frames that the platform
    /// refused to unmap count as mapped until a second call succeeds.
    pub unsafe fn unmap(&mut self, offset: usize) -> Result<(), AreaError> {
        let addr = self.addr().saturating_add(offset);
        let page = (addr >> self.space().geometry().page_shift) as u64;
        let place = self.piece_from(page);
        let pages = match self.kind.mapped.get(place) {
            Some(piece) if self.page_addr(piece.pages.start()) == addr => piece.pages,
            _ => return Err(AreaError::NotMapped { addr: self.page_addr(page) }),
        };
        self.kind.used.split_at_edges(pages)?;
        // SAFETY: this owns the area, and is borrowed exclusively; the caller uses the pages no
        // more.
        match unsafe { self.raw().unmap_pages(addr, pages.len()) } {
            // They were refused once, and a purge has unmapped them since.
            Ok(()) | Err(AreaError::NotMapped { .. }) => {}
            Err(error) => return Err(error),
        }
        self.kind.used.remove(pages);
        let piece = self.kind.mapped.remove(place);
        self.space().frame_sets.end(piece.share, self.space().platform());
        Ok(())
    }
}

impl<S: SpaceRef<Platform: Discard>> PagedArea<S> {
    /// Makes `range` read as zero and gives its memory back to the machine. It stays committed.
    ///
    /// # Errors
    /// [`AreaError`] for ranges as in [`decommit`](Self::decommit); nothing is changed. If the
    /// platform refused, each page reads as zero or as before.
    pub fn discard(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        self.committed_pages(&range)?;
        // SAFETY: this owns the area and is borrowed exclusively: nothing needs the pages.
        unsafe { self.raw().discard(&[self.addrs(&range)]) }
    }

    /// Makes `range` read as zero in the way that costs least if it is used again. See
    /// [`Raw::reset`](crate::Raw::reset).
    ///
    /// # Errors
    /// As for [`discard`](Self::discard).
    pub fn reset(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        self.committed_pages(&range)?;
        // SAFETY: this owns the area and is borrowed exclusively: nothing needs the pages.
        unsafe { self.raw().reset(&[self.addrs(&range)]) }
    }
}
