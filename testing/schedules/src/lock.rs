//! The lock of the space: a thread that waits for it is a blocked thread to the scheduler, so that
//! deadlocks are found.

use crate::explore::is_alone;
use lock_api::{GuardSend, RawMutex};
use shuttle::current::TaskId;
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};
use std::cell::Cell;
use vmalloc::sync::{point, unlocks};

/// A lock over the scheduler: any of the waiting threads may get it next.
pub struct Lock {
    semaphore: BatchSemaphore,
    /// The thread that was let in without it.
    intruder: Cell<Option<TaskId>>,
}

// SAFETY: all threads of an exploration run in one of the system's.
unsafe impl Send for Lock {}
// SAFETY: as above.
unsafe impl Sync for Lock {}

// SAFETY: the semaphore has one permit. An intruder breaks the promise, as the mutant that asks for
// one wants it.
unsafe impl RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self =
        Self { semaphore: BatchSemaphore::const_new(1, Fairness::Unfair), intruder: Cell::new(None) };

    type GuardMarker = GuardSend;

    fn lock(&self) {
        if unlocks() {
            self.intruder.set(Some(shuttle::current::me()));
            return;
        }
        if is_alone() {
            assert!(self.try_lock(), "the child of a fork waits for a thread that it does not have");
            return;
        }
        // An error tells that the exploration has failed elsewhere.
        let _ = self.semaphore.acquire_blocking(1);
    }

    fn try_lock(&self) -> bool {
        self.semaphore.try_acquire(1).is_ok()
    }

    unsafe fn unlock(&self) {
        if self.intruder.get().is_some_and(|intruder| intruder == shuttle::current::me()) {
            self.intruder.set(None);
            return;
        }
        self.semaphore.release(1);
    }

    fn is_locked(&self) -> bool {
        point();
        self.semaphore.available_permits() == 0
    }
}
