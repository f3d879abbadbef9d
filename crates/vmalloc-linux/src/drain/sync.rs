//! The word on which the drain thread sleeps, and the system's sleep itself. In a build for models
//! of weak memory (`--cfg loom`) both are models.

#[cfg(not(loom))]
pub(crate) use rustix::thread::futex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU32;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU32;

/// A model of futex(2). The system looks at the word and puts the thread to sleep under one lock,
/// which a wake-up takes as well.
#[cfg(loom)]
pub(crate) mod futex {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use rustix::io::Errno;
    pub(crate) use rustix::thread::futex::{Flags, Timespec};

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(
        word: &AtomicU32,
        _: Flags,
        expected: u32,
        timeout: Option<&Timespec>,
    ) -> Result<(), Errno> {
        let (lock, sleepers) = &*QUEUE;
        let held = lock.lock().expect("no panic");
        if word.load(Ordering::Relaxed) != expected {
            return Err(Errno::AGAIN);
        }
        if timeout.is_some() {
            // It may pass before anything else happens.
            return Err(Errno::TIMEDOUT);
        }
        drop(sleepers.wait(held).expect("no panic"));
        Ok(())
    }

    pub(crate) fn wake(_: &AtomicU32, _: Flags, _: u32) -> Result<usize, Errno> {
        let (lock, sleepers) = &*QUEUE;
        let _held = lock.lock().expect("no panic");
        sleepers.notify_one();
        Ok(0)
    }
}
