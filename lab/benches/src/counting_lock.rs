//! A lock that counts how often it was taken, and how often that had to wait.

use lock_api::RawMutex;
use std::cell::Cell;

/// A lock of the type `L` that counts. Only for passes that are not timed: counting takes time
/// while no thread holds the lock, so that it is free a little more often than it would be.
#[derive(Debug)]
pub struct CountingLock<L>(L);

/// Counts of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Locks taken.
    pub locks: u64,
    /// Of those, how many were not free at once.
    pub waited: u64,
}

impl Taken {
    /// Both sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { locks: self.locks + other.locks, waited: self.waited + other.waited }
    }

    /// How many hundredths had to wait.
    pub fn waited_percent(&self) -> f64 {
        100.0 * self.waited as f64 / self.locks.max(1) as f64
    }
}

// A count for each thread: a shared one would be fought over more than the lock.
thread_local!(static TAKEN: Cell<Taken> = const { Cell::new(Taken { locks: 0, waited: 0 }) });

/// Returns the counts of this thread since the last call.
pub fn take() -> Taken {
    TAKEN.take()
}

fn count(waited: u64) {
    TAKEN.set(TAKEN.get().plus(Taken { locks: 1, waited }));
}

// SAFETY: every call is passed on to a lock that excludes.
unsafe impl<L: RawMutex> RawMutex for CountingLock<L> {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(L::INIT);

    type GuardMarker = L::GuardMarker;

    fn lock(&self) {
        if self.0.try_lock() {
            return count(0);
        }
        count(1);
        self.0.lock();
    }

    /// Does not wait; a lock that was not taken does not count.
    fn try_lock(&self) -> bool {
        let taken = self.0.try_lock();
        if taken {
            count(0);
        }
        taken
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_api::Mutex;

    type Counted = Mutex<CountingLock<parking_lot::RawMutex>, ()>;

    #[test]
    fn only_contended_locks_count_as_waits() {
        let lock = Counted::new(());
        let counted = std::thread::scope(|scope| {
            let held = lock.lock();
            let waiter = scope.spawn(|| {
                assert!(lock.try_lock().is_none());
                drop(lock.lock());
                drop(lock.try_lock());
                take()
            });
            // Long enough for the other thread to come to the lock; if it does not, the test sees a
            // lock that was free.
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(held);
            waiter.join().expect("no panic")
        });
        assert_eq!((counted.locks, take()), (2, Taken { locks: 1, waited: 0 }));
        assert!(counted.waited <= 1);
    }
}
