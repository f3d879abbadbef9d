//! The children of forks.
//!
//! Magazines are whole in a child (MAG-3), and the space has hooks of its own. What is left are the
//! readers of the registry and the thread of the decay, which the child does not have. A stack that
//! such a thread owned or moved at the fork stays in use in the child: only its owner could drop
//! it.

use crate::error::OpenError;
use crate::{decay, registry};
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the handler is installed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Has the C library call the handler in every child from now on.
pub(crate) fn watch() -> Result<(), OpenError> {
    // Relaxed: one thread wins; nothing else is published.
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the handler is a function for the life of the program, and does not unwind.
    match unsafe { libc::pthread_atfork(None, None, Some(resume_in_child)) } {
        0 => Ok(()),
        code => {
            IS_WATCHED.store(false, Ordering::Relaxed);
            Err(OpenError::Fork { code })
        }
    }
}

extern "C" fn resume_in_child() {
    decay::resume_in_child();
    registry::entries().for_each(registry::Entry::resume_in_child);
}
