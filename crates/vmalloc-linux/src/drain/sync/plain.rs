//! The atomics of the machine, and the calls of the system.

use crate::drain::{Drains, Places};
use crate::os::futex::FutexLock;
use rustix::thread::futex::{self, Flags, Timespec};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

pub(crate) use crate::drain::thread::{Thread, spawn};
pub(crate) use std::sync::atomic::AtomicU32;

pub(crate) type Mutex<T> = lock_api::Mutex<FutexLock, T>;

pub(crate) static DRAINS: Drains = Drains {
    bell: AtomicU32::new(0),
    gate: Mutex::new(()),
    at_work: Mutex::new(()),
    places: Mutex::new(Places::NONE),
};

thread_local! {
    /// True in the drain thread.
    pub(crate) static IS_DRAIN_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Returns the time of the clock that sleeps go by.
pub(crate) fn now() -> Duration {
    // It counts from the start of the system.
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}

/// Sleeps until `bell` is woken or the time is over, if it has the value `expected`. It may also
/// return early.
pub(crate) fn wait(bell: &AtomicU32, expected: u32, nap: Option<Duration>) {
    let nap: Option<Timespec> = nap.and_then(|nap| nap.try_into().ok());
    // An error is another value, a signal or the end of the time: all only mean to look again.
    let _ = futex::wait(bell, Flags::PRIVATE, expected, nap.as_ref());
}

/// Wakes all threads that sleep on `bell`: beside the thread there may be one that is to end.
pub(crate) fn wake(bell: &AtomicU32) {
    // Cannot fail for a valid word.
    let _ = futex::wake(bell, Flags::PRIVATE, i32::MAX as u32);
}
