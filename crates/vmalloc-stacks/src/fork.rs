//! The children of forks.
//!
//! Magazines are whole in a child (MAG-3), and the space has hooks of its own. What is left are the
//! readers of the registry and the thread of the decay, which the child does not have. A stack that
//! such a thread owned or moved at the fork stays in use in the child: only its owner could drop
//! it.
//!
//! In a process of one thread none of that is missing. That thread may be a reader itself, in the
//! handler of a signal that forks, and is one in the child.

use crate::error::OpenError;
use crate::{decay, registry};
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc_linux::fork::LoneForks;

/// True once the handlers are installed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Forks of a process of one thread.
static LONE: LoneForks = LoneForks::new();

/// Has the C library call the handlers around every fork from now on.
pub(crate) fn watch() -> Result<(), OpenError> {
    // Relaxed: one thread wins; nothing else is published.
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the handlers are functions for the life of the program, and do not unwind.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        code => {
            IS_WATCHED.store(false, Ordering::Relaxed);
            Err(OpenError::Fork { code })
        }
    }
}

extern "C" fn prepare() {
    LONE.begin();
}

extern "C" fn parent() {
    LONE.end();
}

extern "C" fn child() {
    if !LONE.end() {
        decay::resume_in_child();
        registry::entries().for_each(registry::Entry::resume_in_child);
    }
}
