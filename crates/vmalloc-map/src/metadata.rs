//! Where the map's own records live: the heap, or memory that the caller hands in before there is
//! one.
//!
//! Records never come from the span being managed. They sit in typed arrays, name each other by
//! index, and index 0 is a zeroed record that is never written: looking through it finds nothing,
//! so the searches need no null checks.
//!
//! - [`Pool`]: what only the holder of the map reads (nodes of the tree). One piece, copied
//!   when it grows.
//! - [`RowArray`](super::row_array::RowArray): what others read without a lock while it grows (leaves).

pub(crate) use crate::shared::OutOfMemory;
use alloc::vec::Vec;
use bytemuck::Pod;
use bytemuck::allocation::try_zeroed_vec;
use core::mem;
use core::ops::{Index, IndexMut};

/// An array of records.
enum Records<'m, T> {
    Heap(Vec<T>),
    Lent(&'m mut [T]),
}

/// A record that can wait on a free list.
pub(crate) trait Linked: Pod {
    fn link(&self) -> u32;
    fn set_link(&mut self, next: u32);
}

/// An array of records with a free list. Index 0 is the zeroed record.
pub(crate) struct Pool<'m, T> {
    records: Records<'m, T>,
    /// Records that there ever were, the zeroed one included.
    len: usize,
    /// Head of the free list; 0 = empty.
    free: u32,
    /// Records on the free list.
    spare: usize,
}

impl<'m, T: Linked> Pool<'m, T> {
    /// Returns a pool on the heap.
    pub(super) fn on_heap() -> Result<Self, OutOfMemory> {
        Self::of(Records::Heap(Vec::new()))
    }

    /// Returns a pool of at most `count` records at the front of `memory`, which shrinks.
    pub(super) fn in_buffer(memory: &mut &'m mut [u8], count: usize) -> Result<Self, OutOfMemory> {
        let slots = bytemuck::try_cast_slice_mut(carve::<T>(memory, count)?).map_err(|_| OutOfMemory)?;
        Self::of(Records::Lent(slots))
    }

    fn of(records: Records<'m, T>) -> Result<Self, OutOfMemory> {
        let mut pool = Self { records, len: 0, free: 0, spare: 0 };
        pool.grow()?;
        Ok(pool)
    }

    /// Adds a zeroed record, which is not on the free list yet; its index.
    fn grow(&mut self) -> Result<u32, OutOfMemory> {
        let index = u32::try_from(self.len).map_err(|_| OutOfMemory)?;
        match &mut self.records {
            Records::Heap(list) => {
                if self.len == list.len() {
                    let longer = try_zeroed_vec(self.len + growth(self.len)).map_err(|()| OutOfMemory)?;
                    let shorter = mem::replace(list, longer);
                    list[..self.len].copy_from_slice(&shorter);
                }
            }
            Records::Lent(slots) => *slots.get_mut(self.len).ok_or(OutOfMemory)? = T::zeroed(),
        }
        self.len += 1;
        Ok(index)
    }

    /// Makes sure that the next `count` calls of [`take`](Self::take) succeed.
    #[inline]
    pub(super) fn ensure(&mut self, count: usize) -> Result<(), OutOfMemory> {
        while self.spare < count {
            let index = self.grow()?;
            self.put(index);
        }
        Ok(())
    }

    /// Returns as how many records the array has to be made longer first, if it has to be.
    pub(super) fn lacks(&self, count: usize) -> Option<usize> {
        let Records::Heap(list) = &self.records else { return None };
        let need = self.len + count.saturating_sub(self.spare);
        if need > list.len() { Some(need.max(self.len + growth(self.len))) } else { None }
    }

    /// Goes on in a `longer` array, which becomes the one that was.
    pub(super) fn move_to(&mut self, longer: &mut Vec<T>) {
        match &mut self.records {
            Records::Heap(list) if list.len() < longer.len() => {
                longer[..self.len].copy_from_slice(&list[..self.len]);
                mem::swap(list, longer);
            }
            _ => {}
        }
    }

    /// Takes a zeroed record. [`ensure`](Self::ensure) has been called for it.
    pub(super) fn take(&mut self) -> u32 {
        let index = self.free;
        debug_assert!(index != 0, "take without ensure");
        self.free = self[index].link();
        self.spare -= 1;
        self[index] = T::zeroed();
        index
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [T] {
        match &mut self.records {
            Records::Heap(list) => list,
            Records::Lent(slots) => slots,
        }
    }

    /// Returns two records, which are not the same: they are too large to copy one on the stack.
    pub(super) fn pair(&mut self, one: u32, other: u32) -> (&mut T, &mut T) {
        let (low, high) = self.all_mut().split_at_mut(one.max(other) as usize);
        let (low, high) = (&mut low[one.min(other) as usize], &mut high[0]);
        if one < other { (low, high) } else { (high, low) }
    }

    /// Puts a record back.
    pub(super) fn put(&mut self, index: u32) {
        let free = self.free;
        self[index].set_link(free);
        self.free = index;
        self.spare += 1;
    }

    /// Returns how many records are in use, the zeroed one not counted.
    pub(super) fn in_use(&self) -> usize {
        self.len - 1 - self.spare
    }

    /// Returns the bytes of the array, used or not.
    pub(super) fn bytes(&self) -> usize {
        match &self.records {
            Records::Heap(list) => list.capacity() * size_of::<T>(),
            Records::Lent(slots) => mem::size_of_val(*slots),
        }
    }
}

/// Returns by how many records an array of `len` records grows.
///
/// An eighth at a time instead of the usual doubling: a record is copied eight times over its life,
/// and at most an eighth of the memory is idle. The first are few: of many maps most are small.
fn growth(len: usize) -> usize {
    const FIRST: usize = 4;
    const LEAST: usize = 16;
    match len {
        0 => FIRST,
        1..LEAST => LEAST - len,
        _ => (len / 8).max(LEAST),
    }
}

impl<T: Linked> Index<u32> for Pool<'_, T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        // Pointer and length lie at the same place in both, so this is no branch.
        let all: &[T] = match &self.records {
            Records::Heap(list) => list,
            Records::Lent(slots) => slots,
        };
        &all[index as usize]
    }
}

impl<T: Linked> IndexMut<u32> for Pool<'_, T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.all_mut()[index as usize]
    }
}

/// Takes the bytes of `count` records of `T`, aligned, from the front of `memory`.
pub(crate) fn carve<'m, T>(memory: &mut &'m mut [u8], count: usize) -> Result<&'m mut [u8], OutOfMemory> {
    let skip = memory.as_ptr().align_offset(align_of::<T>());
    let bytes = count.checked_mul(size_of::<T>()).ok_or(OutOfMemory)?;
    if skip.checked_add(bytes).is_none_or(|need| need > memory.len()) {
        return Err(OutOfMemory);
    }
    let (_, aligned) = mem::take(memory).split_at_mut(skip);
    let (taken, rest) = aligned.split_at_mut(bytes);
    *memory = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for u64 {
        fn link(&self) -> u32 {
            *self as u32
        }
        fn set_link(&mut self, next: u32) {
            *self = u64::from(next);
        }
    }

    #[test]
    fn a_buffer_is_carved_aligned_and_never_overrun() {
        let mut bytes = [0xAAu8; 100];
        let mut memory = &mut bytes[1..];
        let mut pool = Pool::<u64>::in_buffer(&mut memory, 4).unwrap();
        assert!(pool.ensure(3).is_ok());
        assert_eq!(pool.ensure(4), Err(OutOfMemory));
        assert_eq!([0; 4], [0, pool.take(), pool.take(), pool.take()].map(|index| pool[index]));
        assert!(Pool::<u64>::in_buffer(&mut memory, 100).is_err());
        assert!(memory.len() >= 99 - 7 - 32, "a failed carve takes nothing");
    }
}
