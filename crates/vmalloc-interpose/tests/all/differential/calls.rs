//! One call, made by the C library's name or straight to the kernel.

use libc::{c_int, c_long, c_void};

pub(crate) const PAGE: usize = 4096;

/// An answer: a value, or the code of an error.
pub(crate) type Answer = Result<usize, c_int>;

/// Through which door a call goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// The C library's name, which the library replaces.
    Ours,
    /// The kernel itself.
    Kernel,
}

/// A call about memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Map { addr: usize, len: usize, access: c_int, flags: c_int, file: c_int, offset: usize },
    Unmap { addr: usize, len: usize },
    Remap { addr: usize, old: usize, new: usize, flags: c_int, to: usize },
    Protect { addr: usize, len: usize, access: c_int },
    Advise { addr: usize, len: usize, advice: c_int },
    Lock { addr: usize, len: usize },
    Unlock { addr: usize, len: usize },
    Sync { addr: usize, len: usize, flags: c_int },
    Resident { addr: usize, len: usize },
}

impl Call {
    /// Makes the call.
    ///
    /// # Safety
    /// The pages it names are the test's.
    pub(crate) unsafe fn make(self, door: Door) -> Answer {
        // SAFETY: the caller's promise.
        let value = unsafe {
            match door {
                Door::Ours => self.by_name(),
                Door::Kernel => self.by_number(),
            }
        };
        // SAFETY: this thread's own errno.
        if value == -1 { Err(unsafe { *libc::__errno_location() }) } else { Ok(value as usize) }
    }

    unsafe fn by_name(self) -> isize {
        let at = |addr: usize| std::ptr::with_exposed_provenance_mut::<c_void>(addr);
        let mut resident = [0_u8; 4096];
        // SAFETY: the caller's promise; there is room for the residency of 4096 pages.
        unsafe {
            match self {
                Self::Map { addr, len, access, flags, file, offset } => {
                    libc::mmap(at(addr), len, access, flags, file, offset as i64).addr() as isize
                }
                Self::Unmap { addr, len } => libc::munmap(at(addr), len) as isize,
                Self::Remap { addr, old, new, flags, to } => {
                    libc::mremap(at(addr), old, new, flags, at(to)).addr() as isize
                }
                Self::Protect { addr, len, access } => libc::mprotect(at(addr), len, access) as isize,
                Self::Advise { addr, len, advice } => libc::madvise(at(addr), len, advice) as isize,
                Self::Lock { addr, len } => libc::mlock(at(addr), len) as isize,
                Self::Unlock { addr, len } => libc::munlock(at(addr), len) as isize,
                Self::Sync { addr, len, flags } => libc::msync(at(addr), len, flags) as isize,
                Self::Resident { addr, len } => libc::mincore(at(addr), len, resident.as_mut_ptr()) as isize,
            }
        }
    }

    unsafe fn by_number(self) -> isize {
        let mut resident = [0_u8; 4096];
        let (number, words): (c_long, [usize; 6]) = match self {
            Self::Map { addr, len, access, flags, file, offset } => {
                (libc::SYS_mmap, [addr, len, access as usize, flags as usize, file as usize, offset])
            }
            Self::Unmap { addr, len } => (libc::SYS_munmap, [addr, len, 0, 0, 0, 0]),
            Self::Remap { addr, old, new, flags, to } => {
                (libc::SYS_mremap, [addr, old, new, flags as usize, to, 0])
            }
            Self::Protect { addr, len, access } => {
                (libc::SYS_mprotect, [addr, len, access as usize, 0, 0, 0])
            }
            Self::Advise { addr, len, advice } => (libc::SYS_madvise, [addr, len, advice as usize, 0, 0, 0]),
            Self::Lock { addr, len } => (libc::SYS_mlock, [addr, len, 0, 0, 0, 0]),
            Self::Unlock { addr, len } => (libc::SYS_munlock, [addr, len, 0, 0, 0, 0]),
            Self::Sync { addr, len, flags } => (libc::SYS_msync, [addr, len, flags as usize, 0, 0, 0]),
            Self::Resident { addr, len } => {
                (libc::SYS_mincore, [addr, len, resident.as_mut_ptr().expose_provenance(), 0, 0, 0])
            }
        };
        let [one, two, three, four, five, six] = words;
        // SAFETY: the caller's promise; there is room for the residency of 4096 pages.
        unsafe { libc::syscall(number, one, two, three, four, five, six) as isize }
    }
}

/// Copies memory of this process out, as far as it can be read. Returns how many bytes.
pub(crate) fn read(addr: usize, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addr), iov_len: to.len() };
    // SAFETY: room for as many bytes. The kernel reads what is mapped.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).unwrap_or(0)
}

/// Copies bytes into memory of this process, as far as it can be written. Returns how many.
pub(crate) fn write(addr: usize, from: &[u8]) -> usize {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addr), iov_len: from.len() };
    // SAFETY: as many bytes are there. The kernel writes what is mapped, and the test's.
    let got =
        unsafe { libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).unwrap_or(0)
}
