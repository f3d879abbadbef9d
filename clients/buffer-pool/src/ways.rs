//! Three ways to have memory behind chosen pages of one large range of addresses.

use crate::PAGE;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ops::Range;
use thiserror::Error;
use vmalloc_linux::{
    AllocError, AreaError, Error, LinuxOptions, Request, SharedSpace, SpaceOptions, open,
};

/// Why a way could not do its work.
#[derive(Debug, Error)]
pub enum WayError {
    /// There is no space of addresses.
    #[error("no space: {0}")]
    Open(#[from] Error),
    /// There are no addresses for the pool.
    #[error("no addresses: {0}")]
    Addresses(#[from] AllocError),
    /// The space has refused.
    #[error("vmalloc: {0}")]
    Area(#[from] AreaError),
    /// The kernel has refused.
    #[error("the kernel: {0}")]
    Kernel(#[from] Errno),
}

/// Addresses of a pool, and how memory comes and goes there.
///
/// # Safety
/// From [`addr`](Self::addr) on there are as many pages as the way was made for. Between `bring_in` and `evict` a page is
/// plain memory that nothing but the pool reads or writes.
pub unsafe trait Way: Sync {
    /// Returns the address of the first page.
    fn addr(&self) -> usize;

    /// Makes a page accessible.
    ///
    /// # Safety
    /// The page is one of the way's, evicted, and the caller's alone.
    ///
    /// # Errors
    /// [`WayError`]: the page is not accessible then.
    unsafe fn bring_in(&self, page: &Range<usize>) -> Result<(), WayError>;

    /// Gives the memory of pages back to the machine.
    ///
    /// # Safety
    /// The pages are the way's, different ones, accessible, the caller's alone, and their content is of no more use.
    ///
    /// # Errors
    /// [`WayError`]: each page is accessible or evicted then, and may be brought in again.
    unsafe fn evict(&self, pages: &[Range<usize>]) -> Result<(), WayError>;
}

/// What becomes of evicted pages in an area of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// They read as zero: the whole area is committed once, and pages are discarded.
    ReadAsZero,
    /// They trap: pages are committed when they are brought in, and decommitted.
    Trap,
}

/// An area of vmalloc, with one call for each batch of evicted pages.
pub struct OnVmalloc {
    space: SharedSpace,
    addr: usize,
    evicted: Evicted,
}

impl OnVmalloc {
    /// Reserves an area of `pages`.
    ///
    /// # Errors
    /// [`WayError`]: there are no addresses for it.
    pub fn new(pages: usize, evicted: Evicted) -> Result<Self, WayError> {
        let space = open(LinuxOptions::new(), SpaceOptions::default())?;
        let addr = space.raw().reserve(&Request::new(pages * PAGE).tag("buffer pool"))?;
        if evicted == Evicted::ReadAsZero {
            let all = addr..addr + pages * PAGE;
            // SAFETY: the area is ours, and nothing is committed in it.
            unsafe { space.raw().commit(&[all]) }?;
        }
        Ok(Self { space, addr, evicted })
    }
}

// SAFETY: the area has these pages. Only the pool knows it, so no other part of the program uses its memory.
unsafe impl Way for OnVmalloc {
    fn addr(&self) -> usize {
        self.addr
    }

    unsafe fn bring_in(&self, page: &Range<usize>) -> Result<(), WayError> {
        if self.evicted == Evicted::Trap {
            // SAFETY: the caller says that the page is evicted, so not committed, and its own.
            unsafe { self.space.raw().commit(std::slice::from_ref(page)) }?;
        }
        Ok(())
    }

    unsafe fn evict(&self, pages: &[Range<usize>]) -> Result<(), WayError> {
        let raw = self.space.raw();
        // SAFETY: the caller says that the pages are committed, its own, and of no more use.
        unsafe {
            match self.evicted {
                Evicted::ReadAsZero => raw.discard(pages),
                Evicted::Trap => raw.decommit(pages),
            }
        }?;
        Ok(())
    }
}

impl Drop for OnVmalloc {
    fn drop(&mut self) {
        // SAFETY: the area is ours, and the pool that used it is gone. Where the free is refused, the space has it.
        let _ = unsafe { self.space.raw().free(self.addr) };
    }
}

/// Addresses that were mapped by hand.
struct Mapped {
    addr: usize,
    bytes: usize,
}

impl Mapped {
    fn new(pages: usize, access: ProtFlags) -> Result<Self, WayError> {
        let (bytes, flags) = (pages * PAGE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping, where the kernel has room for it.
        let addr = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
        Ok(Self { addr: addr.expose_provenance(), bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the pool that used it is gone.
        let _ = unsafe { rustix::mm::munmap(pointer(self.addr), self.bytes) };
    }
}

fn pointer(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}

/// One large mapping, whose evicted pages are dropped by `madvise(MADV_DONTNEED)`, page by page.
pub struct ByMadvise(Mapped);

impl ByMadvise {
    /// Maps so many pages.
    ///
    /// # Errors
    /// [`WayError`]: the kernel has no addresses for them.
    pub fn new(pages: usize) -> Result<Self, WayError> {
        Ok(Self(Mapped::new(pages, ProtFlags::READ | ProtFlags::WRITE)?))
    }
}

// SAFETY: the mapping has these pages, and only the pool knows it.
unsafe impl Way for ByMadvise {
    fn addr(&self) -> usize {
        self.0.addr
    }

    unsafe fn bring_in(&self, _: &Range<usize>) -> Result<(), WayError> {
        Ok(())
    }

    unsafe fn evict(&self, pages: &[Range<usize>]) -> Result<(), WayError> {
        for page in pages {
            // SAFETY: the caller says that the page is its own, and of no more use.
            unsafe { rustix::mm::madvise(pointer(page.start), PAGE, Advice::LinuxDontNeed) }?;
        }
        Ok(())
    }
}

/// A pool of mappings: each page that is brought in is a mapping, which the eviction ends.
pub struct ByMmap(Mapped);

impl ByMmap {
    /// Reserves addresses for so many pages.
    ///
    /// # Errors
    /// [`WayError`]: the kernel has no addresses for them.
    pub fn new(pages: usize) -> Result<Self, WayError> {
        Ok(Self(Mapped::new(pages, ProtFlags::empty())?))
    }

    /// Maps something else at a page.
    ///
    /// # Safety
    /// The page is of this way, and its content is of no more use.
    unsafe fn replace(page: &Range<usize>, access: ProtFlags) -> Result<(), WayError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the addresses are this way's own, and the caller needs nothing there.
        unsafe { rustix::mm::mmap_anonymous(pointer(page.start), PAGE, access, flags) }?;
        Ok(())
    }
}

// SAFETY: the reservation has these pages, and only the pool knows it.
unsafe impl Way for ByMmap {
    fn addr(&self) -> usize {
        self.0.addr
    }

    unsafe fn bring_in(&self, page: &Range<usize>) -> Result<(), WayError> {
        // SAFETY: the caller says that the page is evicted.
        unsafe { Self::replace(page, ProtFlags::READ | ProtFlags::WRITE) }
    }

    unsafe fn evict(&self, pages: &[Range<usize>]) -> Result<(), WayError> {
        for page in pages {
            // SAFETY: the caller says that the page is its own, and of no more use. No mapping at all would leave
            // addresses that another part of the program may be given.
            unsafe { Self::replace(page, ProtFlags::empty()) }?;
        }
        Ok(())
    }
}
