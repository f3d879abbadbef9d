//! A value that one owner frees and others read: on the heap, or in memory that a caller lent.
//!
//! `Arc` would do, but it can't be made fallibly, and it needs a heap. Here the readers are not
//! counted: the caller that asks for a reader vouches that the owner outlives it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
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

/// Records in zeroed memory that a platform has lent.
pub struct Lent<T>(NonNull<[T]>);

// SAFETY: the records are shared by reference alone.
unsafe impl<T: Sync> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T> Default for Lent<T> {
    /// Returns no records.
    fn default() -> Self {
        Self(NonNull::slice_from_raw_parts(NonNull::dangling(), 0))
    }
}

impl<T: FromZeros> Lent<T> {
    /// Returns `count` records, which begin at `at`.
    ///
    /// # Safety
    /// There is zeroed memory for so many, which nothing else uses, for as long as this is used.
    pub unsafe fn new(at: NonNull<u8>, count: usize) -> Self {
        assert!(at.cast::<T>().is_aligned(), "a platform has lent memory of another alignment");
        Self(NonNull::slice_from_raw_parts(at.cast(), count))
    }

    /// Returns records for a test, which keeps their memory longer.
    #[cfg(test)]
    pub fn of_test(memory: &mut [T]) -> Self {
        Self(NonNull::from(memory))
    }
}

impl<T> Deref for Lent<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: by the condition of `new` they are there, and zeros are valid for them.
        unsafe { self.0.as_ref() }
    }
}

/// The array or the heap has no room for another record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// Puts `value` on the heap, if that has room.
pub fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
    list.push(value);
    let one = Box::into_raw(list.into_boxed_slice());
    // SAFETY: a box of one value has the layout of the value, and this is the only pointer to it.
    Ok(unsafe { Box::from_raw(one.cast::<T>()) })
}

/// Puts `value` into `memory`, which is as long as it and aligned for it.
pub(crate) fn place<T>(memory: &mut [u8], value: T) -> &mut T {
    let at = memory.as_mut_ptr().cast::<T>();
    assert!(memory.len() == size_of::<T>() && at.is_aligned(), "other memory than was asked for");
    // SAFETY: as asserted, and the memory is borrowed for as long as the value.
    unsafe {
        at.write(value);
        &mut *at
    }
}
