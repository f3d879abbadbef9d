//! Where the map's own records live: the heap, or memory that the caller hands in before there is one.
//!
//! Records never come from the space being managed. They sit in typed arrays, name each other by index, and index 0
//! is a zeroed record that nobody writes: looking through it finds nothing, so the searches need no null checks.
//!
//! - [`Items`]: what only the holder of the map reads (tree and directory nodes). One piece, copied when it grows.
//! - [`Stable`]: what others read without a lock while it grows (leaves, window). Pieces that never move.

use crate::counted::Counted;
use crate::sync::size;
use alloc::vec::Vec;
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use once_cell::race::OnceBox;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

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

/// A record that may be read while it is written: made of atomics, and valid when zeroed.
pub trait Shared: FromBytes + IntoBytes + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Send + Sync + 'static> Shared for T {}

/// An array that grows while it is read, in pieces of `CHUNK` zeroed records that stay where they are.
pub trait Stable<T> {
    /// The record at `index`, if its piece is there and one of the first, which take fewer steps. O(1).
    fn near(&self, index: usize) -> Option<&T>;

    /// The record at `index`, if its piece is there. O(1).
    fn get(&self, index: usize) -> Option<&T>;

    /// Makes sure that the piece of `index` is there. One thread at a time.
    ///
    /// # Errors
    /// When the memory is not to be had. Nothing is changed.
    fn reach(&self, index: usize) -> Result<(), OutOfMemory>;

    /// Bytes taken, used or not.
    fn bytes(&self) -> usize;
}

/// A choice of storage.
pub trait Storage {
    /// An array for whoever holds the map.
    type Items<T: Pod>: Items<T>;
    /// An array for everybody.
    type Stable<T: Shared, const CHUNK: usize>: Stable<T>;
    /// Something that the map and its readers hold together.
    type Handle<T>: Deref<Target = T>;

    /// Makes such a thing.
    ///
    /// # Errors
    /// When the memory is not to be had.
    fn handle<T>(shared: T) -> Result<Self::Handle<T>, OutOfMemory>;
}

/// Records on the global heap.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

impl Storage for Heap {
    type Items<T: Pod> = Vec<T>;
    type Stable<T: Shared, const CHUNK: usize> = Chunks<T, CHUNK>;
    type Handle<T> = Counted<T>;

    fn handle<T>(shared: T) -> Result<Counted<T>, OutOfMemory> {
        Counted::new(shared).map_err(|_| OutOfMemory)
    }
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
    type Stable<T: Shared, const CHUNK: usize> = Fixed<'a, T>;
    type Handle<T> = Own<T>;

    fn handle<T>(shared: T) -> Result<Own<T>, OutOfMemory> {
        Ok(Own(shared))
    }
}

/// What only the map itself holds: without a heap there is nothing to share it through.
#[derive(Debug)]
pub struct Own<T>(T);

impl<T> Deref for Own<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Pieces in a table. The first 1024 are found in one step: 131,072 leaves, that is 128 GiB of small areas in pages of
/// 4 KiB, for 8 KiB of table.
const TABLE: usize = size(1024, 16) as usize;
/// Tables of more pieces, found in two steps.
const TABLES: usize = size(256, 16) as usize;

type Table<T> = [OnceBox<T>; TABLE];

/// Pieces on the heap.
pub struct Chunks<T, const CHUNK: usize> {
    near: Table<[T; CHUNK]>,
    far: [OnceBox<Table<[T; CHUNK]>>; TABLES],
}

impl<T, const CHUNK: usize> Default for Chunks<T, CHUNK> {
    fn default() -> Self {
        Self { near: [const { OnceBox::new() }; TABLE], far: [const { OnceBox::new() }; TABLES] }
    }
}

impl<T: Shared, const CHUNK: usize> Chunks<T, CHUNK> {
    /// The table that piece number `piece` belongs in, made if need be.
    fn table(&self, piece: usize) -> Result<&Table<[T; CHUNK]>, OutOfMemory> {
        if piece < TABLE {
            return Ok(&self.near);
        }
        self.far.get(piece / TABLE).ok_or(OutOfMemory)?.get_or_try_init(|| {
            let mut table = Vec::new();
            table.try_reserve_exact(TABLE).map_err(|_| OutOfMemory)?;
            table.resize_with(TABLE, OnceBox::new);
            table.into_boxed_slice().try_into().map_err(|_| OutOfMemory)
        })
    }
}

impl<T: Shared, const CHUNK: usize> Stable<T> for Chunks<T, CHUNK> {
    #[inline(always)]
    fn near(&self, index: usize) -> Option<&T> {
        Some(&self.near.get(index / CHUNK)?.get()?[index % CHUNK])
    }

    #[inline(never)]
    fn get(&self, index: usize) -> Option<&T> {
        let table = match index / (CHUNK * TABLE) {
            0 => &self.near,
            table => self.far.get(table)?.get()?,
        };
        Some(&table[index / CHUNK % TABLE].get()?[index % CHUNK])
    }

    #[cold]
    fn reach(&self, index: usize) -> Result<(), OutOfMemory> {
        let table = self.table(index / CHUNK)?;
        let chunk = || <[T; CHUNK]>::new_box_zeroed().map_err(|_| OutOfMemory);
        table[index / CHUNK % TABLE].get_or_try_init(chunk).map(|_| ())
    }

    fn bytes(&self) -> usize {
        let far = || self.far.iter().filter_map(OnceBox::get);
        let chunks = far().flatten().chain(&self.near).filter(|chunk| chunk.get().is_some()).count();
        size_of::<Self>() + far().count() * size_of::<Table<T>>() + chunks * size_of::<[T; CHUNK]>()
    }
}

/// A caller's buffer: all there from the start.
#[derive(Debug)]
pub struct Fixed<'a, T>(&'a [T]);

impl<'a, T: Shared> Fixed<'a, T> {
    /// Takes room for `count` records of `T` from the front of `memory`.
    pub(super) fn carve(memory: &mut &'a mut [u8], count: usize) -> Result<Self, OutOfMemory> {
        let bytes = carve::<T>(memory, count)?;
        bytes.fill(0);
        let items: &'a mut [T] = <[T]>::mut_from_bytes(bytes).map_err(|_| OutOfMemory)?;
        Ok(Self(items))
    }
}

impl<T> Stable<T> for Fixed<'_, T> {
    #[inline(always)]
    fn near(&self, index: usize) -> Option<&T> {
        self.0.get(index)
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index)
    }

    fn reach(&self, index: usize) -> Result<(), OutOfMemory> {
        if index < self.0.len() { Ok(()) } else { Err(OutOfMemory) }
    }

    fn bytes(&self) -> usize {
        size_of_val::<[T]>(self.0)
    }
}

/// The bytes of `count` records of `T`, aligned, from the front of `memory`.
fn carve<'a, T>(memory: &mut &'a mut [u8], count: usize) -> Result<&'a mut [u8], OutOfMemory> {
    let skip = memory.as_ptr().align_offset(align_of::<T>());
    let bytes = count.checked_mul(size_of::<T>()).ok_or(OutOfMemory)?;
    if skip.checked_add(bytes).is_none_or(|need| need > memory.len()) {
        return Err(OutOfMemory);
    }
    let (_, aligned) = core::mem::take(memory).split_at_mut(skip);
    let (taken, rest) = aligned.split_at_mut(bytes);
    *memory = rest;
    Ok(taken)
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
        let slots = bytemuck::try_cast_slice_mut(carve::<T>(memory, count)?).map_err(|_| OutOfMemory)?;
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
