//! Forks: no lock is held over them, and the signals of the thread that forks are blocked.
//!
//! ```text
//!   a thread that forks                       other threads meanwhile
//!   freeze: the claims, under the lock        their calls go on, under the lock;
//!   (the C library's locks; fork)             what changes goes to the list
//!   thaw: the changes go to the map ◄──────── in the parent; the child has a copy of the list
//! ```
//!
//! Were the lock held over the fork, threads could wait in a circle. The forking thread has the
//! lock and waits for the list of open files, another one has the list and waits for a file
//! (fflush(3)), and a third has the file and waits for the lock (getline(3), over a malloc that
//! maps memory).
//!
//! Two threads may fork at once. The claims are thawed when the last of them is done.
//!
//! The handlers are installed by the constructor, before those of the program. So the program's run
//! while nothing is frozen, and may map memory. Signals are blocked in between: in the child a
//! handler could find the lock in the hands of a thread that is not there.

use crate::state;
use std::cell::Cell;

thread_local! {
    /// The mask of signals of the thread that forks.
    static MASK: Cell<u64> = const { Cell::new(0) };
}

/// Installs the handlers.
pub(crate) fn install() -> Result<(), i32> {
    // SAFETY: the handlers are functions of a library that is never unloaded, and do not unwind.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        code => Err(code),
    }
}

extern "C" fn prepare() {
    MASK.set(state::freeze());
}

extern "C" fn parent() {
    state::thaw(MASK.get());
}

extern "C" fn child() {
    // SAFETY: the C library calls this in the child, before all handlers of the program.
    unsafe { state::thaw_in_child(MASK.get()) };
}
