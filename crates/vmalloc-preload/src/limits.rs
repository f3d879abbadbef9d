//! Limits that a program sets itself, and memory that it locks.
//!
//! The heap is a reservation, which counts as addresses, and opened chunks, which count as data,
//! used or not. So the library stands in for the calls by which a program limits itself, or locks
//! its memory:
//!
//! - Before a limit on addresses the reservation shrinks: to what it would be under that limit from
//!   the start, or to what is in use.
//! - Before a limit on data, and before mlockall(2), all that is new is left to glibc, what is
//!   cached is given back, and the reservation shrinks to what is in use.
//!
//! The start sees what is in force by then: under a limit on data, or where new memory is locked,
//! there is no heap at all.

use crate::base::{SavedErrno, say, set_errno};
use crate::{glibc, start};
use libc::{c_int, c_uint, pid_t, rlimit};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use rustix::process::{Resource, getpid, getrlimit};
use std::ptr;
use vmalloc_linux::{Kind, page_bytes};

/// Where a limit on addresses is in force: this part of it may be reserved, so that the rest of the
/// program finds as much as it would without us.
const PART_OF_LIMIT: u64 = 8;

glibc::hidden! {
    SETRLIMIT: fn(c_uint, *const rlimit) -> c_int = Next, c"setrlimit";
    PRLIMIT: fn(pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int = Next, c"prlimit";
    MLOCKALL: fn(c_int) -> c_int = Next, c"mlockall";
}

/// Returns how many bytes of addresses may be reserved.
pub(crate) fn most_addresses() -> usize {
    getrlimit(Resource::As).current.map_or(usize::MAX, part_of)
}

fn part_of(limit: u64) -> usize {
    usize::try_from(limit / PART_OF_LIMIT).unwrap_or(usize::MAX)
}

/// Returns why glibc alone should serve this program, if something speaks for it.
pub(crate) fn speaks_for_glibc() -> Option<&'static str> {
    if getrlimit(Resource::Data).current.is_some() {
        return Some("under a limit on data (ulimit -d) opened memory would count, used or not");
    }
    is_new_memory_locked().then_some("the program locks its memory (mlockall)")
}

/// Returns true if the kernel locks what is mapped: it does not drop locked pages on advice.
fn is_new_memory_locked() -> bool {
    let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping of a page, which nothing else uses, and which is unmapped again.
    unsafe {
        mmap_anonymous(ptr::null_mut(), page_bytes(), access, kind).is_ok_and(|page| {
            let dropped = madvise(page, page_bytes(), Advice::LinuxDontNeed);
            let _ = munmap(page, page_bytes());
            dropped.is_err()
        })
    }
}

/// Sets a limit, as setrlimit(2).
///
/// # Safety
/// `limit` can be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { prepare(resource, limit) };
    let Some(call) = SETRLIMIT.get() else { return missing() };
    // SAFETY: the caller's promise.
    unsafe { call(resource, limit) }
}

/// Sets a limit: another name of [`setrlimit`] on 64-bit machines.
///
/// # Safety
/// That of `setrlimit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { setrlimit(resource, limit) }
}

/// Sets and gets a limit, as prlimit(2).
///
/// # Safety
/// `new` is null or can be read, `old` is null or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prlimit(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    if process == 0 || process == getpid().as_raw_nonzero().get() {
        // SAFETY: the caller's promise.
        unsafe { prepare(resource, new) };
    }
    let Some(call) = PRLIMIT.get() else { return missing() };
    // SAFETY: the caller's promise.
    unsafe { call(process, resource, new, old) }
}

/// Sets and gets a limit: another name of [`prlimit`] on 64-bit machines.
///
/// # Safety
/// That of `prlimit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prlimit64(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { prlimit(process, resource, new, old) }
}

/// Prepares the heap for a limit.
///
/// # Safety
/// `limit` is null or can be read.
unsafe fn prepare(resource: c_uint, limit: *const rlimit) {
    let _errno = SavedErrno::new();
    // SAFETY: the caller's promise.
    let Some(bytes) = unsafe { limit.as_ref() }.map(|limit| limit.rlim_cur) else { return };
    match resource {
        _ if bytes == libc::RLIM_INFINITY => {}
        libc::RLIMIT_AS => start::shrink(part_of(bytes)),
        libc::RLIMIT_DATA => retire("it limits its data"),
        _ => {}
    }
}

/// Locks all memory, as mlockall(2).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    retire("it locks its memory");
    let Some(call) = MLOCKALL.get() else { return missing() };
    // SAFETY: no conditions.
    let answer = unsafe { call(flags) };
    if answer == 0 && flags & libc::MCL_CURRENT != 0 && flags & libc::MCL_ONFAULT == 0 {
        populate();
    }
    answer
}

/// Puts memory behind the blocks that there are. The kernel has done so up to the first mark of an
/// unused page.
fn populate() {
    let _errno = SavedErrno::new();
    let Some(heap) = start::enter() else { return };
    for area in heap.space().areas().filter(|area| area.kind != Kind::Reserved) {
        let bytes = (area.pages as usize) * page_bytes();
        // SAFETY: locking changes no content. A block that is freed meanwhile is unlocked when it
        // is purged.
        let _ = unsafe { mlock(ptr::without_provenance_mut(area.addr), bytes) };
    }
}

/// Leaves everything new to glibc, if there is a heap.
fn retire(why: &str) {
    let _errno = SavedErrno::new();
    if start::retire() {
        say(format_args!("from now on the program runs on glibc's malloc: {why}"));
    }
}

/// Answers for a function that there is not.
fn missing() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}
