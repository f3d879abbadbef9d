//! Where the map's own records live: the heap, or memory that the caller hands in before there is one.
//!
//! Records never come from the space being managed. They sit in three typed arrays (leaves, tree nodes,
//! directory nodes), name each other by index, and index 0 is a zeroed record that nobody writes: looking
//! through it finds nothing, so the searches need no null checks.

use alloc::vec::Vec;
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// The storage has no room for another record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// A growable array of records.
pub trait Items<T>: Deref<Target = [T]> + DerefMut {
    /// Appends `count` zeroed records. Changes nothing when it fails.
    ///
    /// # Errors
    /// When the memory is not to be had.
    fn extend_zeroed(&mut self, count: usize) -> Result<(), OutOfMemory>;

    /// Bytes taken, used or not.
    fn bytes(&self) -> usize;
}

/// A choice of storage.
pub trait Storage {
    /// The array type of this storage.
    type Items<T: Pod>: Items<T>;
}

/// Records on the global heap.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

impl Storage for Heap {
    type Items<T: Pod> = Vec<T>;
}

impl<T: Pod> Items<T> for Vec<T> {
    fn extend_zeroed(&mut self, count: usize) -> Result<(), OutOfMemory> {
        if self.capacity() - self.len() < count {
            // An eighth at a time instead of the usual doubling: a record is copied eight times over its
            // life, and at most an eighth of the memory is idle.
            let extra = count.max(self.len() / 8).max(16);
            self.try_reserve_exact(extra).map_err(|_| OutOfMemory)?;
        }
        self.resize(self.len() + count, T::zeroed());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

/// Records in memory that the caller handed in.
#[derive(Debug)]
pub struct Lent<'a>(PhantomData<&'a mut [u8]>);

impl<'a> Storage for Lent<'a> {
    type Items<T: Pod> = Slots<'a, T>;
}

/// An array in a caller's buffer, filled from the front.
#[derive(Debug)]
pub struct Slots<'a, T> {
    slots: &'a mut [T],
    len: usize,
}

impl<'a, T: Pod> Slots<'a, T> {
    /// Takes room for `count` records of `T` from the front of `memory`.
    pub(super) fn carve(memory: &mut &'a mut [u8], count: usize) -> Result<Self, OutOfMemory> {
        let skip = memory.as_ptr().align_offset(align_of::<T>());
        let bytes = count.checked_mul(size_of::<T>()).ok_or(OutOfMemory)?;
        if skip.checked_add(bytes).is_none_or(|need| need > memory.len()) {
            return Err(OutOfMemory);
        }
        let (_, aligned) = core::mem::take(memory).split_at_mut(skip);
        let (taken, rest) = aligned.split_at_mut(bytes);
        *memory = rest;
        let slots = bytemuck::try_cast_slice_mut(taken).map_err(|_| OutOfMemory)?;
        Ok(Self { slots, len: 0 })
    }
}

impl<T> Deref for Slots<'_, T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.slots[..self.len]
    }
}

impl<T> DerefMut for Slots<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.slots[..self.len]
    }
}

impl<T: Pod> Items<T> for Slots<'_, T> {
    fn extend_zeroed(&mut self, count: usize) -> Result<(), OutOfMemory> {
        let end = self.len.checked_add(count).filter(|&end| end <= self.slots.len()).ok_or(OutOfMemory)?;
        self.slots[self.len..end].fill(T::zeroed());
        self.len = end;
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val::<[T]>(self.slots)
    }
}

/// A record that can wait on a free list.
pub(super) trait Linked: Pod {
    fn link(&self) -> u32;
    fn set_link(&mut self, next: u32);
}

/// An array of records with a free list. Index 0 is the zeroed record.
pub(super) struct Pool<T: Linked, S: Storage> {
    items: S::Items<T>,
    /// Head of the free list; 0 = empty.
    free: u32,
    /// Records on the free list.
    spare: usize,
}

impl<T: Linked, S: Storage> Pool<T, S> {
    pub(super) fn new(mut items: S::Items<T>) -> Result<Self, OutOfMemory> {
        items.extend_zeroed(1)?;
        Ok(Self { items, free: 0, spare: 0 })
    }

    /// Makes sure that the next `count` calls of [`take`](Self::take) succeed.
    #[inline]
    pub(super) fn ensure(&mut self, count: usize) -> Result<(), OutOfMemory> {
        while self.spare < count {
            let index = u32::try_from(self.items.len()).map_err(|_| OutOfMemory)?;
            self.items.extend_zeroed(1)?;
            self.put(index);
        }
        Ok(())
    }

    /// A zeroed record. [`ensure`](Self::ensure) has been called for it.
    pub(super) fn take(&mut self) -> u32 {
        let index = self.free;
        debug_assert!(index != 0, "take without ensure");
        self.free = self[index].link();
        self.spare -= 1;
        self[index] = T::zeroed();
        index
    }

    /// Returns a record.
    pub(super) fn put(&mut self, index: u32) {
        let free = self.free;
        self[index].set_link(free);
        self.free = index;
        self.spare += 1;
    }

    /// Records in use, the zeroed one not counted.
    pub(super) fn in_use(&self) -> usize {
        self.items.len() - 1 - self.spare
    }

    pub(super) fn bytes(&self) -> usize {
        self.items.bytes()
    }
}

impl<T: Linked, S: Storage> core::ops::Index<u32> for Pool<T, S> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T: Linked, S: Storage> core::ops::IndexMut<u32> for Pool<T, S> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_carved_aligned_and_never_overrun() {
        let mut bytes = [0xAAu8; 100];
        let mut memory = &mut bytes[1..];
        let mut slots = Slots::<u64>::carve(&mut memory, 4).unwrap();
        assert!(slots.extend_zeroed(4).is_ok());
        assert_eq!(&*slots, &[0; 4]);
        assert_eq!(slots.extend_zeroed(1), Err(OutOfMemory));
        assert!(Slots::<u64>::carve(&mut memory, 100).is_err());
        assert!(memory.len() >= 99 - 7 - 32, "a failed carve takes nothing");
    }
}
