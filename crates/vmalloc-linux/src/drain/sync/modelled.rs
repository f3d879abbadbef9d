//! Models of the atomics, of futex(2), of a clock and of threads.

use crate::drain::{Drains, Places};
use loom::sync::Condvar;
use loom::thread::{self, JoinHandle};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

pub(crate) use loom::sync::atomic::AtomicU32;

/// A lock that may be unlocked without its guard. Its parts are made on first use: in a model.
pub(crate) struct Lock(OnceLock<(loom::sync::Mutex<bool>, Condvar)>);

pub(crate) type Mutex<T> = lock_api::Mutex<Lock, T>;

impl Lock {
    fn parts(&self) -> (loom::sync::MutexGuard<'_, bool>, &Condvar) {
        let (is_held, waiting) = self.0.get_or_init(Default::default);
        (is_held.lock().expect("no panic"), waiting)
    }
}

// SAFETY: the mark is set by the thread that found it clear, and cleared by its `unlock`.
unsafe impl lock_api::RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(OnceLock::new());

    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        let (mut is_held, waiting) = self.parts();
        while *is_held {
            is_held = waiting.wait(is_held).expect("no panic");
        }
        *is_held = true;
    }

    fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.parts().0, true)
    }

    unsafe fn unlock(&self) {
        let (mut is_held, waiting) = self.parts();
        *is_held = false;
        waiting.notify_one();
    }
}

loom::lazy_static! {
    pub(crate) static ref DRAINS: Drains = Drains {
        bell: AtomicU32::new(0),
        gate: lock_api::Mutex::new(()),
        at_work: lock_api::Mutex::new(()),
        places: lock_api::Mutex::new(Places::NONE),
    };
    /// The clock, and the threads that sleep. The system looks at the word and puts the thread to
    /// sleep under one lock, which a wake-up takes as well.
    static ref SLEEPERS: (loom::sync::Mutex<Duration>, Condvar) = Default::default();
}

loom::thread_local! {
    pub(crate) static IS_DRAIN_THREAD: Cell<bool> = Cell::new(false);
}

pub(crate) fn now() -> Duration {
    *SLEEPERS.0.lock().expect("no panic")
}

pub(crate) fn wait(bell: &AtomicU32, expected: u32, nap: Option<Duration>) {
    let (clock, sleepers) = &*SLEEPERS;
    let mut clock = clock.lock().expect("no panic");
    if bell.load(std::sync::atomic::Ordering::Relaxed) != expected {
        return;
    }
    match nap {
        // It may pass before anything else happens.
        Some(nap) => *clock += nap,
        None => drop(sleepers.wait(clock).expect("no panic")),
    }
}

pub(crate) fn wake(_: &AtomicU32) {
    let (clock, sleepers) = &*SLEEPERS;
    let _clock = clock.lock().expect("no panic");
    sleepers.notify_all();
}

pub(crate) struct Thread(JoinHandle<()>);

impl Thread {
    pub(crate) fn join(self) {
        self.0.join().expect("the thread ends");
    }

    pub(crate) fn detach(self) {}
}

pub(crate) fn spawn(ours: u32) -> Result<Thread, ()> {
    Ok(Thread(thread::spawn(move || DRAINS.run(ours))))
}
