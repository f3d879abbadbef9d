//! The locks of the lab: what is waited for them is measured, not sampled.
//!
//! Two kinds, as a kernel has them: a [`Spin`] lock keeps its CPU from doing anything else while it is held, a [`Sleep`]ing
//! lock does not. Both are the product's own lock below; what differs is how long is spun before sleeping, that a spin lock can be offered to who
//! waits ([`offer`]), and what a held one means for [`wakeups`].

use lock_api::{GuardSend, RawMutex, RawMutexFair};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use vmalloc_linux::FutexLock;

/// A mutex behind a spin lock: everything that allocations and frees take.
pub type Mutex<T> = lock_api::Mutex<Spin, T>;
/// A mutex that sleeps: held over a whole purge, taken by nobody but purges.
pub type SleepMutex<T> = lock_api::Mutex<Sleep, T>;

/// What was counted on a thread, of [`Spin`] locks: who waits for a purge, which is what the other ones are for, waits for work to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Waits {
    /// Locks taken.
    pub locks: u64,
    /// Of those, how many were not free at once.
    pub waited: u64,
    /// Nanoseconds from there until they were had.
    pub nanoseconds: u64,
    /// Of those, how many the thread ran: only counted while [`wakeups`] are.
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
    static WAITS: Cell<Waits> = const { Cell::new(Waits { locks: 0, waited: 0, nanoseconds: 0, ran: 0 }) };
    /// Spin locks that this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What this thread has counted since the last call.
pub fn take_waits() -> Waits {
    WAITS.take()
}

/// What this thread has counted, which goes on.
pub(crate) fn waits() -> Waits {
    WAITS.get()
}

/// Time that this thread has run: what others take from the machine is not in it.
pub(crate) fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Lets who waits for the lock of `guard` have it first, if anybody does, and what waits for the CPU run.
pub fn offer<T: ?Sized>(guard: &mut lock_api::MutexGuard<'_, Spin, T>) {
    // SAFETY: only read; the lock is not touched but through the guard.
    let waited_for = unsafe { lock_api::MutexGuard::mutex(guard).raw() }.is_waited_for();
    if waited_for {
        lock_api::MutexGuard::bump(guard);
    } else if wakeups::may_be_due() {
        lock_api::MutexGuard::unlocked(guard, || {});
    }
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

/// A lock that is slept for: who holds one can be interrupted at any time.
#[derive(Debug)]
pub struct Sleep(FutexLock);

/// Looks at a held lock before sleeping.
static LOOKS: AtomicU32 = AtomicU32::new(FEW_LOOKS);
/// Some 50 µs, longer than any hold but those of a whole purge: with more threads than CPUs there has to be an end, for the holder may not
/// be running.
const FEW_LOOKS: u32 = 1_000;

/// Waits for spin locks as a kernel does, without sleeping, while this lives: for programs with a CPU for each thread.
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

impl Spin {
    #[cold]
    fn wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
        if !(0..LOOKS.load(Relaxed)).any(|_| {
            std::hint::spin_loop();
            !self.lock.is_locked() && self.lock.try_lock()
        }) {
            self.lock.lock();
        }
        self.served.fetch_add(1, Relaxed);
        self.waiting.fetch_sub(1, Relaxed);
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// Takes a lock, and counts what it took; `wait` takes one that is not free.
#[inline]
fn count(try_lock: impl FnOnce() -> bool, wait: impl FnOnce()) {
    let free = try_lock();
    let waits = WAITS.get();
    WAITS.set(Waits { locks: waits.locks + 1, ..waits });
    if !free {
        count_wait(wait);
    }
}

#[cold]
fn count_wait(wait: impl FnOnce()) {
    let armed = wakeups::are_armed();
    let ran = || if armed { thread_time() } else { Duration::ZERO };
    let (start, ran_before) = (Instant::now(), ran());
    wait();
    let waits = WAITS.get();
    WAITS.set(Waits {
        waited: waits.waited + 1,
        nanoseconds: waits.nanoseconds + start.elapsed().as_nanos() as u64,
        ran: waits.ran + (ran() - ran_before).as_nanos() as u64,
        ..waits
    });
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
        HELD.set(HELD.get() + 1);
        count(|| self.lock.try_lock(), || self.wait());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = count_try(self.lock.try_lock());
        HELD.set(HELD.get() + u32::from(taken));
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
        // Who waits sees the lock within some looks; who sleeps needs to be woken, and nobody waits for that for ever.
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

/// Wake-ups as a kernel's: a timer fires, and what waits for it runs as soon as its CPU holds no spin lock.
///
/// A program's thread can be preempted anywhere, so what a held spin lock does to others on the same CPU cannot be seen
/// from outside. It is counted from inside instead: a clock of the thread's own fires at a period, and is answered at the
/// first moment when the thread holds no [`Spin`] lock and waits for none: at the next unlock, or the next [`poll`](wakeups::poll) of the loop. The
/// clock is that of the time that the thread runs, so what else the machine does is not counted.
pub mod wakeups {
    use super::{HELD, thread_time};
    use std::cell::{Cell, RefCell};
    use std::time::{Duration, Instant};

    struct Timer {
        /// When it fires next, by the thread's time.
        due: Duration,
        period: Duration,
        /// Before this it can't have fired: asking for the thread's time takes longer than asking for this.
        not_before: Instant,
        late: Vec<Duration>,
    }

    thread_local! {
        static ARMED: Cell<bool> = const { Cell::new(false) };
        static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
    }

    /// Starts the clock of this thread.
    pub fn arm(period: Duration) {
        let due = thread_time() + period;
        TIMER.set(Some(Timer { due, period, not_before: Instant::now() + period, late: Vec::new() }));
        ARMED.set(true);
    }

    /// Stops it; how late each wake-up was.
    pub fn disarm() -> Vec<Duration> {
        ARMED.set(false);
        TIMER.take().map_or_else(Vec::new, |timer| timer.late)
    }

    pub(super) fn are_armed() -> bool {
        ARMED.get()
    }

    /// Whether the clock may have fired.
    pub(super) fn may_be_due() -> bool {
        ARMED.get()
            && TIMER
                .with_borrow(|timer| timer.as_ref().is_some_and(|timer| Instant::now() >= timer.not_before))
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
            if let Some(timer) = timer
                && Instant::now() >= timer.not_before
            {
                timer.look();
            }
        });
    }

    impl Timer {
        fn look(&mut self) {
            let now = thread_time();
            if now >= self.due {
                self.late.push(now - self.due);
                self.due = now + self.period;
            }
            self.not_before = Instant::now() + (self.due - now);
        }
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

    /// Runs for so long.
    fn run(milliseconds: u64) {
        let end = thread_time() + Duration::from_millis(milliseconds);
        while thread_time() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_held_spin_lock_delays_a_wake_up_and_a_held_sleeping_lock_does_not() {
        let (spin, sleep) = (Mutex::new(()), SleepMutex::new(()));
        wakeups::arm(Duration::from_millis(1));
        let (outer, held) = (sleep.lock(), spin.lock());
        run(20);
        wakeups::poll();
        drop(held);
        let late = wakeups::disarm();
        assert!(late.len() == 1 && late[0] >= Duration::from_millis(19), "{late:?}");
        wakeups::arm(Duration::from_millis(30));
        run(20);
        wakeups::poll();
        drop(spin.lock());
        assert_eq!(wakeups::disarm(), []);
        wakeups::arm(Duration::from_millis(1));
        run(20);
        wakeups::poll();
        assert_eq!(wakeups::disarm().len(), 1, "with the sleeping lock held");
        drop(outer);
    }

    #[test]
    fn an_offered_lock_is_had_by_who_waits() {
        let (mutex, done) = (Mutex::new(0), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let mut held = mutex.lock();
            scope.spawn(|| {
                *mutex.lock() += 1;
                done.wait();
            });
            // However long the other takes to come here, and to be woken: it has the lock in between, or this never ends.
            while *held == 0 {
                offer(&mut held);
            }
            drop(held);
            done.wait();
        });
    }
}
