//! The children of forks.
//!
//! Magazines are whole in a child (MAG-3), and the space has hooks of its own. What is left are the
//! readers of the registry and the thread of the decay, which the child does not have. A stack that
//! such a thread owned or moved at the fork stays in use in the child: only its owner could drop
//! it. One that such a thread was growing can be grown on, by its generation.
//!
//! In a process of one thread none of that is missing. That thread may be a reader itself, in the
//! handler of a signal that forks, and is one in the child.

use crate::{decay, registry};
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vmalloc_linux::fork::{LoneForks, RegisterError};

/// Forks, of processes with more threads than one, between the start of the program and this
/// process.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of this process among those that were forked from one another.
pub(crate) fn generation() -> usize {
    // Relaxed: it changes where there is one thread.
    FORKS.load(Ordering::Relaxed)
}

/// True once the handlers are installed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Forks of a process of one thread.
static LONE: LoneForks = LoneForks::new();

/// Has the C library call the handlers around every fork from now on.
pub(crate) fn watch() -> Result<(), RegisterError> {
    // SAFETY: the handlers are functions for the life of the program, and do not unwind.
    watch_once(&IS_WATCHED, || unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) })
}

/// Installs handlers, unless `is_watched` says that they are there. Only then is that noted:
/// another thread that opens a pool meanwhile installs them as well, and so does a child that has
/// neither. Handlers that run twice do no harm.
fn watch_once(is_watched: &AtomicBool, install: impl FnOnce() -> c_int) -> Result<(), RegisterError> {
    // Relaxed, here and below: nothing else is published.
    if is_watched.load(Ordering::Relaxed) {
        return Ok(());
    }
    match install() {
        0 => {
            is_watched.store(true, Ordering::Relaxed);
            Ok(())
        }
        code => Err(RegisterError::Refused { code }),
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
        FORKS.fetch_add(1, Ordering::Relaxed);
        decay::resume_in_child();
        registry::entries().for_each(registry::Entry::resume_in_child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_counts_as_installed_when_it_is_and_not_before() {
        let is_watched = AtomicBool::new(false);
        watch_once(&is_watched, || 12).unwrap_err();
        let mut seen_meanwhile = None;
        let install = || {
            seen_meanwhile = Some(is_watched.load(Ordering::Relaxed));
            0
        };
        watch_once(&is_watched, install).unwrap();
        assert_eq!(seen_meanwhile, Some(false), "another thread would go on without it");
        watch_once(&is_watched, || panic!("it is there")).unwrap();
    }
}
