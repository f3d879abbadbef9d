//! Arrays that grow while they are read: rows of zeroed records that never move.
//!
//! ```text
//!   flat   │ record│ record│ record│ …          the first records in one piece, where a platform lends that
//!   near   │ row │ row │   –   │ …          the first rows: one look at a table
//!   far    │ row │   –   │ row │ …          the next ones: one look at a table that is made when it is needed
//!   beyond │ table │   –   │ …                  all others: tables as large as the far one
//!              └─► │ row │   –   │ …
//! ```

use super::cell::Long;
use crate::shared::{Lent, Once, OutOfMemory, try_zeroed};
use crate::sync::size;
use core::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A record that may be read while it is written: made of atomics, and valid when zeroed.
pub trait Record: FromBytes + IntoBytes + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Send + Sync + 'static> Record for T {}

/// Tells the compiler that this path is seldom taken. `core::hint::cold_path` needs Rust 1.95.
#[cold]
#[inline]
pub(crate) const fn cold_path() {}

/// Rows in a table. The first 1024 are found in one step: 131,072 leaves, that is 128 GiB of
/// small areas in pages of 4 KiB, for 8 KiB of table.
pub(crate) const TABLE: usize = size(1024, 16) as usize;
/// Rows in the far table, among them places for those of the near one: 1 TiB, for 64 KiB.
const FAR: usize = size(1 << 13, 64) as usize;

type Table<T, const SIZE: usize, const LEN: usize> = [Once<[T; SIZE]>; LEN];
/// As many such tables: in all, 2^26 rows.
type Beyond<T, const SIZE: usize> = [Once<Table<T, SIZE, FAR>>; FAR];

/// An array of rows of `SIZE` records. Zeros are a valid one: none yet.
#[derive(FromZeros)]
pub struct RowArray<'m, T, const SIZE: usize> {
    far: Once<Table<T, SIZE, FAR>>,
    beyond: Once<Beyond<T, SIZE>>,
    near: Table<T, SIZE, TABLE>,
    /// The records of the first rows, or none. They stand in for those of `near`.
    pub(crate) flat: Lent<'m, T>,
    /// The end of those that are in use. One thread at a time writes it.
    flat_end: Long,
}

impl<T: Record, const SIZE: usize> RowArray<'_, T, SIZE> {
    /// The places of the far and the near table. How many records a row has, and rows the near
    /// table and the far one. The place of the list of all other tables, as many as the far one has
    /// rows: for an outline.
    pub const FIELDS: [usize; 6] =
        [offset_of!(Self, far), offset_of!(Self, near), SIZE, TABLE, FAR, offset_of!(Self, beyond)];

    /// Returns the address of the first records, and how many lie in one piece.
    pub fn flat_part(&self) -> [usize; 2] {
        self.flat.place()
    }

    /// The most records that may lie in one piece.
    pub const MOST_FLAT: u64 = (TABLE * SIZE) as u64;

    /// Returns the record at `index`, if its row is there and one of the first, which take fewer
    /// steps. O(1).
    #[inline(always)]
    pub fn near(&self, index: usize) -> Option<&T> {
        if let Some(record) = self.flat.get(index) {
            return Some(record);
        }
        self.near_row(index)
    }

    /// Returns the record at `index`, if its row is there and found in one step. For callers
    /// whose records are likely to lie in one piece. O(1).
    #[inline(always)]
    pub fn likely_flat(&self, index: usize) -> Option<&T> {
        if let Some(record) = self.flat.get(index) {
            return Some(record);
        }
        cold_path();
        let far = self.far.get().and_then(|far| far.get(index / SIZE)?.get());
        far.map(|row| &row[index % SIZE]).or_else(|| self.near_row(index))
    }

    /// Returns what [`near`](Self::near) does where no records lie in one piece.
    #[inline(always)]
    pub fn near_row(&self, index: usize) -> Option<&T> {
        Some(&self.near.get(index / SIZE)?.get()?[index % SIZE])
    }

    /// Returns the record at `index`, if its row is there. O(1).
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.flat.get(index).or_else(|| self.in_row(index))
    }

    #[inline(never)]
    fn in_row(&self, index: usize) -> Option<&T> {
        let row = match index / SIZE {
            row @ ..TABLE => &self.near[row],
            row @ ..FAR => &self.far.get()?[row],
            row => &self.beyond.get()?.get(row / FAR)?.get()?[row % FAR],
        };
        Some(&row.get()?[index % SIZE])
    }

    /// Makes sure that the row of `index` is there. Nothing is changed where it fails. One thread
    /// at a time calls it for a record that lies in one piece with others.
    #[cold]
    pub fn reach(&self, index: usize) -> Result<(), OutOfMemory> {
        if self.flat.get(index).is_some() {
            self.flat_end.set(self.flat_end.get().max(index as u64 + 1));
            return Ok(());
        }
        let place = match index / SIZE {
            row @ ..TABLE => &self.near[row],
            row @ ..FAR => &self.far.get_or_try_init(try_zeroed)?[row],
            row => {
                let beyond = self.beyond.get_or_try_init(try_zeroed)?;
                &beyond.get(row / FAR).ok_or(OutOfMemory)?.get_or_try_init(try_zeroed)?[row % FAR]
            }
        };
        place.get_or_try_init(try_zeroed).map(|_| ())
    }

    /// Returns the bytes of the array and its rows.
    pub fn bytes(&self) -> usize {
        let beyond = self.beyond.get();
        let far = || self.far.get().into_iter().chain(beyond.into_iter().flatten().filter_map(Once::get));
        let rows = far().flatten().chain(&self.near);
        let rows = rows.filter(|row| row.get().is_some()).count() * size_of::<[T; SIZE]>();
        let tables = beyond.map_or(0, size_of_val) + far().map(size_of_val).sum::<usize>();
        size_of_val(self) + tables + rows + self.flat_end.get() as usize * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::ptr;
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Relaxed;

    const SIZE: usize = 8;

    /// Both kinds of array answer alike, around the end of the flat piece as well; a record is one,
    /// however it is found.
    #[test]
    fn flat_arrays_answer_as_chunks_do() {
        for is_flat in [false, true] {
            let mut rows = try_zeroed::<RowArray<'static, AtomicU64, SIZE>>().unwrap();
            if is_flat {
                rows.flat = Vec::from_iter((0..3 * SIZE).map(|_| AtomicU64::new(0))).leak().into();
            }
            let (far, beyond) = (SIZE * TABLE, SIZE * FAR);
            let reached = [0, 5, 23, 24, far - 1, far, far + SIZE, beyond - 1, beyond, 3 * beyond];
            assert!(is_flat || rows.get(0).is_none(), "nothing is there yet");
            for (value, &index) in (1..).zip(&reached) {
                rows.reach(index).unwrap();
                rows.get(index).unwrap().store(value, Relaxed);
            }
            for (value, &index) in (1..).zip(&reached) {
                let record = rows.get(index).unwrap();
                assert_eq!(record.load(Relaxed), value, "record {index}");
                let near = rows.near(index);
                assert_eq!(near.is_some(), index < far, "record {index}");
                let likely = rows.likely_flat(index);
                assert_eq!(likely.is_some(), index < beyond, "record {index}");
                let found = near.into_iter().chain(likely);
                assert!(found.into_iter().all(|found| ptr::eq(found, record)), "record {index}");
            }
            assert!(
                rows.get(2 * far).is_none()
                    && rows.get(2 * beyond).is_none()
                    && rows.near(5 * SIZE).is_none()
            );
            let with_records = rows.bytes();
            rows.flat_end = Long::new(0);
            let own = 24 * size_of::<AtomicU64>();
            assert_eq!(with_records - rows.bytes(), if is_flat { own } else { 0 });
        }
    }
}
