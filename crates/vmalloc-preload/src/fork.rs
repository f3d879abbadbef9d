//! Forks: which threads may be in the heap meanwhile, and the lock of the records.
//!
//! ```text
//!   registered       handlers of the │ records  │ those of vmalloc-linux │ the gate  │ handlers of
//!                    program         │          │                        │           │ the program
//!   before a fork    ◄───────────────────────────────────────────────────────────────────────────
//!   after it         ───────────────────────────────────────────────────────────────────────────►
//!                    5               │ 4        │ 3: locks of the space  │ 2         │ 1
//! ```
//!
//! The gate is closed first, and the forking thread waits until no thread is inside. So no thread
//! waits for the locks that it takes then: all threads, and the program's handlers on the left, are
//! served by glibc, which takes its own locks last. The lock of the records is taken after those of
//! the space, which allocate under them, and is released before they are. So is the lock of the
//! altered blocks, with that of the records inside.
//!
//! In a process of one thread none of that is done. The thread that forks may be in the handler of
//! a signal that interrupted the heap, and would wait for itself. It goes on in the child with all
//! that it holds, as in the parent.

use crate::base::SavedErrno;
use crate::{RECORDS, altered, glibc, start};
use large_heap::{Gate, Inside};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};
use vmalloc_linux::fork::LoneForks;

/// How long a fork waits at most for threads to come out. One that stays in longer waits for the
/// system, or is below this very thread, in whose signal handler the program forks.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it sleeps between two looks.
const NAP: Duration = Duration::from_micros(50);

static GATE: Gate = Gate::new();

/// Forks of a process of one thread: the outer handlers, and the inner ones.
static LONE: [LoneForks; 2] = [const { LoneForks::new() }; 2];

/// The block that was put off last.
static PUT_OFF: AtomicPtr<PutOff> = AtomicPtr::new(ptr::null_mut());

/// A block that is to be freed after the fork, in a record of glibc's. Nothing is written to the
/// block: its address may be a wrong one, which the heap finds out when it is freed.
struct PutOff {
    addr: usize,
    before: *mut PutOff,
}

/// Returns the identity of this thread, which it has in the child of a fork as well.
pub(crate) fn this_thread() -> usize {
    // SAFETY: no conditions.
    unsafe { libc::pthread_self() as usize }
}

/// Lets this thread into the heap, unless a thread forks.
#[inline]
pub(crate) fn enter() -> Option<Inside<'static>> {
    GATE.enter(this_thread())
}

/// Returns how many calls this process has made into the heap.
pub(crate) fn calls() -> usize {
    GATE.calls()
}

/// Remembers the address of a block that is to be freed after the fork. Without memory for the
/// record, the block is lost.
#[cold]
pub(crate) fn put_off(addr: usize) {
    let _errno = SavedErrno::new();
    let record = glibc::malloc(size_of::<PutOff>()).cast::<PutOff>();
    if record.is_null() {
        return;
    }
    let mut before = PUT_OFF.load(Ordering::Relaxed);
    loop {
        // SAFETY: the record just allocated, of that size, which no other thread has seen.
        unsafe { record.write(PutOff { addr, before }) };
        // Release: pairs with the Acquire in `take_put_off`: the record.
        match PUT_OFF.compare_exchange_weak(before, record, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(found) => before = found,
        }
    }
}

/// Returns the addresses of the blocks that were put off, for the caller to free.
#[inline]
pub(crate) fn take_put_off() -> impl Iterator<Item = usize> {
    let none = PUT_OFF.load(Ordering::Relaxed).is_null();
    let mut next = if none { ptr::null_mut() } else { PUT_OFF.swap(ptr::null_mut(), Ordering::Acquire) };
    std::iter::from_fn(move || {
        // SAFETY: null, or a record of `put_off`, whose list is this caller's alone.
        let PutOff { addr, before } = unsafe { next.as_ref() }.map(|record| PutOff { ..*record })?;
        // SAFETY: allocated by `put_off`, and not used any more.
        unsafe { glibc::free(next.cast()) };
        next = before;
        Some(addr)
    })
}

/// Installs all handlers, in the order of the drawing above. Returns false if the C library has no
/// memory for them.
pub(crate) fn install() -> bool {
    // SAFETY: the handlers are functions of a library that is never unloaded, and do not unwind.
    let add =
        |prepare, parent, child| unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    add(prepare_inner, parent_inner, child_inner) == 0
        && vmalloc_linux::fork::install().is_ok()
        && add(prepare_outer, parent_outer, child_outer) == 0
}

extern "C" fn prepare_outer() {
    if LONE[0].begin() {
        return;
    }
    GATE.close();
    // A single look is enough but for threads that are inside right now.
    if !GATE.is_empty() {
        let begin = Instant::now();
        while !GATE.is_empty() && begin.elapsed() < PATIENCE {
            std::thread::sleep(NAP);
        }
    }
}

extern "C" fn parent_outer() {
    if !LONE[0].end() {
        GATE.open();
    }
}

extern "C" fn child_outer() {
    if !LONE[0].end() {
        GATE.open_in_child();
    }
}

extern "C" fn prepare_inner() {
    if !LONE[1].begin() {
        altered::quiesce();
        RECORDS.quiesce();
    }
}

extern "C" fn parent_inner() {
    if !LONE[1].end() {
        // SAFETY: `prepare_inner` took the locks in this thread; the C library pairs the handlers.
        unsafe {
            RECORDS.resume();
            altered::resume();
        }
    }
}

extern "C" fn child_inner() {
    if !LONE[1].end() {
        start::mend_in_child();
        // SAFETY: as in `parent_inner`.
        unsafe {
            RECORDS.resume();
            altered::resume();
        }
    }
    altered::mend_in_child();
}
