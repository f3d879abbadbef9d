//! Lists of the standard library, whose layout a specimen with known content tells, and arrays of
//! rows.

use crate::error::InspectError;
use crate::memory::{Memory, at, nth};
use vmalloc::Outline;

/// Places of the words of a list (`Vec`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListLayout {
    pointer: u64,
    len: u64,
}

/// A list: its first element, and how many it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) first: u64,
    pub(crate) len: u64,
}

impl ListLayout {
    pub(crate) const BYTES: u64 = 24;

    /// Returns the layout that the specimen has; `None` if it is not told by that.
    pub(crate) fn find(memory: &Memory<'_>, outline: &Outline) -> Option<Self> {
        let [specimen, pointer, len, capacity] = outline.list;
        let words: [u64; Self::BYTES as usize / 8] = memory.words(specimen).ok()?;
        let place = |wanted| only(&words, |word| word == wanted);
        place(capacity)?;
        Some(Self { pointer: place(pointer)?, len: place(len)? })
    }

    /// Reads a list of at most `most` elements.
    pub(crate) fn read(&self, memory: &Memory<'_>, list: u64, most: u64) -> Result<List, InspectError> {
        let (first, len) = (memory.word(at(list, self.pointer)?)?, memory.word(at(list, self.len)?)?);
        if len > most {
            return Err(InspectError::damaged("a list is longer than it can be"));
        }
        Ok(List { first, len })
    }
}

/// Returns the place of the only word that `is_it`.
fn only(words: &[u64], is_it: impl Fn(u64) -> bool) -> Option<u64> {
    let mut places = words.iter().zip((0..).step_by(8)).filter(|(word, _)| is_it(**word));
    let (_, place) = places.next()?;
    if places.next().is_none() { Some(place) } else { None }
}

/// Returns the address of record `index` of an array of rows, whose places these are; `None` where
/// there is no such row.
pub(crate) fn in_rows(
    memory: &Memory<'_>,
    places: &[u64; 6],
    array: u64,
    index: u64,
    size: u64,
) -> Result<Option<u64>, InspectError> {
    let [far, near, of_row, first, of_table, beyond] = *places;
    let number = index / of_row;
    let in_table = |table: u64, number: u64| match table {
        0 => Ok(0),
        table => memory.word(nth(table, number, 8)?),
    };
    let row = match number / of_table {
        0 if number < first => in_table(at(array, near)?, number)?,
        0 => in_table(memory.word(at(array, far)?)?, number)?,
        table if table < of_table => {
            let tables = memory.word(at(array, beyond)?)?;
            in_table(in_table(tables, table)?, number % of_table)?
        }
        _ => return Err(InspectError::damaged("the number of a record")),
    };
    if row == 0 { Ok(None) } else { nth(row, index % of_row, size).map(Some) }
}
