//! The reserved span, and every call that changes what may be done with its pages.
//!
//! Invariants:
//! - **M1** The span is one private anonymous mapping made here, held by nobody else, and lives as long as
//!   this.
//! - **M2** All calls are given ranges inside the span. [`Platform`](vmalloc::Platform) checks that once, at
//!   the boundary; from there on it is only debug-asserted.

use crate::advise::{Advice, Sender, advise};
use crate::error::platform_error;
use libc::iovec;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use vmalloc::{PageRange, PlatformError};

/// Memory of this process, given back when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and nothing here depends on which thread uses
// it.
unsafe impl Send for Mapping {}
// SAFETY: the fields are constant; what is done with the memory is the affair of those who do it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Fresh private memory that reads as zero, at an address that the kernel chooses. It is not counted
    /// against the memory of the machine before it is touched.
    pub(crate) fn new(bytes: usize, access: Access) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access.map(), flags)? };
        base.expose_provenance();
        NonNull::new(base).map(|base| Self { base, bytes }).ok_or(Errno::NOMEM)
    }

    pub(crate) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and whoever owned the mapping has given up what was in it. It
        // can fail only at the limit on mappings, if the kernel would have to split one; these are whole.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// What may be done with pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    None,
    ReadWrite,
}

impl Access {
    fn map(self) -> ProtFlags {
        match self {
            Self::None => ProtFlags::empty(),
            Self::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }

    fn protect(self) -> MprotectFlags {
        match self {
            Self::None => MprotectFlags::empty(),
            Self::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        }
    }
}

/// The reserved span.
#[derive(Debug)]
pub(crate) struct Memory {
    mapping: Mapping,
    span: PageRange,
    page_shift: u32,
    sender: Sender,
}

impl Memory {
    /// The memory of a mapping of whole pages; `None` if it is not one.
    pub(crate) fn new(mapping: Mapping, page_bytes: usize, sender: Sender) -> Option<Self> {
        let page_shift = page_bytes.trailing_zeros();
        let start = mapping.base().addr().get() as u64 >> page_shift;
        let span = PageRange::from_len(start, mapping.bytes() as u64 >> page_shift)?;
        Some(Self { mapping, span, page_shift, sender })
    }

    pub(crate) fn span(&self) -> PageRange {
        self.span
    }

    pub(crate) fn page_shift(&self) -> u32 {
        self.page_shift
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Chooses how many runs are advised at once. Only while reserving: afterwards it is constant.
    pub(crate) fn set_sender(&mut self, sender: Sender) {
        self.sender = sender;
    }

    /// The addresses of `range`.
    pub(crate) fn run(&self, range: PageRange) -> iovec {
        debug_assert!(self.span.covers(&range), "{range:?} is outside the span {:?}", self.span);
        let offset = (range.start() - self.span.start()) << self.page_shift;
        let iov_base = self.mapping.base().as_ptr().wrapping_byte_add(offset as usize);
        iovec { iov_base, iov_len: (range.len() << self.page_shift) as usize }
    }

    /// Changes the access to `range`; what lies in it stays, unreachable or not.
    pub(crate) fn protect(&self, range: PageRange, access: Access) -> Result<(), Errno> {
        let run = self.run(range);
        // SAFETY: M1, M2: the run is inside our own mapping. The only effect on a thread of this program is
        // that a touch of these pages traps or does not, and `Platform` says when it must.
        unsafe { mprotect(run.iov_base, run.iov_len, access.protect()) }
    }

    pub(crate) fn advise(&self, range: PageRange, advice: Advice) -> Result<(), PlatformError> {
        // SAFETY: M1, M2; `Platform::unmap` is called only for pages whose content is no longer wanted, and
        // the other advice drops pages only where nothing is mapped.
        unsafe { advise(self.run(range), advice) }.map_err(|errno| platform_error(advice.call(), errno))
    }

    /// Advises about many `runs`, each from [`run`](Self::run), in as few calls as there are means for.
    pub(crate) fn advise_all(&self, runs: &[iovec], advice: Advice) -> Result<(), PlatformError> {
        // SAFETY: as in `advise`.
        unsafe { self.sender.advise_all(runs, advice) }.map_err(|errno| platform_error(advice.call(), errno))
    }
}
