//! The locks that all reservations of the process share, their order, and the generation of the
//! process.
//!
//! # Order
//! [`SUPPLY`], then [`OPENING`]. Nothing else is taken under either. They come last in the lock
//! order of the platform, see [`fork`](crate::fork).
//!
//! One lock for all reservations is enough, for both are taken seldom: the first in bulk, the
//! second once for each 8 MiB of growth. And a lock without an owner needs no registration for
//! forks.

use crate::os::futex::FutexLock;
use lock_api::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};

/// Held while frames are taken or given back, by any reservation of this program.
pub(crate) static SUPPLY: Mutex<FutexLock, ()> = Mutex::new(());

/// Held while chunks are opened, by any reservation of this program.
pub(crate) static OPENING: Mutex<FutexLock, ()> = Mutex::new(());

/// How many forks this process is away from the one that installed the handlers.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no ancestor of this process has had.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins a new generation, in the child of a fork.
pub(crate) fn begin_generation() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Takes both locks, before a fork.
pub(crate) fn lock_all() {
    MutexGuard::leak(SUPPLY.lock());
    MutexGuard::leak(OPENING.lock());
}

/// Releases both locks, after a fork.
///
/// # Safety
/// This thread, or the one it was forked from, has called [`lock_all`], and not this since.
pub(crate) unsafe fn unlock_all() {
    // SAFETY: `force_unlock` asks that this thread holds the lock: the caller's `lock_all` took
    // both and leaked the guards.
    unsafe {
        OPENING.force_unlock();
        SUPPLY.force_unlock();
    }
}
