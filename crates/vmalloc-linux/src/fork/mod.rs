//! Locks and threads around `fork`.
//!
//! The child gets a copy of all memory and of one thread, the one that forked. Areas, guard pages
//! and books are copied with it and stay right. A lock that some *other* thread held at that moment
//! would stay locked for ever, and what it protects would be half changed. So all locks are taken
//! before a fork and released on both sides after it. Each space and each root has a
//! hook for that. The drain thread is one for all, and needs none.
//!
//! ```text
//!   newest ──► … ──► oldest       each hook refers weakly to a space or a root
//!   prepare ──────►
//!   ◄────── release
//!
//!   a space over a child ─► its root ─► the root that lent that root's platform ─► …
//!        … ─► SUPPLY ─► OPENING
//! ```
//!
//! That is the order of locks. A thing is made after the one that it stands on, and is registered
//! at once.
//!
//! # Lock order
//! 1. the registry,
//! 2. the drain of a space, and the line of spaces to drain: see `drain`,
//! 3. the locks of the hooks, newest hook first,
//! 4. the platform's own, see `locks`.
//!
//! They are released in the opposite order, the oldest hook first: while a newer hook mends its
//! state, it may take memory from a heap that stands on an older one.
//!
//! No heap is used under the registry but in a fork. So a heap with hooks of its own, from which
//! spaces take their lists, has to install them before the first reservation; that of glibc comes
//! last in any case.
//!
//! # Calls that a fork interrupts
//! Each kind of hook says for its own state what the child does about it: `Space::resume_in_child`,
//! [`vmalloc_subspaces`], `drain`.
//!
//! The platform has no state between its calls. So it does no harm if another thread was in the
//! middle of a `map` or `unmap`, but that call is not finished in the child either. The fork waits
//! for a purge under way. Pages mapped for an area go with the area, which belongs to that thread
//! for ever.
//!
//! # A process of one thread
//! Where the C library knows of no other thread, a fork takes no locks, and its child has nothing
//! to repair. For the thread that forks may have been interrupted in the middle of a call, by the
//! handler of a signal that forks, and would wait for itself. The call goes on in parent and child,
//! with its locks and all that it has half changed. The child begins a new generation, no more.
//! glibc's own malloc does the same. (A thread made by a bare `clone` is not known, there or here.)
//!
//! That is not so once [`Frames`](crate::Frames) or [`GuardMeans::Userfault`](crate::GuardMeans::Userfault)
//! are in use: their calls act on what parent and child share, or on the parent from the child. So
//! locks are taken then in any case.
//!
//! # Where no hooks run
//! A fork that bypasses the C library (a bare `clone`), and `vfork`, run none. A space or a root
//! that was not made by [`open`](crate::open()), [`share`](crate::share) or
//! [`open_root`](crate::open_root) has none. A child that asks for a lock of such a space that was
//! held at the fork stops with a message, see [`FutexLock`].
//!
//! # Nothing safe unlocks
//! Hooks are private. The methods of spaces and roots that they call are public, and `unsafe` where
//! they unlock. To lock is safe: the worst that comes of it is a thread that waits for ever.
//!
//! ```
//! # use vmalloc_linux::{Linux, LinuxOptions, open, open_root};
//! # let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default()).unwrap();
//! # let linux = Linux::reserve(LinuxOptions::new(), &vmalloc::SpaceOptions::default());
//! # let root = open_root(linux.unwrap()).unwrap();
//! space.quiesce();
//! root.quiesce();
//! // SAFETY: this thread has just called `quiesce` of both.
//! unsafe {
//!     root.resume();
//!     space.resume();
//! }
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{LinuxOptions, open};
//! # let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default()).unwrap();
//! space.resume();
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{LinuxOptions, open};
//! # let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default()).unwrap();
//! space.resume_in_child();
//! ```
//! ```compile_fail,E0133
//! # use vmalloc_linux::{Linux, LinuxOptions, open_root};
//! # let linux = Linux::reserve(LinuxOptions::new(), &vmalloc::SpaceOptions::default());
//! # let root = open_root(linux.unwrap()).unwrap();
//! root.resume();
//! ```
//! ```compile_fail,E0599
//! # use vmalloc_linux::{LinuxOptions, open};
//! # let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default()).unwrap();
//! space.prepare();
//! ```
//! ```compile_fail,E0603
//! use vmalloc_linux::fork::hooks::AtFork;
//! ```

pub(crate) mod hooks;
pub(crate) mod locks;

use crate::os::futex::{self, FutexLock};
use crate::os::weak::weak_variable;
use hooks::{AtFork, Watch};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use thiserror::Error;
use vmalloc::{Platform, Space};
use vmalloc_subspaces::{Root, WeakRoot};

/// A platform whose locks may be unlocked on both sides of a fork.
pub trait OnFutexes: Platform<RawLock = FutexLock, PurgeLock = FutexLock> + Send + 'static {}

impl<P: Platform<RawLock = FutexLock, PurgeLock = FutexLock> + Send + 'static> OnFutexes for P {}

/// An error of a space or root that could not be made safe against forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The C library refused to call handlers around forks.
    #[error("pthread_atfork failed (errno {code})")]
    Refused {
        /// The `errno` that it returned.
        code: i32,
    },
}

/// Installs the handlers that run around each fork of this process, which the first space would do.
/// Of the handlers in a process, those that were installed last are the first to run before a fork:
/// so a library that has some of its own knows their order. O(1).
///
/// # Errors
/// When the C library is out of memory.
pub fn install() -> Result<(), RegisterError> {
    hooks::install().map_err(|errno| RegisterError::Refused { code: errno.raw_os_error() })
}

/// Returns a number that is another one in each child of a fork over which locks were taken, that
/// is where threads of the parent may be missing. Constant in a process, and never 0.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn generation() -> u32 {
    futex::generation()
}

/// Returns true if the C library knows of one thread in this process. False where it does not tell
/// (glibc before 2.32, other C libraries, other machines than x86-64).
#[must_use]
pub fn is_single_threaded() -> bool {
    let variable = weak_variable!("__libc_single_threaded" as u8);
    // SAFETY: null, or a `char` of the C library, which is always loaded. Volatile: it is written
    // where threads are created, and by no thread while another one runs.
    !variable.is_null() && unsafe { variable.read_volatile() } != 0
}

/// The forks under way of a process with one thread, over which handlers take no locks. Each set of
/// handlers has one of these.
///
/// It is a number, since a signal handler may fork while its thread is inside of `fork`.
#[derive(Debug)]
#[doc(hidden)]
pub struct LoneForks(AtomicU32);

impl LoneForks {
    /// Returns a count of no forks.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns true if the process has one thread. Then the handler before the fork has nothing to
    /// do, and the handlers after it call [`end`](Self::end).
    pub fn begin(&self) -> bool {
        let is_alone = is_single_threaded();
        if is_alone {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        is_alone
    }

    /// Returns true if the last [`begin`](Self::begin) did, on either side of the fork. No other
    /// thread is there in that case.
    pub fn end(&self) -> bool {
        let is_alone = self.0.load(Ordering::Relaxed) != 0;
        if is_alone {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
        is_alone
    }
}

/// Runs the hook of the thing that `watch` refers to around each fork, for as long as that thing
/// lives. Amortized O(1).
///
/// # Errors
/// When the C library is out of memory.
pub(crate) fn register(watch: impl Watch) -> Result<(), RegisterError> {
    install()?;
    hooks::add(watch);
    Ok(())
}

/// Has a thing take part in forks by its methods of the same names.
macro_rules! at_fork {
    ($thing:ident, $held:ty) => {
        impl<P: OnFutexes> AtFork for $held {
            fn quiesce(&self) {
                $thing::quiesce(self);
            }

            unsafe fn resume(&self) {
                // SAFETY: it asks that this thread called `quiesce`, as the caller promises.
                unsafe { $thing::resume(self) }
            }

            unsafe fn resume_in_child(&self) {
                // SAFETY: it asks that this thread called `quiesce` before the fork and is the only
                // one of the child, as the caller promises.
                unsafe { $thing::resume_in_child(self) }
            }
        }
    };
}

at_fork!(Space, Arc<Space<P>>);
at_fork!(Root, Root<P>);

impl<T: Send + Sync + 'static> Watch for Weak<T>
where
    Arc<T>: AtFork,
{
    type Held = Arc<T>;

    fn is_alive(&self) -> bool {
        self.strong_count() > 0
    }

    fn hold(&self) -> Option<Arc<T>> {
        self.upgrade()
    }
}

impl<P: OnFutexes> Watch for WeakRoot<P> {
    type Held = Root<P>;

    fn is_alive(&self) -> bool {
        self.is_alive()
    }

    fn hold(&self) -> Option<Root<P>> {
        self.upgrade()
    }
}
