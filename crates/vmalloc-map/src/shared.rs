//! A value that one owner frees and others read: on the heap, or in memory that a caller lent.
//!
//! `Arc` would do, but it can't be made fallibly, and it needs a heap. Here the readers are not
//! counted: the caller that asks for a reader vouches that the owner outlives it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
use zerocopy::FromZeros;

/// Invariant (SHARED-1): `at` is valid for reads for `'m` and until the owner is dropped, and
/// nothing refers to the value mutably.
pub struct Shared<'m, T> {
    at: NonNull<T>,
    /// True for the owner of a value on the heap.
    frees: bool,
    lent: PhantomData<&'m T>,
}

// SAFETY: the owner and the readers share the value by reference, and the owner may drop it.
unsafe impl<T: Send + Sync> Send for Shared<'_, T> {}
// SAFETY: a reference to it gives no more than a reference to the value.
unsafe impl<T: Send + Sync> Sync for Shared<'_, T> {}

impl<'m, T> Shared<'m, T> {
    /// Returns the owner of a value on the heap.
    pub fn boxed(value: Box<T>) -> Self {
        Self { at: NonNull::from(Box::leak(value)), frees: true, lent: PhantomData }
    }

    /// Returns the owner of a value in lent memory, which is never dropped.
    pub fn lent(value: &'m mut T) -> Self {
        Self { at: NonNull::from(value), frees: false, lent: PhantomData }
    }

    /// Returns a reader of the value.
    ///
    /// # Safety
    /// The owner is dropped after the last use of the reader.
    pub unsafe fn reader(&self) -> Self {
        Self { at: self.at, frees: false, lent: PhantomData }
    }

    /// Returns a reader for a test that keeps the owner alive.
    #[cfg(all(test, loom))]
    pub fn reader_in_test(&self) -> Self {
        // SAFETY: the tests keep the owner to their end.
        unsafe { self.reader() }
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: SHARED-1, and by the condition of `reader` for readers.
        unsafe { self.at.as_ref() }
    }
}

impl<T> Drop for Shared<'_, T> {
    fn drop(&mut self) {
        if self.frees {
            // SAFETY: `boxed` leaked a box, and by the condition of `reader` it is read no more.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

/// Records in memory that a caller or a platform has lent for `'m`. Zeros are a valid one: none.
#[derive(FromZeros)]
pub struct Lent<'m, T> {
    at: *const T,
    len: usize,
    lent: PhantomData<&'m [T]>,
}

// SAFETY: the records are shared by reference alone.
unsafe impl<T: Sync> Send for Lent<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lent<'_, T> {}

impl<T: FromZeros> Lent<'static, T> {
    /// Returns `count` records, which begin at `at`.
    ///
    /// # Safety
    /// There is zeroed memory for so many, which nothing else uses, for as long as this is used.
    pub unsafe fn new(at: NonNull<u8>, count: usize) -> Self {
        assert!(at.cast::<T>().is_aligned(), "a platform has lent memory of another alignment");
        Self { at: at.cast().as_ptr(), len: count, lent: PhantomData }
    }
}

impl<'m, T> From<&'m mut [T]> for Lent<'m, T> {
    fn from(memory: &'m mut [T]) -> Self {
        Self { at: memory.as_ptr(), len: memory.len(), lent: PhantomData }
    }
}

impl<T> Lent<'_, T> {
    /// Returns the address of the first record, and how many there are.
    pub(crate) fn place(&self) -> [usize; 2] {
        [self.at.addr(), self.len]
    }

    /// Returns the record at `index`, if there are so many.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: by the condition of `new`, or the lifetime, they are there, and zeros are valid.
        if index < self.len { Some(unsafe { &*self.at.add(index) }) } else { None }
    }
}

/// A box that is made once, by the thread that comes first. Zeros are a valid one: none yet. So
/// large tables of them are made where they stay, and not on the stack.
#[derive(FromZeros)]
#[repr(transparent)]
pub struct Once<T>(AtomicPtr<T>, PhantomData<Box<T>>);

impl<T: Send + Sync> Once<T> {
    /// Returns one that is not made yet.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(null_mut()), PhantomData)
    }

    /// Returns the value, if it is made.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: null, or a box that is dropped with this. Acquire: pairs with the exchange below.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Returns the value, which is made if it is not yet there.
    ///
    /// # Errors
    /// Those of `make`; nothing is changed.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<Box<T>, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let new = Box::into_raw(make()?);
        // Release: pairs with the Acquire of a look, here and above.
        let at = match self.0.compare_exchange(null_mut(), new, Release, Acquire) {
            Ok(_) => new,
            Err(first) => {
                // SAFETY: it came second, so nothing else knows of it.
                drop(unsafe { Box::from_raw(new) });
                first
            }
        };
        // SAFETY: as for `get`.
        Ok(unsafe { &*at })
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        let at = *self.0.get_mut();
        if !at.is_null() {
            // SAFETY: a box that was leaked, and nothing refers to it any more.
            drop(unsafe { Box::from_raw(at) });
        }
    }
}

/// The array or the heap has no room for another record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// Makes a value on the heap, in place, if that has room.
pub fn try_box<T>(make: impl FnOnce() -> T) -> Result<Box<T>, OutOfMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
    list.extend(core::iter::once_with(make));
    let one = Box::into_raw(list.into_boxed_slice());
    // SAFETY: a box of one value has the layout of the value, and this is the only pointer to it.
    Ok(unsafe { Box::from_raw(one.cast::<T>()) })
}

/// Makes a value of zeros on the heap, in place.
pub fn try_zeroed<T: FromZeros>() -> Result<Box<T>, OutOfMemory> {
    T::new_box_zeroed().map_err(|_| OutOfMemory)
}

/// Makes a value of zeros in `memory`, which is as long as it and aligned for it.
pub(crate) fn place<T: FromZeros>(memory: &mut [u8]) -> &mut T {
    memory.fill(0);
    // Only now: a later use of the slice would end what the pointer may do.
    let at = memory.as_mut_ptr().cast::<T>();
    assert!(memory.len() == size_of::<T>() && at.is_aligned(), "other memory than was asked for");
    // SAFETY: as asserted, zeros are valid, and the memory is borrowed for as long as the value.
    unsafe { &mut *at }
}
