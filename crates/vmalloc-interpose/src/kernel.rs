//! The kernel's own calls: those of the C library have the names that this library replaces.

use libc::{c_int, c_long};
use vmalloc_preload_base::{errno, set_errno};

/// The kernel's answer: a value, or the code of an error.
pub(crate) type Answer = Result<usize, c_int>;

/// An address at which nothing is ever mapped, a page's start. Calls about it check their other
/// arguments, and then answer that nothing is there.
pub(crate) const NOWHERE: usize = 0xffff_8000_0000_0000;

/// Access and kind of a page of the reservation that is not in use.
const NO_ACCESS: c_int = libc::PROT_NONE;
const RESERVED: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// Asks the kernel. `errno` stays as it is.
fn ask(number: c_long, words: [usize; 6]) -> Answer {
    let before = errno();
    let [first, second, third, fourth, fifth, sixth] = words;
    // SAFETY: each caller of this function makes a call that its own caller answers for.
    let answer = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    if answer != -1 {
        return Ok(answer as usize);
    }
    let code = errno();
    set_errno(before);
    Err(code)
}

/// The arguments of mmap(2).
#[derive(Clone, Copy)]
pub(crate) struct Map {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    pub(crate) access: c_int,
    pub(crate) flags: c_int,
    pub(crate) file: c_int,
    pub(crate) offset: i64,
}

/// Maps memory, as mmap(2).
///
/// # Safety
/// The pages that `MAP_FIXED` maps over are the caller's.
pub(crate) unsafe fn mmap(map: &Map) -> Answer {
    let Map { addr, len, access, flags, file, offset } = *map;
    let [access, flags, file] = [access, flags, file].map(|word| word as usize);
    ask(libc::SYS_mmap, [addr, len, access, flags, file, offset as usize])
}

/// Reserves `len` bytes of addresses at the kernel's choice.
pub(crate) fn reserve(len: usize) -> Answer {
    let map = Map { addr: 0, len, access: NO_ACCESS, flags: RESERVED, file: -1, offset: 0 };
    // SAFETY: a new mapping touches nothing that is there.
    unsafe { mmap(&map) }
}

/// Maps the reservation again over pages, in one call: what was there is unmapped.
///
/// # Safety
/// The pages are the caller's, and inside the reservation.
pub(crate) unsafe fn reserve_over(addr: usize, len: usize) -> Answer {
    let flags = RESERVED | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { mmap(&Map { addr, len, access: NO_ACCESS, flags, file: -1, offset: 0 }) }
}

/// Maps the reservation again where nothing is mapped. Fails where anything is.
pub(crate) fn reserve_hole(addr: usize, len: usize) -> Answer {
    let flags = RESERVED | libc::MAP_FIXED_NOREPLACE;
    let map = Map { addr, len, access: NO_ACCESS, flags, file: -1, offset: 0 };
    // SAFETY: it replaces nothing. An older kernel takes the address as a hint.
    let at = unsafe { mmap(&map) }?;
    if at == addr {
        return Ok(at);
    }
    // SAFETY: the mapping just made.
    let _ = unsafe { munmap(at, len) };
    Err(libc::EEXIST)
}

/// Unmaps pages, as munmap(2).
///
/// # Safety
/// The pages are the caller's.
pub(crate) unsafe fn munmap(addr: usize, len: usize) -> Answer {
    ask(libc::SYS_munmap, [addr, len, 0, 0, 0, 0])
}

/// The arguments of mremap(2).
#[derive(Clone, Copy)]
pub(crate) struct Remap {
    pub(crate) addr: usize,
    pub(crate) old: usize,
    pub(crate) new: usize,
    pub(crate) flags: c_int,
    pub(crate) to: usize,
}

/// Resizes or moves a mapping, as mremap(2).
///
/// # Safety
/// The pages, and those at the new place if it is fixed, are the caller's.
pub(crate) unsafe fn mremap(remap: &Remap) -> Answer {
    let Remap { addr, old, new, flags, to } = *remap;
    ask(libc::SYS_mremap, [addr, old, new, flags as usize, to, 0])
}

/// A call about pages that leaves them where they are.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Protect(c_int),
    ProtectWithKey(c_int, c_int),
    Advise(c_int),
    Lock,
    LockWith(c_int),
    Unlock,
    Sync(c_int),
    /// Residency, to this address: of each page a byte.
    Residency(usize),
}

/// Makes the call `change` about pages.
///
/// # Safety
/// The pages are the caller's, and so is the memory for the answer.
pub(crate) unsafe fn change(addr: usize, len: usize, change: Change) -> Answer {
    let [number, third, fourth] = match change {
        Change::Protect(access) => [libc::SYS_mprotect, access.into(), 0],
        Change::ProtectWithKey(access, key) => [libc::SYS_pkey_mprotect, access.into(), key.into()],
        Change::Advise(advice) => [libc::SYS_madvise, advice.into(), 0],
        Change::Lock => [libc::SYS_mlock, 0, 0],
        Change::LockWith(flags) => [libc::SYS_mlock2, flags.into(), 0],
        Change::Unlock => [libc::SYS_munlock, 0, 0],
        Change::Sync(flags) => [libc::SYS_msync, flags.into(), 0],
        Change::Residency(answers) => [libc::SYS_mincore, answers as c_long, 0],
    };
    ask(number, [addr, len, third as usize, fourth as usize, 0, 0])
}

/// Returns true if pages that are not the program's are the reservation's, after a call on them has
/// failed. Some kernels have unmapped them then. Another thread's mapping may be there since, which
/// can be read; a page of the reservation can't.
pub(crate) fn is_reserved((addr, len): (usize, usize)) -> bool {
    let read = Change::Advise(libc::MADV_POPULATE_READ);
    // SAFETY: it changes no content, and pages that can't be read are left alone.
    reserve_hole(addr, len).is_ok() || unsafe { change(addr, len, read) }.is_err()
}

/// Locks all pages of the program, as mlockall(2).
pub(crate) fn mlockall(flags: c_int) -> Answer {
    ask(libc::SYS_mlockall, [flags as usize, 0, 0, 0, 0, 0])
}

/// All signals of this thread, blocked until this goes.
pub(crate) struct Blocked(u64);

impl Blocked {
    /// Blocks all signals.
    pub(crate) fn new() -> Self {
        Self(set_mask(u64::MAX))
    }

    /// Returns the mask from before, which somebody else sets.
    pub(crate) fn leak(self) -> u64 {
        std::mem::ManuallyDrop::new(self).0
    }

    /// Returns what sets this mask when it goes.
    pub(crate) fn of(mask: u64) -> Self {
        Self(mask)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// Sets the mask of signals, and returns the one before.
fn set_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    let [new, answer] = [(&raw const mask).addr(), (&raw mut old).addr()];
    // It can't fail: both are words of this thread.
    let _ = ask(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, new, answer, size_of::<u64>(), 0, 0]);
    old
}
