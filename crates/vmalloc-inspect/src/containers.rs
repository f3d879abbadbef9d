//! Lists and tables of other crates: their layouts, as specimens with known content tell them.

use crate::error::InspectError;
use crate::memory::{Memory, at, byte, nth, word};
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
    /// Returns the layout that the specimen has; `None` if it is not told by that.
    pub(crate) fn find(memory: &Memory<'_>, outline: &Outline) -> Option<Self> {
        let [specimen, pointer, len, capacity] = outline.list;
        let words: [u64; 3] = memory.words(specimen).ok()?;
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

/// Places of the words of a table: one of hashbrown's, whose entries lie backwards before a byte
/// for each, which is below 0x80 where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableLayout {
    control: u64,
    mask: u64,
    entry_bytes: u64,
}

/// The most entries of a table.
const MOST_ENTRIES: u64 = 1 << 26;

impl TableLayout {
    /// Returns the layout that the specimen has; `None` if it is not told by that.
    pub(crate) fn find(memory: &Memory<'_>, outline: &Outline) -> Option<Self> {
        let [specimen, entries, key, entry] = outline.table;
        let (entry_bytes, key_place) = (outline.entry[0], outline.entry[1]);
        let bytes = memory.bytes(specimen, outline.containers[1]).ok()?;
        let words: Vec<_> = (0..bytes.len() as u64 / 8).map(|nth| word(&bytes, 8 * nth)).collect();
        let buckets = entries.checked_mul(8)?.div_ceil(7).checked_next_power_of_two()?;
        let mask = only(&words, |word| word == buckets - 1)?;
        let has_entry = |control: u64| {
            let distance = control.checked_sub(entry).filter(|_| entry_bytes != 0);
            let bucket =
                distance.filter(|distance| distance % entry_bytes == 0).map(|bytes| bytes / entry_bytes);
            let is_full = |bucket: u64| {
                memory.bytes(control.checked_add(bucket - 1)?, 1).ok().map(|full| full[0] < 0x80)
            };
            bucket.filter(|bucket| (1..=buckets).contains(bucket)).and_then(is_full) == Some(true)
        };
        let layout = Self { control: only(&words, has_entry)?, mask, entry_bytes };
        // The keys that it is known to have are found, and no others.
        let mut keys = Vec::new();
        let enter = |entry: &[u8]| (keys.len() as u64 <= entries).then(|| keys.push(word(entry, key_place)));
        layout.read(memory, specimen, enter).ok()?;
        keys.sort_unstable();
        let expected = (0..entries).map(|nth| key.wrapping_add(nth));
        if keys.into_iter().eq(expected) { Some(layout) } else { None }
    }

    /// Reads the entries of a table, one after the other: none is kept here.
    pub(crate) fn read<R>(
        &self,
        memory: &Memory<'_>,
        table: u64,
        mut each: impl FnMut(&[u8]) -> R,
    ) -> Result<(), InspectError> {
        let (control, mask) = (memory.word(at(table, self.control)?)?, memory.word(at(table, self.mask)?)?);
        let buckets = mask.checked_add(1).filter(|buckets| buckets.is_power_of_two());
        let buckets = buckets.filter(|buckets| *buckets <= MOST_ENTRIES);
        let buckets = buckets.ok_or(InspectError::damaged("the size of a table"))?;
        if mask == 0 {
            return Ok(());
        }
        let full = memory.bytes(control, buckets)?;
        let is_full = |bucket: &u64| byte(&full, *bucket) < 0x80;
        for bucket in (0..buckets).filter(is_full) {
            let back = nth(self.entry_bytes, bucket, self.entry_bytes)?;
            let entry = control.checked_sub(back).ok_or(InspectError::damaged("the place of a table"))?;
            each(&memory.bytes(entry, self.entry_bytes)?);
        }
        Ok(())
    }
}
