//! The segments of a space: its leaves in address order, and the bits in them.

use crate::containers::in_rows;
use crate::error::InspectError;
use crate::memory::{Memory, half, nth, word};
use vmalloc::Outline;

/// A place where a segment starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) page: u64,
    pub(crate) is_area: bool,
    pub(crate) is_busy: bool,
}

/// Pages of a leaf: three bitmaps of four words.
const LEAF_PAGES: u64 = 256;
/// The number of the first leaf that has nothing to do with its place.
const SPARSE: u32 = 1 << 31;
/// The most leaves that are read, and the most segments: a leaf of 112 bytes may have 256.
const MOST_LEAVES: usize = 1 << 24;
const MOST_STARTS: usize = 1 << 25;

/// The segments of a space at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Walk {
    /// By page; the first is the first page of the span.
    pub(crate) starts: Vec<Start>,
    /// The page behind the last.
    pub(crate) end: u64,
}

/// Reads all leaves once. They may have been changing.
pub(crate) fn walk(memory: &Memory<'_>, outline: &Outline) -> Result<Walk, InspectError> {
    let [first, base] = outline.first_pages;
    let end = memory.word(outline.bitmaps[0])?;
    if first >= end || base > first {
        return Err(InspectError::damaged("the bounds of its span"));
    }
    let leaves = Leaves { memory, outline };
    let mut walk = Walk { starts: Vec::new(), end };
    let (mut leaf, mut floor) = (leaves.first(base)?, base);
    for _ in 0..MOST_LEAVES {
        let page = word(&leaf, outline.leaf[3]).wrapping_sub(1);
        // Upwards: so the walk ends.
        if page < floor || page >= end || page % LEAF_PAGES != 0 {
            return Err(InspectError::damaged("a leaf lies where none can follow"));
        }
        starts(&leaf, page, outline, &mut walk.starts);
        if walk.starts.len() > MOST_STARTS {
            return Err(InspectError::TooLarge { limit: (MOST_STARTS * size_of::<Start>()) as u64 });
        }
        floor = page.saturating_add(LEAF_PAGES);
        match leaves.get(half(&leaf, outline.leaf[4]))? {
            Some(next) => leaf = next,
            None => return checked(walk, first),
        }
    }
    Err(InspectError::damaged("it has too many leaves"))
}

fn checked(walk: Walk, first: u64) -> Result<Walk, InspectError> {
    let is_first = walk.starts.first().is_some_and(|start| start.page == first);
    let is_within = walk.starts.last().is_some_and(|start| start.page < walk.end);
    if is_first && is_within { Ok(walk) } else { Err(InspectError::damaged("its first or last segment")) }
}

/// Appends what starts in a leaf.
fn starts(leaf: &[u8], page: u64, outline: &Outline, all: &mut Vec<Start>) {
    let [starts, used, busy, ..] = outline.leaf;
    for nth in 0..LEAF_PAGES / 64 {
        let bits = |bitmap: u64| word(leaf, bitmap + 8 * nth);
        let (mut left, used, busy) = (bits(starts), bits(used), bits(busy));
        while left != 0 {
            let bit = left.trailing_zeros();
            let is = |word: u64| word >> bit & 1 != 0;
            let page = page + 64 * nth + u64::from(bit);
            all.push(Start { page, is_area: is(used), is_busy: is(used) && is(busy) });
            left &= left - 1;
        }
    }
}

/// The leaves by their numbers.
struct Leaves<'a, 's> {
    memory: &'a Memory<'s>,
    outline: &'a Outline,
}

impl Leaves<'_, '_> {
    /// Returns the first leaf of the span, which always has one: the first dense one, or, where
    /// there was no memory for that, the first sparse one.
    fn first(&self, base: u64) -> Result<Vec<u8>, InspectError> {
        for number in [1, SPARSE] {
            match self.get(number) {
                Ok(Some(leaf)) if word(&leaf, self.outline.leaf[3]) == base.wrapping_add(1) => {
                    return Ok(leaf);
                }
                _ => {}
            }
        }
        Err(InspectError::damaged("its first leaf is not there"))
    }

    /// Returns leaf `number`; `None` for 0, which is none.
    fn get(&self, number: u32) -> Result<Option<Vec<u8>>, InspectError> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        let [_, _, sparse, dense, flat, flat_len] = self.outline.bitmaps;
        let size = self.outline.leaf[5];
        let leaf = if number >= SPARSE {
            self.in_chunks(self.memory.word(sparse)?, u64::from(number - SPARSE))?
        } else if u64::from(index) < flat_len {
            nth(flat, u64::from(index), size)?
        } else {
            self.in_chunks(dense, u64::from(index))?
        };
        self.memory.bytes(leaf, size).map(Some)
    }

    /// Returns the address of leaf `index` of an array.
    fn in_chunks(&self, array: u64, index: u64) -> Result<u64, InspectError> {
        let found = in_rows(self.memory, &self.outline.rows, array, index, self.outline.leaf[5])?;
        found.ok_or(InspectError::damaged("a leaf is linked that is not there"))
    }
}
