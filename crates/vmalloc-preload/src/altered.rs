//! Blocks whose pages the program has given attributes by madvise(2): left out of the children of
//! forks (RDMA, MPI and drivers of GPUs do so), cleared in them, left out of core dumps, shared
//! with equal pages.
//!
//! Attributes end with the block. So this library stands in for madvise, and notes what is advised
//! of its own addresses; a block that has some is not cached when it is freed, and its pages do not
//! move. What a program advises by the bare system call is not seen.
//!
//! In a child, pages that were left out are holes. Before anything else is mapped there they are
//! reserved again, inaccessible: an address in a hole would be taken for a block of the heap.

use crate::base::{Ranges, set_errno};
use crate::{glibc, start};
use libc::{c_int, c_void, size_t};
use lock_api::{Mutex, MutexGuard};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc_linux::{FutexLock, page_bytes};

/// Attributes, as the advice that gives each of them and the advice that takes it away.
const ATTRIBUTES: [(c_int, c_int); 4] = [
    (libc::MADV_DONTFORK, libc::MADV_DOFORK),
    (libc::MADV_WIPEONFORK, libc::MADV_KEEPONFORK),
    (libc::MADV_DONTDUMP, libc::MADV_DODUMP),
    (libc::MADV_MERGEABLE, libc::MADV_UNMERGEABLE),
];
/// The place of the first attribute.
const LEFT_OUT: usize = 0;

/// The pages with each attribute. Under the lock nothing is locked but the records.
static ALTERED: Mutex<FutexLock, [Ranges; ATTRIBUTES.len()]> =
    Mutex::new([const { Ranges::new() }; ATTRIBUTES.len()]);
/// True once a block had an attribute.
static IS_ANY: AtomicBool = AtomicBool::new(false);

glibc::hidden! {
    NEXT: fn(*mut c_void, size_t, c_int) -> c_int = Next, c"madvise";
}

/// Advises about memory, as madvise(2).
///
/// # Safety
/// That of madvise(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(memory: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    if start::is_ours(memory.addr()) && !note(memory.addr(), bytes, advice) {
        set_errno(libc::ENOMEM);
        return -1;
    }
    let Some(call) = NEXT.get() else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: the caller's promise.
    unsafe { call(memory, bytes, advice) }
}

/// Notes the advice. Returns false if there is no memory for that.
fn note(start: usize, bytes: usize, advice: c_int) -> bool {
    let Some(end) = start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page_bytes()))
    else {
        // The system refuses it.
        return true;
    };
    for (nth, &(gives, takes)) in ATTRIBUTES.iter().enumerate() {
        if advice == gives {
            // Relaxed: the thread that frees the block has got it from the one that advises.
            IS_ANY.store(true, Ordering::Relaxed);
            return start == end || ALTERED.lock()[nth].add(start..end);
        }
        if advice == takes {
            return ALTERED.lock()[nth].remove(start..end);
        }
    }
    true
}

/// Returns true if no block ever had an attribute.
#[inline]
pub(crate) fn is_none() -> bool {
    !IS_ANY.load(Ordering::Relaxed)
}

/// Returns true if some page of an area has an attribute.
#[cold]
pub(crate) fn meets(area: &Range<usize>) -> bool {
    ALTERED.lock().iter().any(|pages| pages.meets(area))
}

/// Forgets the attributes of an area, which is freed. Returns true if there were some.
#[cold]
pub(crate) fn forget(area: &Range<usize>) -> bool {
    let mut altered = ALTERED.lock();
    let met = altered.iter().any(|pages| pages.meets(area));
    for pages in altered.iter_mut() {
        // Without memory it stays noted: the next block there is not cached either.
        pages.remove(area.clone());
    }
    met
}

/// Holds the lock, for a fork.
pub(crate) fn quiesce() {
    MutexGuard::leak(ALTERED.lock());
}

/// Releases the lock after a fork, on both sides.
///
/// # Safety
/// This thread, or the one it was forked from, has called [`quiesce`], and not this since.
pub(crate) unsafe fn resume() {
    // SAFETY: by the caller's promise the lock is held, and its guard was leaked.
    unsafe { ALTERED.force_unlock() };
}

/// Reserves again what the child of a fork lacks of the reservation.
pub(crate) fn mend_in_child() {
    if is_none() {
        return;
    }
    // A handler of a signal that has interrupted a holder goes without.
    let Some(altered) = ALTERED.try_lock() else { return };
    for hole in altered[LEFT_OUT].iter() {
        let (bytes, flags) = (hole.end - hole.start, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let wish = ptr::without_provenance_mut(hole.start);
        let (nothing, flags) = (ProtFlags::empty(), flags | MapFlags::FIXED_NOREPLACE);
        // SAFETY: the kernel maps where nothing is mapped, there or elsewhere.
        match unsafe { mmap_anonymous(wish, bytes, nothing, flags) } {
            // A kernel before 4.17 takes the address for a wish.
            // SAFETY: a new mapping that nothing uses.
            Ok(made) if made != wish => drop(unsafe { munmap(made, bytes) }),
            Ok(_) | Err(_) => {}
        }
    }
}
