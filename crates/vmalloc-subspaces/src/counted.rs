//! A shared value as in the standard library's `Arc`, but made fallibly: a root that cannot be made
//! is an error and no reason to end the program.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// Too little memory for the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// A shared value on the heap, which its last holder drops.
pub(crate) struct Counted<T> {
    inner: NonNull<Inner<T>>,
}

/// A reference to a shared value that does not keep it alive, only its memory.
pub(crate) struct Weak<T> {
    inner: NonNull<Inner<T>>,
}

struct Inner<T> {
    holders: AtomicUsize,
    /// One for each [`Weak`], and one for all holders together. The last frees the memory.
    watchers: AtomicUsize,
    /// Dropped by the last holder.
    value: ManuallyDrop<T>,
}

// SAFETY: the holders share the value, and any of them may drop it.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: a holder can clone it through a reference, and then share and drop the value.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}
// SAFETY: it may be upgraded to a holder of the value.
unsafe impl<T: Send + Sync> Send for Weak<T> {}
// SAFETY: it may be upgraded, through a reference, to a holder of the value.
unsafe impl<T: Send + Sync> Sync for Weak<T> {}

impl<T> Counted<T> {
    pub(crate) fn new(value: T) -> Result<Self, NoMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(1).map_err(|_| NoMemory)?;
        let (holders, watchers) = (AtomicUsize::new(1), AtomicUsize::new(1));
        memory.push(Inner { holders, watchers, value: ManuallyDrop::new(value) });
        let boxed: Box<[Inner<T>; 1]> = memory.into_boxed_slice().try_into().map_err(|_| NoMemory)?;
        Ok(Self { inner: NonNull::from(Box::leak(boxed)).cast() })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: `new` made it. The last watcher frees the memory, and one stays as long as the
        // value has a holder.
        unsafe { self.inner.as_ref() }
    }

    /// Returns a reference that does not keep the value alive.
    pub(crate) fn downgrade(&self) -> Weak<T> {
        // Relaxed: as for `clone`.
        self.inner().watchers.fetch_add(1, Ordering::Relaxed);
        Weak { inner: self.inner }
    }
}

impl<T> Weak<T> {
    fn holders(&self) -> &AtomicUsize {
        // SAFETY: the last watcher frees the memory, and this is a watcher.
        unsafe { &self.inner.as_ref().holders }
    }

    /// Returns true if the value has a holder.
    pub(crate) fn is_alive(&self) -> bool {
        // Relaxed: a hint. Once it is false it stays false.
        self.holders().load(Ordering::Relaxed) > 0
    }

    /// Returns the value, if it has a holder.
    pub(crate) fn upgrade(&self) -> Option<Counted<T>> {
        let one_more = |count: usize| (count > 0).then_some(count + 1);
        // Acquire: pairs with the Release of former holders, and shows what they did.
        self.holders().fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        Some(Counted { inner: self.inner })
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Self {
        // Relaxed: the cloning thread holds one already. A program has no memory for so many that
        // the count could overflow.
        self.inner().holders.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        // Release: what this holder did comes before the value's end.
        if self.inner().holders.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: and so does what all others did.
            fence(Ordering::Acquire);
            // The watcher of all holders, which is dropped after the value.
            let _watcher = Weak { inner: self.inner };
            // SAFETY: the value has no holder, and never gets one: the count stays 0.
            unsafe { ManuallyDrop::drop(&mut (*self.inner.as_ptr()).value) };
        }
    }
}

impl<T> Drop for Weak<T> {
    fn drop(&mut self) {
        // SAFETY: the last watcher frees the memory, and this is a watcher.
        let watchers = unsafe { &self.inner.as_ref().watchers };
        // Release: what this watcher did comes before the end of the memory.
        if watchers.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: and so does what all others did.
            fence(Ordering::Acquire);
            // SAFETY: `new` leaked a box of one of these, and no pointer to it is left. The value
            // in it was dropped.
            drop(unsafe { Box::from_raw(self.inner.cast::<[Inner<T>; 1]>().as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Noisy<'a>(&'a Cell<u32>);

    impl Drop for Noisy<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn the_last_holder_drops_the_value() {
        let drops = Cell::new(0);
        let one = Counted::new(Noisy(&drops)).unwrap();
        let two = one.clone();
        drop(one);
        assert_eq!((drops.get(), two.0.get()), (0, 0));
        drop(two);
        assert_eq!(drops.get(), 1);
    }

    #[test]
    fn a_weak_reference_keeps_no_value_alive() {
        let drops = Cell::new(0);
        let one = Counted::new(Noisy(&drops)).unwrap();
        let weak = one.downgrade();
        let two = weak.upgrade().unwrap();
        drop(one);
        assert_eq!((drops.get(), two.0.get()), (0, 0));
        drop(two);
        assert_eq!(drops.get(), 1);
        assert!(weak.upgrade().is_none());
    }
}
