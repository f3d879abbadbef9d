//! A lock that survives `fork`.
//!
//! The whole state is one word. Only the kernel knows the waiters, and it forgets them for the
//! child: a lock that the forking thread holds can therefore be unlocked on both sides.
//! `parking_lot` keeps its waiters in a table shared by all locks of the process. A fork while any
//! other thread is parking leaves a bucket of it locked for ever in the child, so it is not used
//! here.
//!
//! # Locks that no thread will release
//!
//! ```text
//!   word:   generation (1, 2 …) │ contended?        0 = unlocked
//! ```

use crate::os::fatal::fatal;
use lock_api::{GuardSend, RawMutex};
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

const UNLOCKED: u32 = 0;
/// The bit of a locked word that says that some thread may sleep in the kernel until it is
/// unlocked.
const CONTENDED: u32 = 1;
/// From one generation to the next.
const STEP: u32 = 2;

/// A locked word of this process without the contended bit. Relaxed: it changes only in a child
/// that has one thread.
static LOCKED: AtomicU32 = AtomicU32::new(STEP);

/// Returns the generation of this process.
#[inline]
pub(crate) fn generation() -> u32 {
    LOCKED.load(Ordering::Relaxed)
}

/// Begins a new generation, in the child of a fork. Locks that the hooks hold must have been
/// released.
pub(crate) fn begin_generation() {
    LOCKED.fetch_add(STEP, Ordering::Relaxed);
}

/// The least and the most looks at a locked lock before sleeping. A sleep and its wake-up cost two
/// system calls and an interrupt of the other CPU: some 2 µs, or a hundred looks of 10–40 ns, and
/// ten times as long where a hypervisor has to start a CPU that halted. Waiting as long as the
/// sleep would take is at most twice the best choice, whatever the holder does.
const LEAST_SPINS: u32 = 100;
const MOST_SPINS: u32 = 1000;

/// The looks that are worth it at present, at any lock.
static SPINS: AtomicU32 = AtomicU32::new(MOST_SPINS);

/// Returns how many looks are worth it after up to `most` looks found a lock free at look
/// `free_at`: more after a late one, and the least if it never was free. Where threads are more
/// than CPUs, the holder often does not run, and looks are in vain.
fn spins_after(most: u32, free_at: Option<u32>) -> u32 {
    match free_at {
        None => LEAST_SPINS,
        Some(look) if look > most / 2 => (2 * most).min(MOST_SPINS),
        Some(_) => most,
    }
}

/// A mutex of one word that sleeps in the kernel (futex(2)), and may be held over a `fork`.
///
/// A thread that holds it over a fork has to release it in the child before another thread of the
/// child asks for it. Where the holder was another thread, which the child does not have, a thread
/// of the child that asks for the lock stops the program with a message.
#[derive(Debug)]
pub struct FutexLock(AtomicU32);

impl FutexLock {
    #[cold]
    fn lock_slow(&self) {
        if self.spin() == UNLOCKED && self.try_lock() {
            return;
        }
        let locked = LOCKED.load(Ordering::Relaxed);
        loop {
            // Acquire: pairs with the Release in `unlock`. Taking it as contended wakes one thread
            // too many at worst.
            match self.0.swap(locked | CONTENDED, Ordering::Acquire) {
                UNLOCKED => return,
                found if found & !CONTENDED != locked => abandoned(),
                _ => {}
            }
            // An error is a changed value or a signal: both only mean to look again.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, locked | CONTENDED, None);
        }
    }

    /// Waits a little for the lock to become free, and returns the last state seen.
    fn spin(&self) -> u32 {
        let most = SPINS.load(Ordering::Relaxed);
        let mut free_at = None;
        for look in 0..most {
            let state = self.0.load(Ordering::Relaxed);
            if state & CONTENDED != 0 {
                return state;
            }
            if state == UNLOCKED {
                free_at = Some(look);
                break;
            }
            std::hint::spin_loop();
        }
        let after = spins_after(most, free_at);
        if after != most {
            SPINS.store(after, Ordering::Relaxed);
        }
        self.0.load(Ordering::Relaxed)
    }
}

#[cold]
fn abandoned() -> ! {
    fatal(
        &"a lock was held by another thread at a fork, and no thread of this child will release it: \
          a space or root is used after a fork that was not made by `open`, `open_root` or `share`",
    )
}

// SAFETY: the word leaves UNLOCKED only by an atomic exchange that one thread wins. Only `unlock`,
// whose caller holds the lock, brings it back. Acquire and Release order the protected data.
unsafe impl RawMutex for FutexLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicU32::new(UNLOCKED));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let locked = LOCKED.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `unlock`.
        self.0.compare_exchange(UNLOCKED, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release: pairs with the Acquire of the next holder.
        if self.0.swap(UNLOCKED, Ordering::Release) & CONTENDED != 0 {
            // Cannot fail for a valid word; in a forked child no thread is there to wake.
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != UNLOCKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_make_the_next_ones_short_and_late_ones_longer() {
        assert_eq!(spins_after(MOST_SPINS, None), LEAST_SPINS);
        assert_eq!(spins_after(LEAST_SPINS, Some(LEAST_SPINS / 2)), LEAST_SPINS);
        assert_eq!(spins_after(LEAST_SPINS, Some(LEAST_SPINS - 1)), 2 * LEAST_SPINS);
        assert_eq!(spins_after(MOST_SPINS, Some(MOST_SPINS - 1)), MOST_SPINS);
    }
}
