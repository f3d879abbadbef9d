//! The reserved span, and every call that changes the access to its pages.
//!
//! Invariants:
//! - **M1** The span is one reservation made here, held by no other owner, and lives as long as
//!   this: private anonymous memory, but for the pages of frames that [`swap`](crate::os::swap) has
//!   put there, and those that it calls lost.
//! - **M2** All calls are given ranges inside the span. [`Platform`](vmalloc::Platform) checks that
//!   once, at the boundary; from there on it is only debug-asserted.

use crate::error::{mapping_error, platform_error, refusal};
use crate::os::batch::BatchRoom;
use crate::os::madvise::{self, Advice, advise};
use crate::os::map_count::{BUDGET, SPLIT};
use crate::os::raw;
use crate::page_size::page_bytes;
use libc::iovec;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munlock, munmap};
use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{PageRange, PlatformError, PlatformFault, Protection};

/// Memory of this process, given back when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<c_void>,
    bytes: usize,
    /// True if it stays mapped when dropped: another owner has got a part of it.
    stays: AtomicBool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and nothing here depends on which
// thread uses it.
unsafe impl Send for Mapping {}
// SAFETY: the fields are constant. The methods that change the memory for other threads are private
// to files that say who may use which part.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Fresh private memory that reads as zero, at an address that the kernel chooses. It is not
    /// counted against the memory of the machine before it is touched. It is left out of core
    /// dumps: most of it is addresses alone, each of which a debugger would write.
    pub(crate) fn new(bytes: usize, access: Access) -> Result<Self, Errno> {
        Self::made(ptr::null_mut(), bytes, access, MapFlags::empty())
    }

    /// Fresh private memory as of [`new`](Self::new), at this address.
    ///
    /// # Errors
    /// `EEXIST` where anything is mapped there, which stays as it is.
    pub(crate) fn at(start: usize, bytes: usize, access: Access) -> Result<Self, Errno> {
        let place = ptr::without_provenance_mut(start);
        let made = Self::made(place, bytes, access, MapFlags::FIXED_NOREPLACE)?;
        // A kernel that does not know the flag takes the address as a hint.
        if made.base.as_ptr() == place { Ok(made) } else { Err(Errno::EXIST) }
    }

    /// Makes a mapping where nothing is: the flags let the kernel choose, or never replace.
    fn made(place: *mut c_void, bytes: usize, access: Access, more: MapFlags) -> Result<Self, Errno> {
        // Miri knows one kind of mapping, which can be read and written.
        let (flags, access) = match cfg!(miri) {
            true => (MapFlags::PRIVATE, Access::ReadWrite),
            false => (MapFlags::PRIVATE | MapFlags::NORESERVE, access),
        };
        // SAFETY: the kernel takes addresses where nothing is mapped, or refuses.
        let base = unsafe { mmap_anonymous(place, bytes, access.map(), flags | more)? };
        // SAFETY: the kernel has just made this mapping for its caller alone.
        let made = unsafe { Self::of_kernel(base, bytes)? };
        if !cfg!(miri) {
            // Without it dumps are longer, and nothing else.
            let _ = made.advise_whole(Advice::DontDump);
        }
        Ok(made)
    }

    /// Takes a mapping that the kernel has just made.
    ///
    /// # Safety
    /// It has these bytes, and no other owner.
    pub(crate) unsafe fn of_kernel(base: *mut c_void, bytes: usize) -> Result<Self, Errno> {
        base.expose_provenance();
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Self { base, bytes, stays: AtomicBool::new(false) })
    }

    /// Leaves it mapped when it is dropped: another owner has got a part of it.
    pub(crate) fn stay(&self) {
        // Relaxed: the drop has the mapping for itself, and so comes after this.
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Returns true if another owner has got a part of it.
    pub(crate) fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    pub(crate) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    /// Makes all of it read-only, for good.
    pub(crate) fn seal(&self) -> Result<(), Errno> {
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: a mapping of our own; the caller has no reference into it that writes.
        unsafe { mprotect(self.base.as_ptr(), self.bytes, MprotectFlags::READ) }
    }

    /// Makes `bytes` bytes from `offset` on readable and writable, both rounded out to pages.
    /// Access only grows, so no reference into the mapping loses any.
    pub(crate) fn open_part(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let page = page_bytes();
        let (start, end) = (offset & !(page - 1), (offset + bytes).next_multiple_of(page));
        assert!(end <= self.bytes.next_multiple_of(page), "{offset} and {bytes} are outside");
        let base = self.base.as_ptr().wrapping_byte_add(start);
        if cfg!(miri) {
            // Everything can be read and written there: see `new`.
            return Ok(());
        }
        // SAFETY: inside our own mapping, which the kernel made of whole pages, and nothing that
        // was allowed there is forbidden.
        unsafe { mprotect(base, end - start, Access::ReadWrite.protect()) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Advises about all of it, with advice that leaves the content.
    pub(crate) fn advise_whole(&self, advice: Advice) -> Result<(), Errno> {
        self.advise_part(0, self.bytes, advice)
    }

    /// Advises about `bytes` bytes from `offset` on, with advice that leaves the content.
    pub(crate) fn advise_part(&self, offset: usize, bytes: usize, advice: Advice) -> Result<(), Errno> {
        let leaves = [Advice::WipeOnFork, Advice::NoHugePage, Advice::DontDump, Advice::DoDump];
        debug_assert!(leaves.contains(&advice), "{advice:?} drops pages");
        debug_assert!(offset + bytes <= self.bytes, "{offset} and {bytes} are outside");
        let run = iovec { iov_base: self.base.as_ptr().wrapping_byte_add(offset), iov_len: bytes };
        // SAFETY: our own mapping, and the content stays.
        unsafe { madvise::advise(run, advice) }
    }

    /// Makes a part accessible that never was. A locked part is unlocked first, or the kernel would
    /// put memory behind all of it.
    ///
    /// # Safety
    /// Nothing has ever been in the part.
    pub(crate) unsafe fn make_accessible(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let run = iovec { iov_base: self.base.as_ptr().wrapping_byte_add(offset), iov_len: bytes };
        // SAFETY: `advise` asks that the run is mapped and its content may go: the part is our own,
        // and by the caller's promise nothing has ever been in it.
        if unsafe { advise(run, Advice::DontNeed) } == Err(Errno::INVAL) {
            // SAFETY: as above.
            unsafe { munlock(run.iov_base, run.iov_len)? };
        }
        self.open_part(offset, bytes)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if *self.stays.get_mut() {
            return;
        }
        // SAFETY: this is exactly the mapping that the kernel made, and its owner has given up the
        // content. It can fail only at the limit on mappings, if the kernel would have to split
        // one; these are whole.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// The access to pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    None,
    ReadWrite,
    Read,
    ReadExecute,
}

impl TryFrom<Protection> for Access {
    type Error = PlatformError;

    /// # Errors
    /// For a protection that was invented later.
    fn try_from(protection: Protection) -> Result<Self, PlatformError> {
        match protection {
            Protection::ReadWrite => Ok(Self::ReadWrite),
            Protection::Read => Ok(Self::Read),
            Protection::ReadExecute => Ok(Self::ReadExecute),
            _ => Err(platform_error("this protection", Errno::NOSYS)),
        }
    }
}

impl Access {
    pub(crate) fn map(self) -> ProtFlags {
        match self {
            Self::None => ProtFlags::empty(),
            Self::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Self::Read => ProtFlags::READ,
            Self::ReadExecute => ProtFlags::READ | ProtFlags::EXEC,
        }
    }

    /// Returns it as mprotect(2) wants it: by the numbers of mmap(2).
    fn protect(self) -> MprotectFlags {
        MprotectFlags::from_bits_retain(self.map().bits())
    }
}

/// The reserved span.
#[derive(Debug)]
pub(crate) struct Reservation {
    mapping: Mapping,
    span: PageRange,
    page_shift: u32,
    /// True if one call advises about many runs.
    takes_batches: bool,
    batch_room: BatchRoom,
}

impl Reservation {
    /// Makes the reservation of a mapping of whole pages; `None` if it is not one.
    pub(crate) fn new(mapping: Mapping, page_bytes: usize, batch_room: BatchRoom) -> Option<Self> {
        let page_shift = page_bytes.trailing_zeros();
        let start = mapping.base().addr().get() as u64 >> page_shift;
        let span = PageRange::from_len(start, mapping.bytes() as u64 >> page_shift)?;
        Some(Self { mapping, span, page_shift, takes_batches: false, batch_room })
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

    /// Unmaps `range`, for the program to map there what it likes.
    ///
    /// # Safety
    /// No thread uses the pages any more, and none is given `range` again: M1 and M2 end for it.
    pub(crate) unsafe fn give_up(&self, range: PageRange) -> Result<(), Errno> {
        let run = self.run(range);
        self.stay();
        // SAFETY: a part of our own mapping, and the caller's promise.
        unsafe { munmap(run.iov_base, run.iov_len) }
    }

    /// Leaves the span mapped for ever: another owner has a part of it.
    pub(crate) fn stay(&self) {
        self.mapping.stay();
    }

    pub(crate) fn takes_batches(&self) -> bool {
        self.takes_batches
    }

    /// Returns the room for large batches.
    pub(crate) fn batch_room(&self) -> &BatchRoom {
        &self.batch_room
    }

    /// Has many runs advised by one call. Only while reserving: afterwards it is constant.
    pub(crate) fn set_batches(&mut self) {
        self.takes_batches = true;
    }

    /// Names the span in the list of mappings, where the kernel has names.
    pub(crate) fn set_name(&self, name: &'static CStr) {
        let (base, bytes) = (self.mapping.base().as_ptr(), self.mapping.bytes());
        // SAFETY: the kernel copies the name, and notes it of our own mapping.
        let _ = unsafe {
            let (kind, what) = (libc::PR_SET_VMA as usize, libc::PR_SET_VMA_ANON_NAME as usize);
            let (base, name) = (base.expose_provenance(), name.as_ptr().expose_provenance());
            raw::call(libc::SYS_prctl, [kind, what, base, bytes, name, 0])
        };
    }

    /// Returns the addresses of `range`.
    pub(crate) fn run(&self, range: PageRange) -> iovec {
        assert!(self.span.covers(&range), "{range:?} is outside the span {:?}", self.span);
        let offset = (range.start() - self.span.start()) << self.page_shift;
        let iov_base = self.mapping.base().as_ptr().wrapping_byte_add(offset as usize);
        iovec { iov_base, iov_len: (range.len() << self.page_shift) as usize }
    }

    /// Lets the parts of the span merge into one mapping whenever they are alike again. To be
    /// called while the span is one mapping that can't be accessed.
    ///
    /// The kernel merges mappings that were written to only if they share their record of written
    /// pages (`anon_vma`). Parts that are split off a mapping with a record share it. But a part of
    /// a mapping without one gets its own at the first write, and stays a mapping for ever. So this
    /// writes to a page, which it drops again.
    ///
    /// # Errors
    /// If the page can't be made inaccessible again.
    pub(crate) fn join_mappings(&self) -> Result<(), Errno> {
        let Some(page) = PageRange::from_len(self.span.start(), 1) else { return Ok(()) };
        if self.protect(page, Access::ReadWrite).is_err() {
            // At the limit on mappings, whose number matters less then than the span.
            return Ok(());
        }
        // SAFETY: the page is this reservation's, writable, and nothing refers to it.
        unsafe { self.run(page).iov_base.cast::<u8>().write_volatile(0) };
        // If this fails, the byte that stays is zero.
        let _ = self.advise(page, Advice::DontNeed);
        self.protect(page, Access::None)
    }

    /// Changes the access to `range`. Its content stays, reachable or not.
    pub(crate) fn protect(&self, range: PageRange, access: Access) -> Result<(), Errno> {
        let run = self.run(range);
        // SAFETY: M1, M2: the run is inside our own mapping. The only effect on a thread of this
        // program is that a touch of these pages traps or does not, and `Platform` says when it
        // must.
        unsafe { mprotect(run.iov_base, run.iov_len, access.protect()) }
    }

    /// Advises about `range`. Pages that are locked in memory are unlocked for it, see [`unlock`].
    pub(crate) fn advise(&self, range: PageRange, advice: Advice) -> Result<(), PlatformError> {
        self.advise_run(self.run(range), advice)
    }

    /// Advises about many `runs`, each from [`run`](Self::run), in as few calls as there are means
    /// for.
    pub(crate) fn advise_all(&self, runs: &[iovec], advice: Advice) -> Result<(), PlatformError> {
        if !self.takes_batches {
            return runs.iter().try_for_each(|run| self.advise_run(*run, advice));
        }
        // SAFETY: as in `advise_run`: M1, M2, and the content may go.
        unsafe { madvise::advise_all(runs, advice, |run| self.advise_run(run, advice)) }
    }

    fn advise_run(&self, run: iovec, advice: Advice) -> Result<(), PlatformError> {
        // SAFETY: M1, M2: the run is mapped. Its content may go: `Platform::unmap` is called only
        // for pages that are no longer needed, and the other advice drops pages only where nothing
        // is mapped.
        match unsafe { advise(run, advice) } {
            Err(Errno::INVAL) if matches!(advice, Advice::DontNeed | Advice::GuardInstall) => {
                self.advise_locked(run, advice)
            }
            answer => answer.map_err(|errno| platform_error(advice.call(), errno)),
        }
    }

    /// Advises about a run that the kernel refuses, as it does where pages are locked. Where they
    /// can't be unlocked the memory is dropped all the same, if the kernel is able to do that
    /// (Linux 5.18).
    #[cold]
    fn advise_locked(&self, run: iovec, advice: Advice) -> Result<(), PlatformError> {
        match unlock(run) {
            // SAFETY: as in `advise_run`: M1, M2, and the content may go.
            Ok(()) => unsafe { advise(run, advice) }.map_err(|errno| platform_error(advice.call(), errno)),
            Err(error) => {
                // SAFETY: as in `advise_run`, where the same was advised.
                let dropped = unsafe { advise(run, Advice::DontNeedLocked) };
                if advice == Advice::DontNeed && dropped.is_ok() { Ok(()) } else { Err(error) }
            }
        }
    }
}

/// Unlocks the pages of a run of our own, which has no user any more, or not yet. The pages beside
/// it stay locked, and so in a mapping of their own: for that the budget is asked.
#[cold]
pub(crate) fn unlock(run: iovec) -> Result<(), PlatformError> {
    BUDGET.take(SPLIT)?;
    // SAFETY: the run is mapped, and munlock(2) leaves its content.
    unsafe { munlock(run.iov_base, run.iov_len) }.map_err(|errno| match errno {
        Errno::NOMEM => mapping_error(["munlock", "munlock (at vm.max_map_count)"], errno),
        _ => refusal("munlock of locked pages", PlatformFault::Locked, errno),
    })
}
