//! The lock of the space: a thread that waits for it is a blocked thread to the scheduler, so that
//! deadlocks are found.

use crate::explore::is_alone;
use lock_api::{GuardSend, RawMutex};
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};
use vmalloc::sync::point;

/// A lock over the scheduler: any of the waiting threads may get it next.
pub struct Lock(BatchSemaphore);

// SAFETY: all threads of an exploration run in one of the system's.
unsafe impl Send for Lock {}
// SAFETY: as above.
unsafe impl Sync for Lock {}

// SAFETY: the semaphore has one permit.
unsafe impl RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(BatchSemaphore::const_new(1, Fairness::Unfair));

    type GuardMarker = GuardSend;

    fn lock(&self) {
        if is_alone() {
            assert!(self.try_lock(), "the child of a fork waits for a thread that it does not have");
            return;
        }
        // An error tells that the exploration has failed elsewhere.
        let _ = self.0.acquire_blocking(1);
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.release(1);
    }

    fn is_locked(&self) -> bool {
        point();
        self.0.available_permits() == 0
    }
}
