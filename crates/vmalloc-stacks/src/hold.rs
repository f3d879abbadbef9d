//! The counts that keep a pool.
//!
//! - **HOLD-1** A pool lives as long as its count of holds is not 0. A handle ([`Stacks`]) has one
//!   hold, and so has each stack: in use, or cached in a magazine.
//! - **HOLD-2** A stack takes its hold along when it goes into a magazine and comes out again. So
//!   the common way of making and dropping a stack changes no number that CPUs share.
//! - **HOLD-3** When the last handle goes, all magazines are sealed and emptied. From then on a
//!   dropped stack goes to the space, and its hold ends.
//!
//! By HOLD-2 a thread that has put a stack into a magazine has given its hold away. It touches the
//! pool no more: the last handle may go at that moment, and the pool with it.
//!
//! Considered instead: a reference count for each stack, `Arc`. Two threads that make and drop
//! stacks then wait for one cache line, twice a stack.
//!
//! [`Stacks`]: crate::Stacks

use crate::pool::Pool;
use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

/// One count of a pool, which ends when it is dropped.
pub(crate) struct Hold(NonNull<Pool>);

// SAFETY: a pool is `Sync` (its fields are), and any thread may free it.
unsafe impl Send for Hold {}
// SAFETY: as above; a shared hold gives no more than a shared pool.
unsafe impl Sync for Hold {}

impl Hold {
    /// Moves a pool, which counts this hold alone, to where it stays.
    pub(crate) fn first(pool: Box<Pool>) -> Self {
        Self(NonNull::from(Box::leak(pool)))
    }

    /// Returns another hold of the pool.
    pub(crate) fn another(&self) -> Self {
        // Relaxed: this hold is there meanwhile.
        self.holds.fetch_add(1, Relaxed);
        Self(self.0)
    }

    /// Returns the hold of a cached stack, which was taken out of a magazine of this pool.
    pub(crate) fn of_cached(&self) -> Self {
        Self(self.0)
    }

    /// Returns a hold of a pool whose holds may be about to end, unless the last one has.
    ///
    /// # Safety
    /// The pool is there during the call.
    pub(crate) unsafe fn try_of(pool: NonNull<Pool>) -> Option<Self> {
        let one_more = |holds: usize| (holds != 0).then_some(holds + 1);
        // SAFETY: the caller's condition.
        let holds = unsafe { &pool.as_ref().holds };
        // Relaxed: a hold orders nothing, and the caller sees that the pool is there.
        holds.fetch_update(Relaxed, Relaxed, one_more).is_ok().then_some(Self(pool))
    }

    /// Leaves the hold to a cached stack.
    #[inline]
    pub(crate) fn leave(self) {
        mem::forget(self);
    }

    pub(crate) fn as_ptr(&self) -> *mut Pool {
        self.0.as_ptr()
    }
}

impl Deref for Hold {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        // SAFETY: by HOLD-1 the pool is there, and it is only ever shared.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release: pairs with the fence below in the thread that ends the last hold.
        if self.holds.fetch_sub(1, Release) == 1 {
            // Acquire: all that other threads did with the pool is over.
            fence(Acquire);
            self.entry.clear();
            // SAFETY: `first` leaked the box. No hold is left, and by `clear` no handler or thread
            // that found the pool by its entry is at it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
