//! The locks of the lab on a machine of virtual CPUs, which counts what is waited for
//! (`vmalloc-machine`).

use lock_api::{GuardSend, RawMutex, RawMutexFair};
use std::sync::atomic::AtomicU32;

/// A mutex behind a spin lock: everything that allocations and frees take.
pub type Mutex<T> = lock_api::Mutex<Spin, T>;
/// A mutex that sleeps: held over a whole purge, taken by purges alone.
pub type SleepMutex<T> = lock_api::Mutex<Sleep, T>;

unsafe extern "C" {
    safe fn __machine_spin_lock(word: &AtomicU32);
    safe fn __machine_spin_try_lock(word: &AtomicU32) -> bool;
    safe fn __machine_spin_unlock(word: &AtomicU32);
    safe fn __machine_sleep_lock(word: &AtomicU32);
    safe fn __machine_sleep_try_lock(word: &AtomicU32) -> bool;
    safe fn __machine_sleep_unlock(word: &AtomicU32);
    safe fn __machine_is_waited_for(word: &AtomicU32) -> bool;
    safe fn __machine_yield();
}

/// Lets a thread that waits for the lock of `guard` have it first.
pub fn offer<T: ?Sized>(guard: &mut lock_api::MutexGuard<'_, Spin, T>) {
    // SAFETY: only read; the lock is not touched but through the guard.
    let word = &unsafe { lock_api::MutexGuard::mutex(guard).raw() }.0;
    if __machine_is_waited_for(word) {
        lock_api::MutexGuard::bump(guard);
    }
}

/// Lets others run, in a loop that waits for them.
pub fn yield_now() {
    __machine_yield();
}

macro_rules! lock {
    ($(#[$about:meta])* $name:ident, $lock:ident, $try_lock:ident, $unlock:ident) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name(AtomicU32);

        // SAFETY: the machine gives a lock to one thread at a time.
        unsafe impl RawMutex for $name {
            #[allow(clippy::declare_interior_mutable_const)]
            const INIT: Self = Self(AtomicU32::new(0));

            type GuardMarker = GuardSend;

            #[inline(always)]
            fn lock(&self) {
                $lock(&self.0);
            }

            #[inline(always)]
            fn try_lock(&self) -> bool {
                $try_lock(&self.0)
            }

            #[inline(always)]
            unsafe fn unlock(&self) {
                $unlock(&self.0);
            }
        }

        // SAFETY: as above. The machine hands a lock to the thread that has waited for longest.
        unsafe impl RawMutexFair for $name {
            unsafe fn unlock_fair(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.unlock() };
            }
        }
    };
}

lock! {
    /// A lock that is waited for actively.
    Spin, __machine_spin_lock, __machine_spin_try_lock, __machine_spin_unlock
}
lock! {
    /// A lock that is slept for.
    Sleep, __machine_sleep_lock, __machine_sleep_try_lock, __machine_sleep_unlock
}
