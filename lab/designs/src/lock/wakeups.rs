//! Wake-ups as a kernel's: a timer fires, and what waits for it runs as soon as its CPU holds no
//! spin lock.
//!
//! A program's thread can be preempted anywhere, so what a held spin lock does to others on the
//! same CPU cannot be seen from outside. It is counted from inside instead: a clock of the thread's
//! own fires at a period, and is answered at the first moment when the thread holds no
//! [`Spin`](super::Spin) lock and waits for none: at the next unlock, or the next [`poll`] of the
//! loop. The clock is that of the time that the thread runs, so what else the machine does is not
//! counted.

use super::HELD;
use crate::clock::cpu_time;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

struct Timer {
    /// When it fires next, by the thread's time.
    due: Duration,
    period: Duration,
    /// Before this it can't have fired: asking for the thread's time takes longer than asking for
    /// this.
    not_before: Instant,
    late: Vec<Duration>,
}

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
    static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
}

/// Starts the clock of this thread.
pub fn arm(period: Duration) {
    let due = cpu_time() + period;
    TIMER.set(Some(Timer { due, period, not_before: Instant::now() + period, late: Vec::new() }));
    ARMED.set(true);
}

/// Stops it; how late each wake-up was.
pub fn disarm() -> Vec<Duration> {
    ARMED.set(false);
    TIMER.take().map_or_else(Vec::new, |timer| timer.late)
}

/// Returns true if the clock may have fired.
pub(super) fn may_be_due() -> bool {
    ARMED.get()
        && TIMER.with_borrow(|timer| timer.as_ref().is_some_and(|timer| Instant::now() >= timer.not_before))
}

/// Answers the clock if it has fired and nothing is held.
#[inline]
pub fn poll() {
    if ARMED.get() && HELD.get() == 0 {
        answer();
    }
}

/// Answers at once a clock that fired while nothing was held.
#[inline]
pub(super) fn pass() {
    if ARMED.get() {
        look(|_| Duration::ZERO);
    }
}

#[cold]
fn answer() {
    look(|late| late);
}

/// If the clock has fired, notes how late that is answered.
fn look(answered: impl FnOnce(Duration) -> Duration) {
    TIMER.with_borrow_mut(|timer| {
        if let Some(timer) = timer
            && Instant::now() >= timer.not_before
        {
            timer.look(answered);
        }
    });
}

impl Timer {
    fn look(&mut self, answered: impl FnOnce(Duration) -> Duration) {
        let now = cpu_time();
        if now >= self.due {
            self.late.push(answered(now - self.due));
            self.due = now + self.period;
        }
        self.not_before = Instant::now() + (self.due - now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Mutex, SleepMutex};

    /// Runs for so long.
    fn run(milliseconds: u64) {
        let end = cpu_time() + Duration::from_millis(milliseconds);
        while cpu_time() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_held_spin_lock_delays_a_wake_up_and_a_held_sleeping_lock_does_not() {
        let (spin, sleep) = (Mutex::new(()), SleepMutex::new(()));
        arm(Duration::from_millis(1));
        let (outer, held) = (sleep.lock(), spin.lock());
        run(20);
        poll();
        drop(held);
        let late = disarm();
        assert!(late.len() == 1 && late[0] >= Duration::from_millis(19), "{late:?}");
        arm(Duration::from_millis(30));
        run(20);
        poll();
        drop(spin.lock());
        assert_eq!(disarm(), []);
        // Answered when it fires, although the clock is not looked at before the next lock.
        arm(Duration::from_millis(1));
        run(20);
        drop(spin.lock());
        assert_eq!(disarm(), [Duration::ZERO], "with the sleeping lock held");
        drop(outer);
    }
}
