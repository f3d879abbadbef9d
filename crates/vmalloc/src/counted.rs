//! A value that several hold together: what the standard library's `Arc` is, but made fallibly, for a space that can't be
//! made is an error and no reason to end the program.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// There is no memory for the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// A shared value on the heap, which goes with the last who holds it.
pub struct Counted<T> {
    inner: NonNull<Inner<T>>,
}

struct Inner<T> {
    holders: AtomicUsize,
    value: T,
}

// SAFETY: those who hold it share the value, and any of them may be the one who drops it.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above: who has a reference can clone it.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    pub(crate) fn new(value: T) -> Result<Self, NoMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(1).map_err(|_| NoMemory)?;
        memory.push(Inner { holders: AtomicUsize::new(1), value });
        let boxed: Box<[Inner<T>; 1]> = memory.into_boxed_slice().try_into().map_err(|_| NoMemory)?;
        Ok(Self { inner: NonNull::from(Box::leak(boxed)).cast() })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: `new` made it, and it is dropped by nobody before the last holder, of which this is one.
        unsafe { self.inner.as_ref() }
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
            // SAFETY: `new` leaked a box of one of these, and nobody holds it any more.
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
}
