//! A lock that survives `fork`.
//!
//! The whole state is one word. Who waits is known to the kernel alone, and the kernel forgets it for the
//! child: a lock that the forking thread holds can therefore be unlocked on both sides. `parking_lot` keeps
//! its waiters in a table shared by all locks of the process; a fork while any other thread is parking leaves
//! a bucket of it locked for ever in the child, so it is not used here.

use lock_api::{GuardSend, RawMutex};
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and some thread may sleep in the kernel until it is unlocked.
const CONTENDED: u32 = 2;

/// How often a locked lock is looked at before sleeping. A sleep and its wake-up cost two system calls, and
/// the other CPU an interrupt: some 2 µs, or about a hundred pauses of 10–40 ns. Waiting as long as the sleep
/// would take is at most twice the best choice, whatever the holder does.
const SPINS: u32 = 100;

/// A mutex of one word that sleeps in the kernel (futex(2)), and may be held over a `fork`.
#[derive(Debug)]
pub struct FutexLock(AtomicU32);

impl FutexLock {
    #[cold]
    fn lock_slow(&self) {
        if self.spin() == UNLOCKED && self.try_lock() {
            return;
        }
        // Acquire: pairs with the Release in `unlock`. Taking it as contended wakes one thread too many at
        // worst.
        while self.0.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            // An error is a changed value or a signal: both only mean to look again.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, CONTENDED, None);
        }
    }

    /// Waits a little for the lock to become free; the last state seen.
    fn spin(&self) -> u32 {
        for _ in 0..SPINS {
            let state = self.0.load(Ordering::Relaxed);
            if state != LOCKED {
                return state;
            }
            std::hint::spin_loop();
        }
        LOCKED
    }
}

// SAFETY: the word leaves UNLOCKED only by an atomic exchange that one thread wins, and only `unlock`, whose
// caller holds the lock, brings it back; Acquire and Release order what it protects.
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
        // Acquire: pairs with the Release in `unlock`.
        self.0.compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release: pairs with the Acquire of the next holder.
        if self.0.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            // Cannot fail for a valid word; in a forked child there is nobody to wake.
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
    use lock_api::Mutex;

    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 20_000 };

    #[test]
    fn excludes() {
        static TOTAL: Mutex<FutexLock, u64> = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        *TOTAL.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*TOTAL.lock(), 4 * ROUNDS);
    }

    #[test]
    fn try_lock_never_waits() {
        let lock: Mutex<FutexLock, ()> = Mutex::new(());
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
