//! The locks of the lab: what is waited for them is measured, not sampled.
//!
//! Two kinds, as a kernel has them: a [`Spin`] lock keeps its CPU from doing anything else while it
//! is held, a [`Sleep`]ing lock does not. Both are the product's own lock below; what differs is
//! how long is spun before sleeping, that a spin lock can be offered to a waiting thread
//! ([`offer`]), and what a held one means for [`wakeups`].

pub mod wakeups;

use crate::clock::{tick, ticks_per_ns};
use lock_api::{GuardSend, RawMutex, RawMutexFair};
use serde::Serialize;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use vmalloc_linux::FutexLock;

/// A mutex behind a spin lock: everything that allocations and frees take.
pub type Mutex<T> = lock_api::Mutex<Spin, T>;
/// A mutex that sleeps: held over a whole purge, taken by purges alone.
pub type SleepMutex<T> = lock_api::Mutex<Sleep, T>;

/// Counts of a thread's [`Spin`] locks. Waits for the sleeping locks do not count: those are waits
/// for a purge to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Waits {
    /// Locks taken.
    pub locks: u64,
    /// Of those, how many were not free at once.
    pub waited: u64,
    /// Nanoseconds from there until they were had.
    pub nanoseconds: u64,
    /// Of those, how many the thread ran: it looked at the lock, and did not sleep.
    pub ran: u64,
}

impl Waits {
    /// Both sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            locks: self.locks + other.locks,
            waited: self.waited + other.waited,
            nanoseconds: self.nanoseconds + other.nanoseconds,
            ran: self.ran + other.ran,
        }
    }
}

// One for each thread: shared ones would be fought over more than the locks.
thread_local! {
    /// Times are in ticks here: a wait is often shorter than a call of the system, which would make
    /// the waits of others longer as well.
    static WAITS: Cell<Waits> = const { Cell::new(Waits { locks: 0, waited: 0, nanoseconds: 0, ran: 0 }) };
    /// Spin locks that this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Returns the counts of this thread since the last call.
pub fn take_waits() -> Waits {
    let waits = WAITS.take();
    if waits.waited == 0 {
        return waits;
    }
    let nanoseconds = |ticks: u64| (ticks as f64 / ticks_per_ns()) as u64;
    Waits { nanoseconds: nanoseconds(waits.nanoseconds), ran: nanoseconds(waits.ran), ..waits }
}

/// Lets a thread that waits for the lock of `guard` have it first, and what waits for the
/// CPU run.
pub fn offer<T: ?Sized>(guard: &mut lock_api::MutexGuard<'_, Spin, T>) {
    // SAFETY: only read; the lock is not touched but through the guard.
    let waited_for = unsafe { lock_api::MutexGuard::mutex(guard).raw() }.is_waited_for();
    if waited_for {
        lock_api::MutexGuard::bump(guard);
    } else if wakeups::may_be_due() {
        lock_api::MutexGuard::unlocked(guard, || {});
    }
}

/// Lets others run, in a loop that waits for them.
pub fn yield_now() {
    std::thread::yield_now();
}

/// A lock that is waited for actively: in a kernel nothing else runs on a CPU that holds one.
#[derive(Debug)]
pub struct Spin {
    lock: FutexLock,
    /// How many wait.
    waiting: AtomicU32,
    /// How often it was had after waiting.
    served: AtomicU32,
}

/// A lock that is slept for: its holder can be interrupted at any time.
#[derive(Debug)]
pub struct Sleep(FutexLock);

/// Looks at a held lock before sleeping.
static LOOKS: AtomicU32 = AtomicU32::new(FEW_LOOKS);
/// Some microseconds, longer than any hold but those of a whole purge: with more threads than CPUs
/// there has to be an end, for the holder may not be running. As the product's lock.
const FEW_LOOKS: u32 = 100;

/// Waits for spin locks as a kernel does, without sleeping, while this lives: for programs with a
/// CPU for each thread.
#[derive(Debug)]
pub struct NeverSleep(());

impl NeverSleep {
    /// From now on.
    #[must_use]
    pub fn new() -> Self {
        LOOKS.store(u32::MAX, Relaxed);
        Self(())
    }
}

impl Default for NeverSleep {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NeverSleep {
    fn drop(&mut self) {
        LOOKS.store(FEW_LOOKS, Relaxed);
    }
}

/// Ticks of the longest look at a lock, some 2 µs: where one took longer, the thread did not run.
const LOOK_TICKS: u64 = 5_000;

impl Spin {
    /// Waits, and counts it.
    #[cold]
    fn wait(&self) {
        let (began, mut ran) = (tick(), 0);
        self.waiting.fetch_add(1, Relaxed);
        let mut last = began;
        if !(0..LOOKS.load(Relaxed)).any(|_| {
            std::hint::spin_loop();
            let is_had = !self.lock.is_locked() && self.lock.try_lock();
            let looked = tick();
            ran += looked.saturating_sub(last).min(LOOK_TICKS);
            last = looked;
            is_had
        }) {
            self.lock.lock();
        }
        let waits = WAITS.get();
        WAITS.set(Waits {
            waited: waits.waited + 1,
            // One at least: ticks may differ between cores.
            nanoseconds: waits.nanoseconds + tick().saturating_sub(began).max(1),
            ran: waits.ran + ran,
            ..waits
        });
        self.served.fetch_add(1, Relaxed);
        self.waiting.fetch_sub(1, Relaxed);
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// From here on this thread holds a lock more, or waits for it: nothing else runs.
#[inline]
fn hold() {
    if HELD.get() == 0 {
        wakeups::pass();
    }
    HELD.set(HELD.get() + 1);
}

fn count_try(taken: bool) -> bool {
    let waits = WAITS.get();
    WAITS.set(Waits { locks: waits.locks + u64::from(taken), ..waits });
    taken
}

// SAFETY: every call is passed on to a lock that excludes.
unsafe impl RawMutex for Spin {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self { lock: FutexLock::INIT, waiting: AtomicU32::new(0), served: AtomicU32::new(0) };

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        hold();
        let is_free = self.lock.try_lock();
        let waits = WAITS.get();
        WAITS.set(Waits { locks: waits.locks + 1, ..waits });
        if !is_free {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        hold();
        let taken = count_try(self.lock.try_lock());
        if !taken {
            HELD.set(HELD.get() - 1);
        }
        taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock() };
        HELD.set(HELD.get() - 1);
        wakeups::poll();
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

// SAFETY: as above.
unsafe impl RawMutexFair for Spin {
    unsafe fn unlock_fair(&self) {
        let served = self.served.load(Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.unlock() };
        // A waiting thread sees the lock within some looks. A sleeping one has to be woken, which
        // is not waited for for ever.
        for _ in 0..LOOKS.load(Relaxed) {
            if self.served.load(Relaxed) != served || !self.is_waited_for() {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

// SAFETY: as above.
unsafe impl RawMutex for Sleep {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(FutexLock::INIT);

    type GuardMarker = GuardSend;

    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn contended_lock_counts_a_wait() {
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
            // Long enough for the other thread to come to the lock; if it does not, the test sees a
            // lock that was free.
            std::thread::sleep(HOLD);
            drop(held);
            waiter.join().expect("no panic")
        });
        assert_eq!((counted.locks, take_waits().locks), (2, 1));
        assert_eq!(counted.waited == 1, counted.nanoseconds > 0);
    }

    #[test]
    fn offered_lock_goes_to_a_waiting_thread() {
        let (mutex, done) = (Mutex::new(0), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let mut held = mutex.lock();
            scope.spawn(|| {
                *mutex.lock() += 1;
                done.wait();
            });
            // However long the other takes to come here, and to be woken: it has the lock in
            // between, or this never ends.
            while *held == 0 {
                offer(&mut held);
            }
            drop(held);
            done.wait();
        });
    }
}
