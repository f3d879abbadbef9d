//! The locks of the lab: what is waited for them is measured, not sampled.
//!
//! Two kinds, as a kernel has them: a [`Spin`] lock keeps its CPU from doing anything else while it is held, a [`Sleep`]ing
//! lock does not. Both are the product's own lock below; what differs is what a held one means for [`wakeups`].

use lock_api::{GuardSend, RawMutex};
use serde::Serialize;
use std::cell::Cell;
use std::time::Instant;
use vmalloc_linux::FutexLock;

/// A mutex behind a spin lock: everything that allocations and frees take.
pub type Mutex<T> = lock_api::Mutex<Spin, T>;
/// A mutex that sleeps: held over a whole purge, taken by nobody but purges.
pub type SleepMutex<T> = lock_api::Mutex<Sleep, T>;

/// What was counted on a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Waits {
    /// Locks taken.
    pub locks: u64,
    /// Of those, how many were not free at once.
    pub waited: u64,
    /// Nanoseconds from there until they were had.
    pub nanoseconds: u64,
}

impl Waits {
    /// Both sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            locks: self.locks + other.locks,
            waited: self.waited + other.waited,
            nanoseconds: self.nanoseconds + other.nanoseconds,
        }
    }
}

// One for each thread: shared ones would be fought over more than the locks.
thread_local! {
    static WAITS: Cell<Waits> = const { Cell::new(Waits { locks: 0, waited: 0, nanoseconds: 0 }) };
    /// Spin locks that this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What this thread has counted since the last call.
pub fn take_waits() -> Waits {
    WAITS.take()
}

/// A lock that is waited for actively: in a kernel nothing else runs on a CPU that holds one.
#[derive(Debug)]
pub struct Spin(FutexLock);

/// A lock that is slept for: who holds one can be interrupted at any time.
#[derive(Debug)]
pub struct Sleep(FutexLock);

fn lock(lock: &FutexLock) {
    let mut waits = WAITS.get();
    waits.locks += 1;
    if !lock.try_lock() {
        let start = Instant::now();
        lock.lock();
        waits.waited += 1;
        waits.nanoseconds += start.elapsed().as_nanos() as u64;
    }
    WAITS.set(waits);
}

fn try_lock(lock: &FutexLock) -> bool {
    let taken = lock.try_lock();
    if taken {
        let waits = WAITS.get();
        WAITS.set(Waits { locks: waits.locks + 1, ..waits });
    }
    taken
}

// SAFETY: every call is passed on to a lock that excludes.
unsafe impl RawMutex for Spin {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(FutexLock::INIT);

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        HELD.set(HELD.get() + 1);
        lock(&self.0);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = try_lock(&self.0);
        HELD.set(HELD.get() + u32::from(taken));
        taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() };
        HELD.set(HELD.get() - 1);
        wakeups::poll();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as above.
unsafe impl RawMutex for Sleep {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(FutexLock::INIT);

    type GuardMarker = GuardSend;

    fn lock(&self) {
        lock(&self.0);
    }

    fn try_lock(&self) -> bool {
        try_lock(&self.0)
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() };
        wakeups::poll();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// Wake-ups as a kernel's: a timer fires, and what waits for it runs as soon as its CPU holds no spin lock.
///
/// A program's thread can be preempted anywhere, so what a held spin lock does to others on the same CPU cannot be seen
/// from outside. It is counted from inside instead: a clock of the thread's own fires at a period, and is answered at the
/// first moment when the thread holds no [`Spin`] lock: at the next unlock, or the next [`poll`](wakeups::poll) of the loop.
pub mod wakeups {
    use super::HELD;
    use std::cell::{Cell, RefCell};
    use std::time::{Duration, Instant};

    struct Timer {
        due: Instant,
        period: Duration,
        late: Vec<Duration>,
    }

    thread_local! {
        static ARMED: Cell<bool> = const { Cell::new(false) };
        static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
    }

    /// Starts the clock of this thread.
    pub fn arm(period: Duration) {
        TIMER.set(Some(Timer { due: Instant::now() + period, period, late: Vec::new() }));
        ARMED.set(true);
    }

    /// Stops it; how late each wake-up was.
    pub fn disarm() -> Vec<Duration> {
        ARMED.set(false);
        TIMER.take().map_or_else(Vec::new, |timer| timer.late)
    }

    /// Answers the clock if it has fired and nothing is held.
    #[inline]
    pub fn poll() {
        if ARMED.get() && HELD.get() == 0 {
            answer();
        }
    }

    #[cold]
    fn answer() {
        TIMER.with_borrow_mut(|timer| {
            let Some(timer) = timer else { return };
            let now = Instant::now();
            if now < timer.due {
                return;
            }
            timer.late.push(now - timer.due);
            timer.due = now + timer.period;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_waited_for_is_counted() {
        const HOLD: Duration = Duration::from_millis(200);
        let mutex = Mutex::new(());
        take_waits();
        let counted = std::thread::scope(|scope| {
            let held = mutex.lock();
            let waiter = scope.spawn(|| {
                assert!(mutex.try_lock().is_none());
                drop(mutex.lock());
                drop(mutex.try_lock());
                take_waits()
            });
            // Long enough for the other thread to come to the lock; if it does not, the test sees a lock that was free.
            std::thread::sleep(HOLD);
            drop(held);
            waiter.join().expect("no panic")
        });
        assert_eq!((counted.locks, take_waits().locks), (2, 1));
        assert_eq!(counted.waited == 1, counted.nanoseconds > 0);
    }

    #[test]
    fn a_held_spin_lock_delays_a_wake_up_and_a_held_sleeping_lock_does_not() {
        let (spin, sleep) = (Mutex::new(()), SleepMutex::new(()));
        let nap = || std::thread::sleep(Duration::from_millis(20));
        wakeups::arm(Duration::from_millis(1));
        let (outer, held) = (sleep.lock(), spin.lock());
        nap();
        wakeups::poll();
        drop(held);
        let late = wakeups::disarm();
        assert!(late.len() == 1 && late[0] >= Duration::from_millis(19), "{late:?}");
        wakeups::arm(Duration::from_millis(30));
        nap();
        wakeups::poll();
        drop(spin.lock());
        assert_eq!(wakeups::disarm(), []);
        drop(outer);
    }
}
