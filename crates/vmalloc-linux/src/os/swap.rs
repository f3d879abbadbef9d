//! Replacing what is behind a range of the span, which stays mapped at every moment.
//!
//! # The hole
//! A call that maps over a range removes the former mapping first. Kernels before 6.17 (mremap(2))
//! and 6.12 (mmap(2)) may refuse after that, and leave a **hole**. The next mmap(2) of any thread
//! may be given addresses in it. A second try to map the range would replace that thread's memory.
//!
//! ```text
//!   refused:   │ span … │  hole  │ … span │        another thread's mmap(2): │ … │ theirs │ … │
//! ```
//!
//! # Rules
//! - **H1** A step that the program can cause to be refused (several mappings, limits on addresses,
//!   data or memory) is made where a refusal changes nothing. [`Reservation::lift`] moves pages to
//!   a place that the kernel chooses, and [`Reservation::replace`] maps first without access.
//! - **H2** One call then replaces the range: by one whole mapping of its length, or by one without
//!   access. Only want of memory in the kernel can refuse that, or a filter of system calls. The
//!   pages of the range trap before, or show shared memory. So a page that can be read after a
//!   refusal, or that shows no shared memory, is another owner's. One case is not seen: another
//!   owner's mapping that fills the hole to the page, and can't be read, or is shared, or lies
//!   where private memory was to be replaced.
//! - **H3** After such a refusal the caller [mends](Reservation::mend) the range. Pages without a
//!   mapping get one by a call that replaces nothing (`MAP_FIXED_NOREPLACE`). Where it meets
//!   another owner's mapping, the page is *lost*: no call of ours is given it until that mapping
//!   has gone, see [`frames::table`](crate::frames::table).
//! - **H4** The library tries once what the kernel does, on pages outside of the span. A kernel
//!   that looks first needs no detour: it replaces a range by frames or by fresh memory in one
//!   call. Where a refused call has left a hole all the same, calls are not made that another one
//!   does as well: moves, which are copied, and exchanges of frames.

use crate::os::madvise::Advice;
use crate::os::raw;
use crate::os::reservation::{Access, Mapping, Reservation};
use crate::page_size::page_bytes;
use crate::read_nofault;
use libc::iovec;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, MsyncFlags, mmap, mmap_anonymous, mremap, msync};
use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use vmalloc::PageRange;

/// The behaviour of this kernel, as far as it is known: H4.
static KERNEL: AtomicU8 = AtomicU8::new(UNTRIED);
const UNTRIED: u8 = 0;
/// It looks whether it can map before it removes anything.
const LOOKS_FIRST: u8 = 1;
/// It removes first, and moves what is one mapping.
const REMOVES_FIRST: u8 = 2;
/// A refused call has left a hole.
const LEAVES_HOLES: u8 = 3;

/// Returns true if a refused call has left a hole in this process.
pub(crate) fn has_left_holes() -> bool {
    // Relaxed: a fact and nothing else, as below.
    KERNEL.load(Ordering::Relaxed) == LEAVES_HOLES
}

/// Returns what the kernel does. A refusal that tells nothing is not remembered.
fn kernel() -> Result<u8, Errno> {
    if KERNEL.load(Ordering::Relaxed) == UNTRIED {
        let tried = try_moves()?;
        // A hole that another thread has found meanwhile says more.
        let _ = KERNEL.compare_exchange(UNTRIED, tried, Ordering::Relaxed, Ordering::Relaxed);
    }
    Ok(KERNEL.load(Ordering::Relaxed))
}

fn looks_first() -> bool {
    kernel() == Ok(LOOKS_FIRST)
}

/// Moves two mappings over two pages, which kernels before 6.17 refuse, and then one.
#[cold]
fn try_moves() -> Result<u8, Errno> {
    Ok(match is_moved(2)? {
        true => LOOKS_FIRST,
        false if is_moved(1)? => REMOVES_FIRST,
        false => LEAVES_HOLES,
    })
}

/// Moves so many pages, each a mapping of its own, over others; all are of no other use. Returns
/// false if that is refused and leaves a hole. An error if it is refused and changes nothing.
fn is_moved(pages: usize) -> Result<bool, Errno> {
    const MARK: u8 = 0xa5;
    let page = page_bytes();
    let bytes = pages * page;
    let (source, target) = (Mapping::new(bytes, Access::None)?, Mapping::new(bytes, Access::ReadWrite)?);
    source.open_part(0, page)?;
    let (from, place) = (source.base().as_ptr(), target.base().as_ptr());
    // SAFETY: a page of our own, which can be written.
    unsafe { place.cast::<u8>().write_volatile(MARK) };
    // SAFETY: both are mappings of our own, of this length.
    match unsafe { move_over(from, bytes, bytes, place) } {
        Ok(()) => {
            // It is where the target was, which ends with `target`.
            mem::forget(source);
            Ok(true)
        }
        Err(errno) if reads(place) == Some(MARK) => Err(errno),
        Err(_) => {
            // Anything that is there now is another owner's.
            target.stay();
            Ok(false)
        }
    }
}

/// Moves a mapping over what is at `place`: mremap(2) with `MREMAP_FIXED`. For architectures that
/// rustix has no assembler for, 64-bit PowerPC among them, its own function gives the kernel
/// another flag, which refuses that (`EINVAL`).
///
/// # Safety
/// As of that call: what is moved, and what is replaced, is the caller's.
unsafe fn move_over(from: *mut c_void, old: usize, bytes: usize, place: *mut c_void) -> Result<(), Errno> {
    let (from, place) = (from.expose_provenance(), place.expose_provenance());
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: the caller's promise.
    unsafe { raw::call(libc::SYS_mremap, [from, old, bytes, flags, place, 0]) }.map(drop)
}

/// Returns the byte at an address that may lead nowhere; `None` where it can't be read.
fn reads(place: *mut c_void) -> Option<u8> {
    let mut byte = [0];
    let read = read_nofault::copy(&[iovec { iov_base: place, iov_len: 1 }], &mut byte);
    (read == Ok(1)).then_some(byte[0])
}

/// The state in which [mending](Reservation::mend) has found a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// No hole: the refused call has changed nothing.
    Whole,
    /// A hole, which is mapped again but for the lost pages.
    Hole,
}

impl Reservation {
    /// Puts fresh private memory behind `range`, as the span was made of, whatever was there. If it
    /// is refused, the range has to be mended.
    pub(crate) fn replace(&self, range: PageRange, access: Access) -> Result<(), Errno> {
        let run = self.run(range);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // H1: strict overcommit counts what can be written.
        let first = if looks_first() { access } else { Access::None };
        // SAFETY: M1, M2: the replaced pages are our own, and the owner of the range no longer
        // needs them.
        unsafe { mmap_anonymous(run.iov_base, run.iov_len, first.map(), flags)? };
        if access == first { Ok(()) } else { self.protect(range, access) }
    }

    /// Moves the pages behind `range`, which is private memory, to a place that the kernel chooses.
    /// New pages appear behind `range` at a touch. If it is refused, nothing is changed: the kernel
    /// keeps the range in several mappings, or a limit stands in the way.
    pub(crate) fn lift(&self, range: PageRange) -> Result<Mapping, Errno> {
        if kernel()? == LEAVES_HOLES {
            return Err(Errno::NOSYS);
        }
        let run = self.run(range);
        let (bytes, flags) = (run.iov_len, (libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP) as usize);
        // SAFETY: M1, M2; the caller owns the range, and no other thread uses it. The kernel makes
        // a mapping of that length for this caller alone. Without a wish it chooses the place.
        unsafe {
            let arguments = [run.iov_base.expose_provenance(), bytes, bytes, flags, 0, 0];
            let made = raw::call(libc::SYS_mremap, arguments)?;
            Mapping::of_kernel(ptr::with_exposed_provenance_mut(made), bytes)
        }
    }

    /// Shows the shared memory at `source` behind `range` as well, as accessible as it is there. If
    /// it is refused, the range has to be mended.
    ///
    /// # Safety
    /// At `source`, a page's address, is shared memory of that length.
    pub(crate) unsafe fn duplicate(&self, source: *mut c_void, range: PageRange) -> Result<(), Errno> {
        let run = self.run(range);
        let (bytes, flags) = (run.iov_len, MremapFlags::MAYMOVE);
        if looks_first() {
            // SAFETY: an old size of zero leaves shared memory where it is, see mremap(2). M1, M2
            // for the target, which the caller owns and no other thread uses.
            return unsafe { move_over(source, 0, bytes, run.iov_base) };
        }
        // SAFETY: as above. The kernel makes a mapping of that length for this caller alone.
        let lifted = unsafe { Mapping::of_kernel(mremap(source, 0, bytes, flags)?, bytes)? };
        self.place(lifted, range).map_err(|(errno, _)| errno)
    }

    /// Puts a lifted mapping behind `range`, of the same length. If it is refused, the range has to
    /// be mended.
    pub(crate) fn place(&self, lifted: Mapping, range: PageRange) -> Result<(), (Errno, Mapping)> {
        let run = self.run(range);
        debug_assert_eq!(lifted.bytes(), run.iov_len, "{range:?}");
        let (source, bytes) = (lifted.base().as_ptr(), lifted.bytes());
        // SAFETY: the source is a whole mapping of our own. M1, M2 for the target, which the caller
        // owns and no other thread uses.
        match unsafe { move_over(source, bytes, bytes, run.iov_base) } {
            // It is a part of the span now.
            Ok(()) => {
                mem::forget(lifted);
                Ok(())
            }
            Err(errno) => Err((errno, lifted)),
        }
    }

    /// Puts the pages of a file from number `first` on behind `range`, where pages of that file are
    /// already, with the same access. Nothing is touched or populated. If it is refused, the range
    /// has to be mended.
    ///
    /// # Safety
    /// All of `range` shows shared memory of one file, which has the pages.
    pub(crate) unsafe fn show_others(&self, range: PageRange, first: u64) -> Result<(), Errno> {
        let run = self.run(range);
        // Without `MAP_NONBLOCK` the kernel would populate each range by itself.
        let (keeps_access, flags) = (0, libc::MAP_NONBLOCK as usize);
        let run = [run.iov_base.expose_provenance(), run.iov_len];
        // SAFETY: M1, M2; what is replaced is shared memory, whose owner wants another part of it.
        let answer = unsafe {
            raw::call(libc::SYS_remap_file_pages, [run[0], run[1], keeps_access, first as usize, flags, 0])
        };
        answer.map(drop)
    }

    /// Maps again, without access, what a refused call has left unmapped of `range`, and tells each
    /// page that another owner has got meanwhile.
    ///
    /// Such a call removes all of the range or nothing. So a page that is mapped is another owner's
    /// if one is not.
    #[cold]
    pub(crate) fn mend(&self, range: PageRange, mut is_lost: impl FnMut(PageRange)) -> Found {
        if self.fill(range).is_err() {
            if !has_hole(self.run(range)) {
                return Found::Whole;
            }
            pages(range).filter(|page| self.fill(*page).is_err()).for_each(&mut is_lost);
        }
        KERNEL.store(LEAVES_HOLES, Ordering::Relaxed);
        Found::Hole
    }

    /// Maps `range` where nothing is mapped. It replaces nothing.
    pub(crate) fn fill(&self, range: PageRange) -> Result<(), Errno> {
        fill(self.run(range))
    }

    /// Returns true if shared memory begins at `range`.
    #[cold]
    pub(crate) fn is_shared(&self, range: PageRange) -> bool {
        let start = self.run(range).iov_base;
        // SAFETY: it makes another mapping of what is there, for this caller alone, or fails.
        unsafe {
            mremap(start, 0, 1 << self.page_shift(), MremapFlags::MAYMOVE)
                .is_ok_and(|made| Mapping::of_kernel(made, 1 << self.page_shift()).is_ok())
        }
    }

    /// Returns true if the first byte of any page of `range` can be read.
    #[cold]
    pub(crate) fn is_readable(&self, range: PageRange) -> bool {
        pages(range).any(|page| reads(self.run(page).iov_base).is_some())
    }
}

impl Mapping {
    /// Shares the memory of `file` from that offset on at the same offset of this, not accessible
    /// yet. If it is refused, and another owner has got a part of it, it stays mapped for ever.
    ///
    /// # Safety
    /// Nothing refers to what this holds from `offset` on.
    pub(crate) unsafe fn show(&self, file: &OwnedFd, offset: usize) -> Result<(), Errno> {
        let (base, bytes) = (self.base().as_ptr().wrapping_byte_add(offset), self.bytes() - offset);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: what is replaced is the end of our own mapping, to which nothing refers.
        let shown = unsafe { mmap(base, bytes, Access::None.map(), flags, file, offset as u64) };
        let run = iovec { iov_base: base, iov_len: bytes };
        if shown.is_err() && fill(run).is_err() && has_hole(run) {
            self.stay();
        }
        let _ = self.advise_part(offset, bytes, Advice::DontDump);
        shown.map(drop)
    }
}

/// Maps a run where nothing is mapped, without access.
fn fill(run: iovec) -> Result<(), Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: the kernel maps there if nothing is mapped, or fails.
    unsafe { mmap_anonymous(run.iov_base, run.iov_len, Access::None.map(), flags) }.map(drop)
}

/// Returns true if some page of a run has no mapping.
fn has_hole(run: iovec) -> bool {
    // SAFETY: to private memory this does nothing, of shared memory it starts to write what is
    // dirty, and it fails where there is none.
    let synced = unsafe { msync(run.iov_base, run.iov_len, MsyncFlags::ASYNC) };
    synced == Err(Errno::NOMEM)
}

/// Returns the pages of `range`, each by itself.
pub(crate) fn pages(range: PageRange) -> impl Iterator<Item = PageRange> {
    (range.start()..range.end()).filter_map(|page| PageRange::from_len(page, 1))
}
