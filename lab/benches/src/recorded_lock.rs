//! A lock that notes its takers: for schedules in which one thread plays all CPUs.
//!
//! Locks are numbered as they are first taken, each thread with numbers of its own, so whoever
//! takes all locks of a new space in an order that he knows (as
//! [`Space::quiesce`](vmalloc::Space::quiesce) does) can tell them apart afterwards.

use lock_api::{GuardSend, RawMutex};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A lock that is never waited for: on one thread, a wait would never end.
#[derive(Debug)]
pub struct RecordedLock {
    held: AtomicBool,
    /// Its number and one; 0 before it was first taken.
    number: AtomicU32,
}

thread_local! {
    static NUMBERS: Cell<u32> = const { Cell::new(0) };
    static TAKEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Forgets what was noted, and starts numbers from 0: for the locks of a new space.
pub fn restart() {
    NUMBERS.set(0);
    TAKEN.take();
}

/// Moves the numbers of the locks that this thread has taken since the last call to `out`, in the
/// order in which they were.
pub fn take(out: &mut Vec<u32>) {
    out.clear();
    TAKEN.with_borrow_mut(|taken| out.append(taken));
}

impl RecordedLock {
    #[cold]
    fn register(&self) -> u32 {
        let number = NUMBERS.get() + 1;
        NUMBERS.set(number);
        self.number.store(number, Ordering::Relaxed);
        number
    }
}

// SAFETY: `held` goes from false to true by an exchange that one thread wins, and back only by
// its holder; Acquire and Release order what it protects.
unsafe impl RawMutex for RecordedLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self { held: AtomicBool::new(false), number: AtomicU32::new(0) };

    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "a lock that is held, on the only thread");
    }

    /// A lock that was not taken is not noted.
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the Release in `unlock`.
        let free = !self.held.swap(true, Ordering::Acquire);
        if free {
            let number = match self.number.load(Ordering::Relaxed) {
                0 => self.register(),
                number => number,
            };
            TAKEN.with_borrow_mut(|taken| taken.push(number - 1));
        }
        free
    }

    unsafe fn unlock(&self) {
        self.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_api::Mutex;

    #[test]
    fn locks_are_numbered_in_the_order_of_first_use() {
        type Recorded = Mutex<RecordedLock, ()>;
        restart();
        let (first, second) = (Recorded::new(()), Recorded::new(()));
        let held = second.lock();
        assert!(second.try_lock().is_none());
        drop(held);
        drop((first.lock(), second.try_lock()));
        let mut taken = Vec::new();
        take(&mut taken);
        assert_eq!(taken, [0, 1, 0]);
        take(&mut taken);
        assert!(taken.is_empty());
    }
}
