//! Opening: a whole allocator on this platform in one call, and roots and spaces that are safe
//! against forks.

use crate::beacon;
use crate::drain::Drain;
use crate::error::Error;
use crate::fork::{OnFutexes, RegisterError, register};
use crate::options::LinuxOptions;
use crate::platform::Linux;
use std::sync::Arc;
use vmalloc::{DrainStatus, Space, SpaceOptions};
use vmalloc_subspaces::Root;

/// A space as [`open`] returns it: each clone of the reference leads to that one space.
pub type SharedSpace = Arc<Space<Linux>>;

/// Reserves addresses and opens a space on them, which may be used before and after `fork`, by
/// parent and child.
///
/// The first frees create the drain thread, one for all spaces of the process. It purges lazy pages
/// in the background once they reach the threshold, gives cached memory back by age until nothing
/// is left, and ends with the last space. See [`LinuxOptions::drain_thread`].
///
/// ```
/// use vmalloc_linux::{LinuxOptions, open};
///
/// let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default())?;
/// let mut buffer = space.zeroed_buffer(100_000)?;
/// buffer[99_999] = 1;
/// assert_eq!(buffer.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 1);
/// # Ok::<(), vmalloc_linux::Error>(())
/// ```
///
/// # Errors
/// [`Error::Reserve`], [`Error::Space`] or [`Error::Fork`]. Nothing is left behind.
pub fn open(linux: LinuxOptions, space: SpaceOptions) -> Result<SharedSpace, Error> {
    let space = share(Space::new(Linux::reserve(linux, &space)?, space)?)?;
    if linux.drain_thread {
        space.platform().drain_thread.allow(Arc::<Space<Linux>>::downgrade(&space), linux.decay_every);
    }
    Ok(space)
}

/// Makes a root on `platform` that may be used before and after `fork`, by parent and child: on a
/// whole reservation, or on a part that another such root has [divided off](Root::divide).
///
/// Whether a space over a part of it may be used after a fork is a question of its own, see
/// [`share`].
///
/// ```
/// use vmalloc_linux::{Linux, LinuxOptions, Policy, Request, SpaceOptions, open_root, share};
///
/// let root = open_root(Linux::reserve(LinuxOptions::new(), &SpaceOptions::default())?)?;
/// let (high, plain) = (Request::new(16 << 20).policy(Policy::Highest), SpaceOptions::default());
/// let modules = share(root.subspace("modules", &high, None, plain)?)?;
/// let nested = open_root(root.divide("jit", &Request::new(1 << 30), None)?)?;
/// let code = share(nested.subspace("code", &Request::new(1 << 20), None, plain)?)?;
/// assert!(modules.buffer(4096).is_ok() && code.buffer(4096).is_ok());
/// # Ok::<(), vmalloc_linux::Error>(())
/// ```
///
/// # Errors
/// [`Error::Space`] or [`Error::Fork`]. Nothing is left behind.
pub fn open_root<P: OnFutexes>(platform: P) -> Result<Root<P>, Error> {
    let root = Root::new(platform)?;
    // Before a child can be made: its hook comes after those of all things that stand on it.
    register(root.downgrade())?;
    Ok(root)
}

/// Makes a space safe against forks: a sub-space of a root, or one on a [`Linux`] of one's own.
/// From then on it may be used before and after `fork`, by parent and child.
///
/// A sub-space needs a root that is safe, too, which [`open_root`] makes. A space that is to live
/// in a static lives there as this `Arc`.
///
/// A child of a fork in which a lock of another space was held by another thread at that moment
/// stops with a message when it asks for that lock.
///
/// # Errors
/// [`RegisterError`].
pub fn share<P: OnFutexes>(space: Space<P>) -> Result<Arc<Space<P>>, RegisterError> {
    let space = Arc::new(space);
    register(Arc::downgrade(&space))?;
    beacon::publish(&*space);
    Ok(space)
}

impl Drain for Space<Linux> {
    fn drain(&self) -> DrainStatus {
        // Areas that could not be unmapped stay lazy, and are tried again in a while.
        Space::drain(self).unwrap_or(DrainStatus::More)
    }
}
