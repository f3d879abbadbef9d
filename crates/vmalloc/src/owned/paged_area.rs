//! Addresses of which the owner decides where memory is.

use super::handle::{Ends, Owned, SpaceRef, sealed::Sealed};
use crate::PageRange;
use crate::PageSet;
use crate::platform::{Discard, Platform};
use crate::space::{Request, Space};
use crate::{AllocError, AreaError, FreeError};
use core::ops::Range;

/// The pages of an area that have memory: see [`PagedArea`].
#[derive(Debug)]
pub struct Paged {
    committed: PageSet,
    bytes: usize,
}

impl Sealed for Paged {}

// SAFETY: areas of `Raw::reserve` end by `Raw::unreserve`.
unsafe impl<P: Platform> Ends<P> for Paged {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        unsafe { space.raw().unreserve(addr) }
    }
}

/// Owned addresses, parts of which have memory: a heap that grows, a pool of pages, a table with
/// holes. It knows which parts are *committed*, and refuses what makes no sense. A touch of the
/// others traps.
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
            Ok(committed) => Ok(Self::own(space, addr, Paged { committed, bytes })),
            Err(error) => {
                // SAFETY: the area was reserved above, and no caller has seen it.
                let freed = unsafe { space.raw().unreserve(addr) };
                freed.map_or(Err(AllocError::Metadata), |()| Err(error.into()))
            }
        }
    }

    /// Returns how many bytes of addresses there are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kind.bytes
    }

    /// Returns how many bytes have memory.
    #[must_use]
    pub fn committed_bytes(&self) -> usize {
        (self.kind.committed.len() << self.space().geometry().page_shift) as usize
    }

    /// Puts memory behind `range`, which reads as zero.
    ///
    /// # Errors
    /// [`AreaError`]: the range is empty, not of whole pages, not inside the area, or a page of it
    /// is committed ([`AreaError::Mapped`]); or memory is short. Nothing is changed.
    pub fn commit(&mut self, range: Range<usize>) -> Result<(), AreaError> {
        let pages = self.pages_inside(self.bytes(), &range)?;
        if let Some(page) = self.kind.committed.first(pages, true) {
            return Err(AreaError::Mapped { page });
        }
        let addrs = self.addrs(&range);
        let entered = self.kind.committed.insert(pages).map_err(AreaError::from);
        let committed = entered.and_then(|()| {
            // SAFETY: this owns the area, is borrowed exclusively, and nothing is committed there.
            unsafe { self.raw().commit(&[addrs]) }
        });
        if committed.is_err() {
            self.kind.committed.remove(pages);
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
        self.kind.committed.split_at_edges(pages)?;
        // SAFETY: this owns the area and is borrowed exclusively: nothing uses the pages.
        let decommitted = unsafe { self.raw().decommit(&[self.addrs(&range)]) };
        // What the platform refuses may be gone at any time: safe code must not reach it.
        if matches!(decommitted, Ok(()) | Err(AreaError::Platform(_))) {
            self.kind.committed.remove(pages);
        }
        decommitted
    }

    /// Returns the pages of a range that is committed as a whole.
    fn committed_pages(&self, range: &Range<usize>) -> Result<PageRange, AreaError> {
        let pages = self.pages_inside(self.bytes(), range)?;
        match self.kind.committed.first(pages, false) {
            Some(page) => Err(AreaError::NotMapped { page }),
            None => Ok(pages),
        }
    }

    fn addrs(&self, range: &Range<usize>) -> Range<usize> {
        self.addr().saturating_add(range.start)..self.addr().saturating_add(range.end)
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
