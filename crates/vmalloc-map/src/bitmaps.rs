//! The bitmaps: what is known of every page, readable by every thread at any time.
//!
//! The holder of the map changes *where segments start*; a thread that frees or reuses an area
//! flips *whether it is busy*, by one atomic operation and without the map. This works because of
//! what is fixed while an area is in use:
//!
//! - its start, its end (the next start, of any segment), and the leaves of both, with the link
//!   between them: no start lies in between, so no leaf does (MAP-4);
//! - its records: they never move ([`RowArray`]), and a leaf in which an area starts is not given
//!   back.
//!
//! So the owner of an area can find its end without a lock, and of two threads that free it, one
//! learns that it came second: the flip tells what was there before.

mod lacks;
mod notes;
mod places;

pub use notes::Note;
use notes::{Noted, Notes};

use super::bitmap::{LEAF_SHIFT, WORDS};
use super::cell::Long;
use super::leaf::Leaf;
use super::metadata::{OutOfMemory, carve};
use super::row_array::{RowArray, cold_path};
use super::version::Version;
use crate::PageRange;
use crate::shared::{Lent, Once, Shared, place, try_zeroed};
use zerocopy::{FromBytes, FromZeros};

/// Leaves in a piece: 16 KiB, for 2^15 pages.
pub(crate) const LEAVES: usize = 128;
/// Groups for each leaf in use, at most, as far as pieces for groups are made. Where areas are
/// dense every group has a leaf.
const GROUPS_PER_LEAF: usize = 2;
/// Leaves of this number and above have nothing to do with a group.
const SPARSE: u32 = 1 << 31;

/// Where the leaf of a page is recorded:
///
/// ```text
///   group      0     1     2   …  127   128   …                     dense: the number of the leaf is 1 + that of the group,
///   dense    │ leaf│  –  │ leaf│ … ││ leaf│ …                        and finding it takes one look at a table
///   sparse   │ leaf│ leaf│ leaf│ …                                  sparse: numbers in turn, found by the tree
/// ```
///
/// In lent memory all leaves are sparse, and lie in one array.
#[derive(FromZeros)]
pub struct Bitmaps<'m> {
    /// The first page of the span.
    start: u64,
    /// The page behind its last.
    end: Long,
    /// The first page of group 0.
    base: u64,
    /// The leaf that is read where there is none.
    nowhere: Leaf,
    version: Version,
    sparse: Once<RowArray<'m, Leaf, LEAVES>>,
    /// The leaves, where memory is lent.
    lent: Lent<'m, Leaf>,
    dense: RowArray<'m, Leaf, LEAVES>,
    /// Notes of areas in dense leaves, once there are any: by pages from group 0 on.
    notes: Once<Notes<'m>>,
}

impl<'m> Bitmaps<'m> {
    /// Bytes that bitmaps in lent memory take beside their leaves, at most.
    pub(super) const LENT_BYTES: usize = size_of::<Self>() + align_of::<Self>();

    /// Sets the span of bitmaps that were just made.
    fn cover(&mut self, span: PageRange) {
        (self.start, self.end) = (span.start(), Long::new(span.end()));
        self.base = span.start() >> LEAF_SHIFT << LEAF_SHIFT;
    }

    /// Returns how many of the first leaves may lie in one piece.
    pub fn flat_leaves(span: PageRange) -> usize {
        let groups = ((span.end() - 1) >> LEAF_SHIFT) - (span.start() >> LEAF_SHIFT) + 1;
        groups.min(RowArray::<Leaf, LEAVES>::MOST_FLAT) as usize
    }

    /// Returns bitmaps on the heap, but for those of the first leaves.
    pub(super) fn on_heap(
        span: PageRange,
        flat: Option<Lent<'static, Leaf>>,
    ) -> Result<Shared<'m, Self>, OutOfMemory> {
        let mut bitmaps = try_zeroed::<Self>()?;
        bitmaps.cover(span);
        flat.into_iter().for_each(|flat| bitmaps.dense.flat = flat);
        Ok(Shared::boxed(bitmaps))
    }

    /// Returns bitmaps of at most `count` leaves at the front of `memory`, which shrinks.
    pub(super) fn in_buffer(
        span: PageRange,
        memory: &mut &'m mut [u8],
        count: usize,
    ) -> Result<Shared<'m, Self>, OutOfMemory> {
        let bitmaps = place::<Self>(carve::<Self>(memory, 1)?);
        bitmaps.cover(span);
        let leaves = carve::<Leaf>(memory, count)?;
        leaves.fill(0);
        bitmaps.lent = <[Leaf]>::mut_from_bytes(leaves).map_err(|_| OutOfMemory)?.into();
        Ok(Shared::lent(bitmaps))
    }

    #[inline(always)]
    pub(super) fn span(&self) -> PageRange {
        PageRange::of(self.start, self.end.get())
    }

    /// Lets the span end at page `end`. The holder of the map calls it.
    pub(super) fn set_end(&self, end: u64) {
        self.end.set(end);
    }

    /// Returns the leaf of that number, or one without starts if there is none.
    #[inline(always)]
    pub(super) fn leaf(&self, leaf: u32) -> &Leaf {
        self.dense.near((leaf as usize).wrapping_sub(1)).unwrap_or_else(|| self.sparse_leaf(leaf))
    }

    #[inline(never)]
    fn sparse_leaf(&self, leaf: u32) -> &Leaf {
        // Most that come here are sparse, on the heap.
        let near = self.sparse.get().and_then(|sparse| sparse.near_row(leaf.wrapping_sub(SPARSE) as usize));
        near.unwrap_or_else(|| self.far_leaf(leaf))
    }

    #[inline(never)]
    fn far_leaf(&self, leaf: u32) -> &Leaf {
        let found = match leaf {
            0 => None,
            SPARSE.. => {
                let index = (leaf - SPARSE) as usize;
                self.lent.get(index).or_else(|| self.sparse.get()?.get(index))
            }
            _ => self.dense.get(leaf as usize - 1),
        };
        found.unwrap_or(&self.nowhere)
    }

    pub(super) fn is_lent(&self) -> bool {
        self.lent.get(0).is_some()
    }

    /// Makes sure that there is a record for sparse leaf number `index`.
    pub(super) fn reach_sparse(&self, index: usize) -> Result<(), OutOfMemory> {
        match self.lent.get(index) {
            Some(_) => Ok(()),
            None if self.is_lent() => Err(OutOfMemory),
            None => self.sparse.get_or_try_init(try_zeroed)?.reach(index),
        }
    }

    /// Returns the group of a page. Pages before the span come out behind it.
    #[inline(always)]
    pub(super) fn group(&self, page: u64) -> u64 {
        page.wrapping_sub(self.base) >> LEAF_SHIFT
    }

    /// Returns number and record of the leaf that holds `page`, if it is where the group says, and
    /// one of the first.
    #[inline(always)]
    pub(super) fn dense(&self, page: u64) -> Option<(u32, &Leaf)> {
        let record = self.dense.near(usize::try_from(self.group(page)).ok()?)?;
        if record.is_of(page) { Some((self.group(page) as u32 + 1, record)) } else { None }
    }

    /// Takes a number for the leaf of `group`, with a record for it. There are `count` leaves
    /// already.
    #[cold]
    pub(super) fn number(&self, group: u64, count: usize, spare: &mut Spare) -> Result<u32, OutOfMemory> {
        if let Some((index, may_reach)) = self.dense_index(group, count) {
            if self.dense.get(index).is_some() || (may_reach && self.reach_dense(index).is_ok()) {
                return Ok(index as u32 + 1);
            }
        }
        if spare.free == 0 {
            self.reach_sparse(spare.last as usize)?;
            let leaf = SPARSE.checked_add(spare.last).ok_or(OutOfMemory)?;
            self.leaf(leaf).next.set(0);
            spare.free = leaf;
            spare.last += 1;
        }
        let leaf = spare.free;
        spare.free = self.leaf(leaf).next.get();
        Ok(leaf)
    }

    /// Takes a number back, whose leaf has no starts.
    pub(super) fn put(&self, leaf: u32, spare: &mut Spare) {
        let record = self.leaf(leaf);
        record.end();
        if leaf >= SPARSE {
            record.next.set(spare.free);
            spare.free = leaf;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let lent = self.lent.place()[1] * size_of::<Leaf>();
        let own = size_of_val(self) - size_of_val(&self.dense);
        let notes = self.notes.get().map_or(0, RowArray::bytes);
        own + lent + notes + self.dense.bytes() + self.sparse.get().map_or(0, RowArray::bytes)
    }

    /// Returns the record of the group of `page`, if it is found in one step. If an area starts
    /// there that can be told without the map, then in this record.
    #[inline(always)]
    pub fn home(&self, page: u64) -> Option<&Leaf> {
        self.dense.likely_flat(usize::try_from(self.group(page)).ok()?)
    }

    /// Returns what [`home`](Self::home) does for a map without a space.
    #[inline(always)]
    pub(super) fn home_alone(&self, page: u64) -> Option<&Leaf> {
        self.dense.near_row(usize::try_from(self.group(page)).ok()?)
    }

    /// Returns the record of the group, wherever it is, if there is a leaf there. An area that
    /// starts at `page` can then be freed and reused without the map for as long as it is one.
    #[inline]
    pub fn sure_home(&self, page: u64) -> Option<&Leaf> {
        let record = self.dense.get(usize::try_from(self.group(page)).ok()?);
        record.filter(|record| record.is_of(page))
    }

    /// Takes the busy area that starts at `page`, in `record`, out of use; `None` when there is
    /// none, or another thread has just done it.
    #[inline(always)]
    pub fn retire(&self, record: &Leaf, page: u64) -> Option<PageRange> {
        let bit = Leaf::bit(page);
        // MAP-3: only the start of an area is busy.
        if record.clear_busy(bit) { Some(PageRange::of(page, self.end_of(record, bit))) } else { None }
    }

    /// Returns true if a busy area starts at `page`, in `record`.
    pub fn is_busy(&self, record: &Leaf, page: u64) -> bool {
        record.is_busy(Leaf::bit(page))
    }

    /// Takes the busy area that starts at `page`, in `record`, out of use. Returns false if there
    /// was none.
    #[inline(always)]
    pub fn retire_start(&self, record: &Leaf, page: u64) -> bool {
        record.clear_busy(Leaf::bit(page))
    }

    /// Returns the pages of the area that starts at `page`, in `record`, less one, if it ends in
    /// this leaf or where the next begins to have starts; if no area starts there, any number.
    #[inline(always)]
    pub fn size_near(&self, record: &Leaf, page: u64) -> Option<u64> {
        let bit = Leaf::bit(page);
        let word = (bit >> 6) as usize & (WORDS - 1);
        let behind = record.starts(word).wrapping_shr(bit) >> 1;
        if behind != 0 {
            return Some(u64::from(behind.trailing_zeros()));
        }
        cold_path();
        if let Some(next) = record.first_start_from(word + 1) {
            return Some(u64::from(next - bit - 1));
        }
        let behind = self.dense.likely_flat(record.next.get().wrapping_sub(1) as usize)?;
        behind.first_start().map(|first| behind.page(first).wrapping_sub(page + 1))
    }

    /// Hands the retired area that starts at `page`, in `record`, out again; whether it was
    /// retired. The caller owns it.
    #[inline(always)]
    #[must_use]
    pub fn revive(&self, record: &Leaf, page: u64) -> bool {
        !record.set_busy(Leaf::bit(page))
    }

    /// Marks the bitmaps as changing. The holder of the map calls it, before and
    /// [after](Self::end_change).
    #[inline]
    pub fn begin_change(&self) {
        self.version.begin();
    }

    /// Marks the bitmaps as still again.
    #[inline]
    pub fn end_change(&self) {
        self.version.end();
    }

    /// Returns the busy area that holds `page`, without the map: `Err` when it was changing, or
    /// takes the map to tell.
    ///
    /// Where no leaf is noted an area has no note (NOTE-2), if none was entered between two looks.
    #[inline(always)]
    pub fn look(&self, page: u64) -> Result<Look, Unclear> {
        let home = self.home(page).or_else(|| self.sure_home(page)).ok_or(Unclear)?;
        let (noted, version) = (home.noted(), self.version.before());
        let found = self.find_in(home, page);
        if !self.version.is_still(version) {
            return Err(Unclear);
        }
        match found {
            Found::None => Ok(Look::Nothing),
            Found::Unsure => Err(Unclear),
            Found::Area(area, first) if core::ptr::eq(first, home) => {
                self.look_at(area, home, noted, version)
            }
            Found::Area(area, first) => self.look_across(area, first, version),
        }
    }

    /// Returns what is known of `area`, which starts in `first` and was busy when the version was
    /// `version`: whether there are notes has not been read.
    #[inline(always)]
    fn look_across(&self, area: PageRange, first: &Leaf, version: u64) -> Result<Look, Unclear> {
        let (noted, again) = (first.noted(), self.version.before());
        let is_busy = first.is_busy(Leaf::bit(area.start()));
        let is_known = is_busy && again == version && self.version.is_still(version);
        // A leaf that is not dense has no places for notes.
        let is_known = is_known && (!noted.is_noted() || self.sure_home(area.start()).is_some());
        if is_known { self.look_at(area, first, noted, version) } else { Err(Unclear) }
    }

    /// Returns what is known of `area`, which starts in `first` and was busy after `before` was
    /// read there.
    #[inline(always)]
    fn look_at(&self, area: PageRange, first: &Leaf, before: Noted, version: u64) -> Result<Look, Unclear> {
        if before.is_noted() {
            return self.look_noted(area, first, before, version);
        }
        if first.noted() == before { Ok(Look::Plain(area)) } else { Err(Unclear) }
    }

    /// Returns the busy area that holds `page` as [`look`](Self::look) does, if it starts and ends
    /// close by and no area near it has a note. `None` tells nothing.
    #[inline(always)]
    pub fn look_near(&self, page: u64) -> Option<PageRange> {
        let home = self.home(page)?;
        let (noted, version) = (home.noted(), self.version.before());
        let area = home.area_near(page)?;
        let is_plain = self.version.is_still(version) && !noted.is_noted() && home.noted() == noted;
        is_plain.then_some(area)
    }

    /// Returns the end of the segment that starts at `bit` of `record`.
    #[inline(always)]
    pub(super) fn end_of(&self, record: &Leaf, bit: u32) -> u64 {
        match record.next_start(bit) {
            Some(next) => record.page(next),
            None => self.first_start_behind(record),
        }
    }

    /// Returns the first start in the leaves behind `record`, or the end of the span.
    #[inline]
    pub(super) fn first_start_behind(&self, record: &Leaf) -> u64 {
        let next = self.leaf(record.next.get());
        match next.first_start() {
            Some(bit) => next.page(bit),
            None => self.end.get(),
        }
    }

    /// Returns the first start in the words behind `word` of `record`, or in the leaves behind it.
    #[inline(always)]
    pub(super) fn end_beyond(&self, record: &Leaf, word: usize) -> u64 {
        for later in word + 1..WORDS {
            let starts = record.starts(later);
            if starts != 0 {
                return record.page(later as u32 * 64 + starts.trailing_zeros());
            }
        }
        self.first_start_behind(record)
    }

    /// Returns the busy area that holds `page`, if `record`, where its group says, is the leaf of
    /// the page. Else it takes the map to tell.
    #[inline(always)]
    pub(super) fn find_in<'a>(&'a self, record: &'a Leaf, page: u64) -> Found<'a> {
        let (bit, first) = (Leaf::bit(page), page >> LEAF_SHIFT << LEAF_SHIFT);
        let (home, start) = match record.start_at_or_before(bit) {
            Some(start) => (record, first | u64::from(start)),
            None => {
                let prev = self.leaf(record.prev.get());
                match prev.last_start() {
                    Some(start) if record.is_of(page) => (prev, prev.page(start)),
                    _ => return Found::Unsure,
                }
            }
        };
        let end = match record.next_start(bit) {
            Some(end) => first | u64::from(end),
            None => self.first_start_behind(record),
        };
        // A page behind the span may lie in its last leaf. And what changes meanwhile may tell
        // anything.
        let holds = (start..end).contains(&page) && home.is_busy(Leaf::bit(start));
        if holds { Found::Area(PageRange::of(start, end), home) } else { Found::None }
    }
}

/// Numbers of far leaves that are not in use, linked through their records.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// The first; 0 = none.
    free: u32,
    /// How many there ever were.
    last: u32,
}

/// The bitmaps were changing, or do not tell without the map.
pub struct Unclear;

/// An answer of the bitmaps about a page, without the map. All of it was true at one moment.
pub enum Look {
    /// No busy area holds the page.
    Nothing,
    /// This one does, and has no note.
    Plain(PageRange),
    /// This one does, and has this note.
    Noted(PageRange, Note),
}

/// An answer of the bitmaps alone about a page.
pub(crate) enum Found<'a> {
    /// It lies in this busy area, which starts in this leaf.
    Area(PageRange, &'a Leaf),
    /// It lies in no busy area.
    None,
    /// The map has to be asked.
    Unsure,
}

#[cfg(all(test, loom))]
mod models;
