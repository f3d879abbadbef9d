//! A whole allocator on this platform, in one call.

use crate::error::ReserveError;
use crate::fork::{AtFork, RegisterError, register};
use crate::options::Options;
use crate::platform::Linux;
use std::sync::{Arc, Weak};
use thiserror::Error;
use vmalloc::{Config, Space, SpaceError};

/// Why a space could not be opened. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The addresses could not be reserved.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// No space could be made on them.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The space could not be made safe against forks.
    #[error(transparent)]
    Fork(#[from] RegisterError),
}

/// Reserves addresses and opens a space on them, which may be used before and after `fork`, by parent and child.
///
/// Once enough is lazy, a thread of the space's own drains it in the background, and goes on by age until nothing
/// is left; it ends with the space. See [`Options::without_drain_thread`].
///
/// ```
/// use vmalloc_linux::{Options, open};
///
/// let space = open(Options::new(), vmalloc::Config::default())?;
/// let mut buffer = space.zeroed_buffer(100_000)?;
/// buffer[99_999] = 1;
/// assert_eq!(buffer.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`OpenError`].
pub fn open(options: Options, config: Config) -> Result<Arc<Space<Linux>>, OpenError> {
    let space = Arc::new(Space::new(Linux::reserve(options)?, config)?);
    if options.drain_thread {
        space.platform().drain_thread.allow(Arc::downgrade(&space));
    }
    let hook: Weak<dyn AtFork> = Arc::downgrade(&space) as Weak<dyn AtFork>;
    register(hook)?;
    Ok(space)
}

impl AtFork for Space<Linux> {
    fn prepare(&self) {
        self.platform().drain_thread.prepare();
        self.quiesce();
    }

    fn parent(&self) {
        // SAFETY: this thread has called `prepare`, and neither this nor `child` since.
        unsafe {
            self.resume();
            self.platform().drain_thread.parent();
        }
    }

    fn child(&self) {
        // SAFETY: the thread that this one was forked from has called `prepare`; the lock is one that may be
        // unlocked on both sides of a fork.
        unsafe {
            self.resume_in_child();
            self.platform().drain_thread.child();
        }
    }
}
