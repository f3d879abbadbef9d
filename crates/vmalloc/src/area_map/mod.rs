//! The area map: every free range and every area of a space, in one structure.
//!
//! # Terms
//! The span is cut into **segments**: a *free range*, a *busy* area (handed out), or a *retired*
//! area (freed, but not reusable yet, or kept for reuse). Segments follow each other without gaps,
//! so a segment needs no record of its own: where it starts is a bit, where it ends is the next
//! such bit, and its state is two more bits.
//!
//! ```text
//!            ┌──────────────────────── Bitmaps, Directory ────────────────┐  page → leaf, mostly one load
//!            ▼                       ▼                                   ▼
//!   …│ Leaf: 256 pages │◄────►│ Leaf: 256 pages │◄─── no leaf ───►│ Leaf: 256 pages │…   boundary bitmaps
//!            ▲                       ▲        where no segment starts    ▲
//!            └───────────────── Tree of Summaries ───────────────────────────┘  lowest fit, O(log n)
//! ```
//!
//! - [`metadata`], [`chunks`]: where records live: on the heap, or in memory that a caller lends.
//! - [`leaf`]: the bits, and what can be read off one leaf. [`bitmaps`]: all leaves, for readers
//!   without the map.
//! - [`directory`]: from an address to its leaf, where leaves are sparse.
//! - [`scan`]: the free ranges of a leaf, one by one or, where there are many, all at once
//!   ([`runs`]).
//! - [`summary`]: what a set of free ranges can take, for every alignment at once.
//! - [`tree`]: summaries of all leaves under a wide tree.
//! - [`search`], [`highest`]: placement. [`congruent`]: that of several areas at once.
//! - [`place`], [`coalesce`]: allocation and freeing. [`cut`]: areas cut and grown where they are,
//!   and the span.
//! - [`quarantine`]: areas whose pages come back for a token. [`traits`]: printed, cloned,
//!   compared, written. [`verify`]: the invariants below, checked.
//!
//! # Invariants
//! - **MAP-1** A segment starts at the first page of the span.
//! - **MAP-2** No free range is followed by a free range: freeing coalesces at once.
//! - **MAP-3** A `used` bit stands only at a start, a `busy` bit only at a used start.
//! - **MAP-4** A leaf exists if and only if a segment starts in it; leaves are linked in address
//!   order, and the directory knows exactly these.
//! - **MAP-5** The tree holds the leaves in that order, and the summary beside a leaf is exactly
//!   that of the free ranges that *start* in it.
//! - **MAP-6** `free_pages` is the sum of the free ranges, `areas` the number of areas.
//!
//! # Cost
//! For n leaves (at most one for each segment): placement, freeing and resizing are O(log n) for
//! every alignment up to 2^13 pages. Look-up is one load where leaves are dense from the start of
//! the span on; elsewhere, and deep inside an area of more than 256 pages, it is a way down through
//! at most 19 nodes, and fewer where leaves are few. Memory follows the areas, not the span: at
//! most 32 bytes each for 10,000 and more areas of 1…64 pages in a steady state, at most 512 for an
//! isolated huge area (`cargo test -p vmalloc-model memory::`).
//!
//! Tree and directory nodes are in arrays that grow by an eighth, which now and then makes one
//! allocation copy one of them. Leaves never move.
//!
//! # Sources
//! Boundary tags are Knuth's (1968), placed outside the memory as a kernel must; lowest fit by the
//! largest size in a subtree is the augmented tree that Linux uses since 2019; constraints follow
//! Bonwick's vmem (2001).
#![forbid(unsafe_code)]

mod bitmap;
mod bitmaps;
mod cell;
mod chunks;
mod coalesce;
mod congruent;
mod cut;
mod directory;
mod highest;
mod leaf;
mod marks;
mod metadata;
mod place;
mod quarantine;
mod runs;
mod scan;
mod search;
mod summary;
mod traits;
mod tree;
mod verify;
mod version;

pub(crate) use bitmap::LEAF_SHIFT;
pub(crate) use bitmaps::{Bitmaps, Look};
pub(crate) use chunks::Chunks;
pub use cut::ResizeError;
pub(crate) use leaf::{ANNOTATION_PAGES, Leaf};
pub(crate) use metadata::OutOfMemory;
pub use quarantine::Quarantined;
pub use verify::Violation;

use crate::addr::PageRange;
use crate::error::{AllocError, FreeError};
use crate::shared::{Lent, Shared};
use bitmap::LEAF_PAGES;
use bitmaps::{Found, Spare};
use core::num::NonZero;
use directory::Directory;
use metadata::Pool;
use summary::Summary;
use tree::Tree;

/// The state of a segment of the space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum State {
    /// Free: may be handed out.
    Free,
    /// Freed, but not reusable yet (lazy), or kept for reuse (pooled).
    Retired,
    /// Handed out.
    Busy,
}

/// A segment: a free range or an area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Its pages.
    pub range: PageRange,
    /// Its state.
    pub state: State,
}

/// The free ranges and areas of one space. See the module's documentation.
///
/// Its records are on the heap, or in memory that was lent to it for `'m`.
pub struct AreaMap<'m> {
    bitmaps: Shared<'m, Bitmaps<'m>>,
    spare: Spare,
    directory: Directory<'m>,
    tree: Tree<'m>,
    free_pages: u64,
    /// Between two counts that change together: side by side, compilers change them as one vector,
    /// which takes three instructions more.
    leaf_count: usize,
    /// Areas, busy or retired.
    areas: u64,
    /// The map's number in its tokens of quarantine; 0 as long as it gave none.
    token_map: usize,
    steps: Steps,
}

impl<'m> AreaMap<'m> {
    /// Returns an empty map over `span`, with its records on the heap.
    ///
    /// # Errors
    /// [`AllocError::Metadata`].
    pub fn new(span: PageRange) -> Result<Self, AllocError> {
        Self::on_heap(span, Lent::default())
    }

    /// Returns an empty map over `span`, whose first leaves are in memory that was lent.
    pub(crate) fn on_heap(span: PageRange, flat: Lent<Leaf>) -> Result<Self, AllocError> {
        Self::assemble(Bitmaps::on_heap(span, flat)?, Pool::on_heap()?, Pool::on_heap()?)
    }

    /// Returns an empty map over `span`, with its records in `memory`: it works before a heap
    /// exists.
    ///
    /// The memory is divided once: 14 KiB, whatever the span, and 350 bytes for each leaf, that is,
    /// for each 256 aligned pages in which segments start. When it is used up, allocations that
    /// need another leaf fail with [`AllocError::Metadata`].
    ///
    /// # Errors
    /// [`AllocError::Metadata`] when the memory is too small even for an empty map.
    pub fn in_buffer(span: PageRange, mut memory: &'m mut [u8]) -> Result<Self, AllocError> {
        // For each four leaves a tree node (on average they hold more than six) and two of the
        // directory (leaves at random places need no more, dense ones far less). The constants
        // cover record 0, the first leaf, the roots, a split to the top, and what the next
        // insertion wants to find.
        let per_four = 4 * size_of::<Leaf>() + size_of::<tree::Node>() + 2 * size_of::<directory::Fan>();
        let fixed = Bitmaps::LENT_BYTES
            + 2 * size_of::<Leaf>()
            + 6 * size_of::<tree::Node>()
            + 3 * size_of::<directory::Fan>()
            + 64;
        let fours = memory.len().saturating_sub(fixed) / per_four;
        let bitmaps = Bitmaps::in_buffer(span, &mut memory, 2 + 4 * fours)?;
        let fans = Pool::in_buffer(&mut memory, 3 + 2 * fours)?;
        Self::assemble(bitmaps, fans, Pool::in_buffer(&mut memory, 6 + fours)?)
    }

    /// Returns the bitmaps, for freeing and reusing areas without the map.
    pub(crate) fn bitmaps(&self) -> &Shared<'m, Bitmaps<'m>> {
        &self.bitmaps
    }

    fn assemble(
        bitmaps: Shared<'m, Bitmaps<'m>>,
        fans: Pool<'m, directory::Fan>,
        nodes: Pool<'m, tree::Node>,
    ) -> Result<Self, AllocError> {
        let mut directory = Directory::new(bitmaps.span(), fans)?;
        let (span, mut spare) = (bitmaps.span(), Spare::default());
        directory.ensure(1)?;
        let first = bitmaps.number(bitmaps.group(span.start()), 0, &mut spare)?;
        let record = bitmaps.leaf(first);
        record.begin(0, 0, span.start() & !u64::from(LEAF_PAGES - 1));
        record.start_free(Leaf::bit(span.start()));
        directory.insert(first, &bitmaps);
        let mut tree = Tree::new(nodes, first, &bitmaps)?;
        tree.set(record.up.get(), Summary::of(span.start(), span.end()));
        let free_pages = span.len();
        let steps = Steps::default();
        Ok(Self { bitmaps, spare, leaf_count: 1, directory, tree, free_pages, areas: 0, token_map: 0, steps })
    }

    /// Returns the pages that the map covers.
    #[inline]
    #[must_use]
    pub fn span(&self) -> PageRange {
        self.bitmaps.span()
    }

    /// Returns how many pages are in free ranges.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Returns how many areas there are, busy or retired.
    #[must_use]
    pub fn area_count(&self) -> u64 {
        self.areas
    }

    /// Returns the pages of the largest free range, or 0 when there is none.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.tree.total().pages(0)
    }

    /// Returns true if nothing is allocated: one free range covers the span.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.largest_free() == self.span().len()
    }

    /// Returns the segment that holds `page`, anywhere inside it, or `None` outside the span. Cost:
    /// see the module's documentation.
    #[inline]
    #[must_use]
    pub fn segment(&self, page: u64) -> Option<Segment> {
        let (leaf, bit) = self.locate(page)?;
        let record = self.bitmaps.leaf(leaf);
        let state = match (record.is_used(bit), record.is_busy(bit)) {
            (false, _) => State::Free,
            (true, false) => State::Retired,
            (true, true) => State::Busy,
        };
        Some(Segment { range: PageRange::of(record.page(bit), self.bitmaps.end_of(record, bit)), state })
    }

    /// Returns the busy area that holds `page`, anywhere inside it. Cost as
    /// [`segment`](Self::segment).
    #[inline(always)]
    #[must_use]
    pub fn find(&self, page: u64) -> Option<PageRange> {
        let Some(record) = self.bitmaps.home_alone(page) else { return self.find_slow(page) };
        match record.area_near(page) {
            Some(area) => Some(area),
            None => self.find_far(record, page).map(|(start, end)| PageRange::of(start, end.get())),
        }
    }

    /// Returns start and end, which two registers hold.
    #[inline(never)]
    fn find_far(&self, record: &Leaf, page: u64) -> Option<(u64, NonZero<u64>)> {
        let area = match self.bitmaps.find_in(record, page) {
            Found::Area(area, _) => Some(area),
            Found::None => None,
            Found::Unsure => self.find_slow(page),
        }?;
        Some((area.start(), NonZero::new(area.end())?))
    }

    /// Returns the busy area that holds a page far from the start of the span, or in no leaf.
    #[inline(never)]
    fn find_slow(&self, page: u64) -> Option<PageRange> {
        self.segment(page).filter(|segment| segment.state == State::Busy).map(|segment| segment.range)
    }

    /// Returns all segments, in address order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments_from(self.span().start())
    }

    /// Returns the segments from the one that holds `page` on, in address order: none where `page`
    /// is outside the span.
    pub fn segments_from(&self, page: u64) -> impl Iterator<Item = Segment> + '_ {
        core::iter::successors(self.segment(page), |segment| self.segment(segment.range.end()))
    }

    /// Returns the areas, busy or retired, in address order.
    pub fn areas(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments().filter(|segment| segment.state != State::Free)
    }

    /// Returns the free ranges, in address order.
    pub fn free_ranges(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.segments().filter(|segment| segment.state == State::Free).map(|segment| segment.range)
    }

    /// Returns the bytes of all records, idle ones included.
    #[must_use]
    pub fn metadata_bytes(&self) -> usize {
        self.bitmaps.bytes() + self.directory.bytes() + self.tree.bytes()
    }

    /// Returns how many levels the tree of summaries has.
    #[cfg(feature = "count-steps")]
    #[must_use]
    pub fn height(&self) -> u32 {
        self.tree.height()
    }

    /// Returns how many tree nodes, free ranges and words of dense leaves the latest search looked
    /// at. What the allocation changes afterwards is not counted.
    #[cfg(feature = "count-steps")]
    #[must_use]
    pub fn last_steps(&self) -> u64 {
        self.steps.count.get()
    }

    /// Returns the leaf that holds `page`, or 0. Any page may be asked for.
    #[inline]
    fn leaf_of(&self, page: u64) -> u32 {
        match self.bitmaps.dense_leaf(page) {
            Some(leaf) => leaf,
            None => self.leaf_slow(page),
        }
    }

    #[inline(never)]
    fn leaf_slow(&self, page: u64) -> u32 {
        match self.bitmaps.sure_home(page) {
            Some(_) => self.bitmaps.group(page) as u32 + 1,
            None => self.directory.leaf_of(page, &self.bitmaps),
        }
    }

    /// Returns the start of the segment that holds `page`: its leaf and bit.
    #[inline]
    fn locate(&self, page: u64) -> Option<(u32, u32)> {
        let leaf = self.leaf_of(page);
        // Leaf 0 holds no starts: an absent leaf falls through to the slow path.
        match self.bitmaps.leaf(leaf).start_at_or_before(Leaf::bit(page)) {
            Some(bit) if page < self.span().end() => Some((leaf, bit)),
            _ => self.locate_before(page),
        }
    }

    #[cold]
    fn locate_before(&self, page: u64) -> Option<(u32, u32)> {
        if !self.span().contains(page) {
            return None;
        }
        let leaf = match self.leaf_of(page) {
            0 => self.directory.leaf_before(page, &self.bitmaps)?,
            leaf => self.bitmaps.leaf(leaf).prev.get(),
        };
        self.bitmaps.leaf(leaf).last_start().map(|bit| (leaf, bit))
    }

    /// Returns how many areas are not busy: in a list of the space's, or on their way from one
    /// owner to the next. O(leaves).
    pub(crate) fn idle_areas(&self) -> u64 {
        let first = self.leaf_of(self.span().start());
        let next = |leaf: &u32| Some(self.bitmaps.leaf(*leaf).next.get()).filter(|next| *next != 0);
        let leaves = core::iter::successors(Some(first), next);
        let busy: u64 = leaves.map(|leaf| u64::from(self.bitmaps.leaf(leaf).busy_areas())).sum();
        self.areas - busy
    }

    /// Returns the retired area that starts at `page`.
    pub(crate) fn retired(&self, page: u64) -> Option<PageRange> {
        let is_it = |found: &Segment| found.state == State::Retired && found.range.start() == page;
        self.segment(page).filter(is_it).map(|found| found.range)
    }

    /// Returns the leaf in which `page` lies, for the counts that others keep there.
    pub(crate) fn leaf(&self, page: u64) -> &Leaf {
        self.bitmaps.leaf(self.leaf_of(page))
    }

    /// Returns leaf and bit of the area that starts at `page`, or why none does.
    #[inline]
    fn area_at(&self, page: u64) -> Result<(u32, u32), FreeError> {
        let leaf = self.leaf_of(page);
        let bit = Leaf::bit(page);
        if self.bitmaps.leaf(leaf).is_area(bit) { Ok((leaf, bit)) } else { Err(self.why_no_area(page)) }
    }

    #[cold]
    fn why_no_area(&self, page: u64) -> FreeError {
        match self.segment(page) {
            Some(segment) if segment.state != State::Free => {
                FreeError::Interior { page, start: segment.range.start() }
            }
            _ => FreeError::NotAnArea { page },
        }
    }
}

impl From<OutOfMemory> for AllocError {
    fn from(_: OutOfMemory) -> Self {
        Self::Metadata
    }
}

/// Counts the steps of a search where the feature `count-steps` asks for it; else nothing at all.
#[derive(Default)]
struct Steps {
    #[cfg(feature = "count-steps")]
    count: core::cell::Cell<u64>,
}

impl Steps {
    #[inline]
    fn reset(&self) {
        #[cfg(feature = "count-steps")]
        self.count.set(0);
    }

    #[inline]
    fn tick(&self) {
        #[cfg(feature = "count-steps")]
        self.count.set(self.count.get() + 1);
    }
}

#[cfg(test)]
mod tests;
