//! A value that several hold together: what the standard library's `Arc` is, but made fallibly, for a space that can't be
//! made is an error and no reason to end the program.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// There is no memory for the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// A shared value on the heap, which goes with the last who holds it.
pub(crate) struct Counted<T> {
    inner: NonNull<Inner<T>>,
}

/// A reference to a shared value that does not keep it alive, only its memory.
pub(crate) struct Weak<T> {
    inner: NonNull<Inner<T>>,
}

struct Inner<T> {
    holders: AtomicUsize,
    /// Those who have a [`Weak`], and one for all holders together. The memory goes with the last.
    watchers: AtomicUsize,
    /// Dropped by the last holder.
    value: ManuallyDrop<T>,
}

// SAFETY: those who hold it share the value, and any of them may be the one who drops it.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above: who has a reference can clone it.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}
// SAFETY: who has one may come to hold the value.
unsafe impl<T: Send + Sync> Send for Weak<T> {}
// SAFETY: as above.
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
        // SAFETY: `new` made it. Its memory goes with the last watcher, and one is kept for as long
        // as anybody holds the value.
        unsafe { self.inner.as_ref() }
    }

    /// A reference that does not keep the value alive.
    pub(crate) fn downgrade(&self) -> Weak<T> {
        // Relaxed: as for `clone`.
        self.inner().watchers.fetch_add(1, Ordering::Relaxed);
        Weak { inner: self.inner }
    }
}

impl<T> Weak<T> {
    fn holders(&self) -> &AtomicUsize {
        // SAFETY: the memory goes with the last watcher, of which this is one.
        unsafe { &self.inner.as_ref().holders }
    }

    /// Whether somebody holds the value.
    pub(crate) fn is_alive(&self) -> bool {
        // Relaxed: a hint, but that who finds nobody may forget the value.
        self.holders().load(Ordering::Relaxed) > 0
    }

    /// The value, if somebody holds it.
    pub(crate) fn upgrade(&self) -> Option<Counted<T>> {
        let one_more = |count: usize| (count > 0).then_some(count + 1);
        // Acquire: pairs with the Release of holders who have gone: what they did is seen.
        self.holders().fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        Some(Counted { inner: self.inner })
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Self {
        // Relaxed: who clones holds one already. A program has no memory for so many that the count could overflow.
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
            // The watcher of all holders, which goes after the value.
            let _watcher = Weak { inner: self.inner };
            // SAFETY: nobody holds the value any more, and nobody comes to: the count of holders is
            // 0 for good.
            unsafe { ManuallyDrop::drop(&mut (*self.inner.as_ptr()).value) };
        }
    }
}

impl<T> Drop for Weak<T> {
    fn drop(&mut self) {
        // SAFETY: the memory goes with the last watcher, of which this is one.
        let watchers = unsafe { &self.inner.as_ref().watchers };
        // Release: what this watcher did comes before the end of the memory.
        if watchers.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: and so does what all others did.
            fence(Ordering::Acquire);
            // SAFETY: `new` leaked a box of one of these, and nobody has a way to it any more. The
            // value in it was dropped.
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
    fn the_value_goes_with_the_last_who_holds_it() {
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
