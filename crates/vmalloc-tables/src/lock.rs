//! Locks. A kernel with better ones can use those: `Platform` names them.

use crate::machine::Interrupts;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::{GuardNoSend, RawMutex};

/// A spin lock that keeps interrupts off: held for a bounded number of areas, and taken in handlers
/// too (`free_atomic`).
#[derive(Debug)]
pub struct IrqLock<I> {
    held: AtomicBool,
    interrupts: PhantomData<fn() -> I>,
}

// SAFETY: `held` goes from false to true by an exchange that one CPU wins, and back only by the
// holder of the lock. Acquire and Release order the protected data. A handler on the same CPU can't
// come in between, for interrupts are off.
unsafe impl<I: Interrupts> RawMutex for IrqLock<I> {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self { held: AtomicBool::new(false), interrupts: PhantomData };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            // With interrupts as they were: a waiting CPU goes on answering others.
            wait_for(&self.held);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        I::off();
        let taken = take(&self.held);
        if !taken {
            I::on();
        }
        taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release: pairs with the Acquire of the next holder.
        self.held.store(false, Ordering::Release);
        I::on();
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }
}

/// A spin lock that leaves interrupts on: held over a whole purge, flush included, by contexts that
/// may wait.
#[derive(Debug)]
pub struct OpenLock(AtomicBool);

// SAFETY: as for `IrqLock`: one CPU wins the exchange, and only the holder undoes it. Handlers do
// not take it.
unsafe impl RawMutex for OpenLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        while !self.try_lock() {
            wait_for(&self.0);
        }
    }

    fn try_lock(&self) -> bool {
        take(&self.0)
    }

    unsafe fn unlock(&self) {
        // Release: pairs with the Acquire of the next holder.
        self.0.store(false, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[inline]
fn take(held: &AtomicBool) -> bool {
    // Acquire: pairs with the Release of the last holder.
    !held.swap(true, Ordering::Acquire)
}

#[cold]
fn wait_for(held: &AtomicBool) {
    while held.load(Ordering::Relaxed) {
        core::hint::spin_loop();
    }
}
