//! The owner of one area, whatever its kind.

use crate::PageRange;
use crate::platform::{DirectMemory, Platform};
use crate::space::{Raw, Request, Space};
use crate::{AllocError, AreaError, FreeError};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;
use stable_deref_trait::StableDeref;

/// A reference that always leads to the same space: `&Space<P>`, `Arc<Space<P>>`, `Box<Space<P>>`
/// and others that are `StableDeref`.
pub trait SpaceRef: StableDeref<Target = Space<Self::Platform>> {
    /// The platform of the space.
    type Platform: Platform;
}

impl<P: Platform, S: StableDeref<Target = Space<P>>> SpaceRef for S {
    type Platform = P;
}

/// The way in which an area ends. Only the kinds of this crate implement it.
///
/// # Safety
/// `end` ends an area of the kind that the type stands for, and no other.
pub unsafe trait Ends<P: Platform>: sealed::Sealed {
    /// Ends the area at `addr`.
    ///
    /// # Safety
    /// The caller owns the area, which is of this kind, and nothing uses it any more.
    #[doc(hidden)]
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError>;
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// The owner of an area of a space, which ends the area when it is dropped.
///
/// The aliases name its kinds: [`Area`], [`Reservation`], [`Mapping`](super::Mapping) and the
/// [others](crate#what-owns-what).
pub struct Owned<S: SpaceRef, K: Ends<S::Platform>> {
    space: S,
    addr: usize,
    bytes: usize,
    pub(super) kind: K,
}

impl<S: SpaceRef, K: Ends<S::Platform>> Owned<S, K> {
    pub(super) fn own(space: S, addr: usize, bytes: usize, kind: K) -> Self {
        Self { space, addr, bytes, kind }
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Returns how many bytes it has: as many as were asked for, or whole pages where pages are
    /// mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// Sets the [record](Request::record) of the area, or takes it away with 0.
    ///
    /// # Errors
    /// [`AreaError`] when memory to note it is short; nothing is changed.
    pub fn set_record(&mut self, record: u64) -> Result<(), AreaError> {
        // SAFETY: this owns the area.
        unsafe { self.raw().set_record(self.addr, record) }
    }

    pub(super) fn raw(&self) -> Raw<'_, S::Platform> {
        self.space.raw()
    }

    /// Notes where an area lies now, and its bytes.
    pub(super) fn moved_to(&mut self, addr: usize, bytes: usize) {
        (self.addr, self.bytes) = (addr, bytes);
    }

    /// Returns the pages of `range`, in bytes from the start of this area. It looks at no other
    /// area: pages outside may be any other owner's, now or in a moment.
    pub(super) fn pages_inside(&self, range: &Range<usize>) -> Result<PageRange, AreaError> {
        let [start, end] = [range.start, range.end].map(|offset| self.addr.saturating_add(offset));
        let asked = self.raw().pages_between(&(start..end))?;
        let page = |addr: usize| (addr >> self.space.geometry().page_shift) as u64;
        let pages = PageRange::of(page(self.addr), page(self.addr + self.bytes));
        if pages.covers(&asked) { Ok(asked) } else { Err(self.space.beyond(asked, pages)) }
    }

    /// Gives up the area without ending it. Returns the reference to the space, the address and the
    /// bytes.
    pub(super) fn into_parts(self) -> (S, usize, usize) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the field is read once, the other is dropped once, and `this` is never dropped.
        unsafe {
            core::ptr::drop_in_place(&mut this.kind);
            (core::ptr::read(&this.space), this.addr, this.bytes)
        }
    }
}

impl<S: SpaceRef, K: Ends<S::Platform> + Default> Owned<S, K> {
    /// Gives the area up without freeing it. Returns its address.
    #[must_use = "the area is lost without its address"]
    pub fn leak(self) -> usize {
        self.into_parts().1
    }

    /// Owns an area that was [leaked](Self::leak), all of its pages.
    ///
    /// # Safety
    /// An area that can be owned in this way, as memory of [`Raw::alloc`] by an [`Area`] and
    /// addresses of [`Raw::reserve`] by a [`Reservation`], starts at `addr`. It has no other owner.
    pub unsafe fn from_raw(space: S, addr: usize) -> Self {
        let bytes = space.usable_size(addr).unwrap_or(0);
        Self::own(space, addr, bytes, K::default())
    }
}

impl<S: SpaceRef<Platform: DirectMemory>, K: Ends<S::Platform>> Owned<S, K> {
    /// Returns the address of the first byte as a pointer. What may be read and written through it
    /// is what is mapped there.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.addr)
    }
}

impl<S: SpaceRef, K: Ends<S::Platform>> Drop for Owned<S, K> {
    fn drop(&mut self) {
        // SAFETY: this owned the area, of this kind, and is gone.
        if let Err(error) = unsafe { self.kind.end(&self.space, self.addr) } {
            self.space.platform().fatal(&error);
        }
    }
}

impl<S: SpaceRef, K: Ends<S::Platform>> fmt::Debug for Owned<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("addr", &format_args!("{:#x}", self.addr))
            .field("area", &self.space.find(self.addr))
            .finish_non_exhaustive()
    }
}

/// Memory: see [`Area`].
#[derive(Debug, Default)]
pub struct Memory(());

impl sealed::Sealed for Memory {}

// SAFETY: areas of `Raw::alloc` and `Raw::alloc_shared` end by `Raw::free`.
unsafe impl<P: Platform> Ends<P> for Memory {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        unsafe { space.raw().free(addr) }
    }
}

/// Owned memory, by its address: for platforms whose memory this program can't touch, and for
/// memory that is not read or written as bytes. See [`Buffer`](crate::Buffer) for bytes.
///
/// ```
/// # use vmalloc::{Area, Platform, Request, Space};
/// # fn example<P: Platform>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
/// let area = Area::new(space, &Request::new(10_000).tag("example"))?;
/// assert_eq!((area.len(), area.capacity()), (10_000, 12_288));
/// # Ok(())
/// # }
/// ```
pub type Area<S> = Owned<S, Memory>;

impl<S: SpaceRef> Area<S> {
    /// Allocates memory. Cost as [`Raw::alloc`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let addr = space.raw().alloc(request)?;
        Ok(Self::own(space, addr, request.bytes(), Memory(())))
    }

    /// Returns how many bytes the area's pages have: at least as many as were asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.space.usable_size(self.addr).unwrap_or(0)
    }

    /// Makes the area larger without moving it.
    ///
    /// # Errors
    /// See [`Raw::grow_in_place`]; nothing is changed.
    pub fn grow_in_place(&mut self, bytes: usize) -> Result<(), crate::AreaError> {
        // SAFETY: this owns the area.
        unsafe { self.raw().grow_in_place(self.addr, bytes) }?;
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

/// Addresses alone: see [`Reservation`].
#[derive(Debug, Default)]
pub struct Addresses(());

impl sealed::Sealed for Addresses {}

// SAFETY: areas of `Raw::reserve` end by `Raw::unreserve`.
unsafe impl<P: Platform> Ends<P> for Addresses {
    unsafe fn end(&mut self, space: &Space<P>, addr: usize) -> Result<(), FreeError> {
        // SAFETY: the caller owns it.
        unsafe { space.raw().unreserve(addr) }
    }
}

/// Owned addresses without memory, for mappings of one's own.
pub type Reservation<S> = Owned<S, Addresses>;

impl<S: SpaceRef> Reservation<S> {
    /// Reserves addresses. Cost as [`Raw::reserve`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn new(space: S, request: &Request) -> Result<Self, AllocError> {
        let addr = space.raw().reserve(request)?;
        Ok(Self::own(space, addr, request.bytes(), Addresses(())))
    }
}
