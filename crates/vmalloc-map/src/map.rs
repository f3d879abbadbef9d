//! The map itself: its parts, what it tells of itself, and how a page finds its leaf.
#![forbid(unsafe_code)]

use crate::bitmap::LEAF_PAGES;
use crate::bitmaps::{Bitmaps, Found, Spare};
use crate::lack::Lack;
use crate::leaf::Leaf;
use crate::metadata::Pool;
use crate::shared::{Lent, Shared};
use crate::summary::Summary;
use crate::tree::{self, Tree};
use crate::{FitError, NoArea, PageRange};
use core::num::NonZero;

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
    pub(crate) bitmaps: Shared<'m, Bitmaps<'m>>,
    pub(crate) spare: Spare,
    pub(crate) tree: Tree<'m>,
    pub(crate) free_pages: u64,
    /// Between two counts that change together: side by side, compilers change them as one vector,
    /// which takes three instructions more.
    pub(crate) leaf_count: usize,
    /// Areas, busy or retired.
    pub(crate) areas: u64,
    /// The map's number in its tokens of quarantine; 0 as long as it gave none.
    pub(crate) token_map: usize,
    pub(crate) steps: Steps,
    /// True if its caller takes memory for it, with no lock held.
    pub(crate) asks: bool,
    /// The memory that a change has lacked.
    pub(crate) lack: Option<Lack>,
}

impl<'m> AreaMap<'m> {
    /// Returns an empty map over `span`, with its records on the heap.
    ///
    /// # Errors
    /// [`FitError::Metadata`].
    pub fn new(span: PageRange) -> Result<Self, FitError> {
        Self::on_heap(span, None)
    }

    /// Returns an empty map over `span`, whose first leaves are in memory that was lent.
    #[doc(hidden)]
    pub fn on_heap(span: PageRange, flat: Option<Lent<'static, Leaf>>) -> Result<Self, FitError> {
        Self::assemble(Bitmaps::on_heap(span, flat)?, Pool::on_heap()?)
    }

    /// Returns an empty map over `span`, with its records in `memory`: it works before a heap
    /// exists.
    ///
    /// The memory is divided once: 14 KiB, whatever the span, and 350 bytes for each leaf, that is,
    /// for each 256 aligned pages in which segments start. When it is used up, allocations that
    /// need another leaf fail with [`FitError::Metadata`].
    ///
    /// # Errors
    /// [`FitError::Metadata`] when the memory is too small even for an empty map.
    pub fn in_buffer(span: PageRange, mut memory: &'m mut [u8]) -> Result<Self, FitError> {
        // For each four leaves a tree node: on average they hold more than six. The constants cover
        // record 0, the first leaf, the root, a split to the top, and what the next insertion wants
        // to find.
        let per_four = 4 * size_of::<Leaf>() + size_of::<tree::Node>();
        let fixed = Bitmaps::LENT_BYTES + 2 * size_of::<Leaf>() + 6 * size_of::<tree::Node>() + 64;
        let fours = memory.len().saturating_sub(fixed) / per_four;
        let bitmaps = Bitmaps::in_buffer(span, &mut memory, 2 + 4 * fours)?;
        Self::assemble(bitmaps, Pool::in_buffer(&mut memory, 6 + fours)?)
    }

    /// Returns the bitmaps, for freeing and reusing areas without the map.
    #[doc(hidden)]
    pub fn bitmaps(&self) -> &Shared<'m, Bitmaps<'m>> {
        &self.bitmaps
    }

    fn assemble(bitmaps: Shared<'m, Bitmaps<'m>>, nodes: Pool<'m, tree::Node>) -> Result<Self, FitError> {
        let (span, mut spare) = (bitmaps.span(), Spare::default());
        let first = bitmaps.number(bitmaps.group(span.start()), 0, &mut spare)?;
        let record = bitmaps.leaf(first);
        record.begin(0, 0, span.start() & !u64::from(LEAF_PAGES - 1));
        record.start_free(Leaf::bit(span.start()));
        let mut tree = Tree::new(nodes, first, &bitmaps)?;
        tree.set(record.up.get(), Summary::of(span.start(), span.end()));
        let free_pages = span.len();
        let steps = Steps::default();
        Ok(Self {
            bitmaps,
            spare,
            tree,
            free_pages,
            leaf_count: 1,
            areas: 0,
            token_map: 0,
            steps,
            asks: false,
            lack: None,
        })
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
        self.bitmaps.bytes() + self.tree.bytes()
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
    pub(crate) fn leaf_of(&self, page: u64) -> u32 {
        match self.bitmaps.dense(page) {
            Some((leaf, _)) => leaf,
            None => self.far_leaf_of(page),
        }
    }

    #[inline(never)]
    fn far_leaf_of(&self, page: u64) -> u32 {
        match self.bitmaps.sure_home(page) {
            Some(_) => self.bitmaps.group(page) as u32 + 1,
            None => {
                let leaf = self.tree.leaf_before(page);
                let is_its = self.bitmaps.leaf(leaf).base() == page & !u64::from(LEAF_PAGES - 1);
                if is_its { leaf } else { 0 }
            }
        }
    }

    /// Returns the start of the segment that holds `page`: its leaf and bit.
    #[inline]
    pub(crate) fn locate(&self, page: u64) -> Option<(u32, u32)> {
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
            0 => self.tree.leaf_before(page),
            leaf => self.bitmaps.leaf(leaf).prev.get(),
        };
        self.bitmaps.leaf(leaf).last_start().map(|bit| (leaf, bit))
    }

    /// Returns how many areas are not busy: in a list of the space's, or on their way from one
    /// owner to the next. O(leaves).
    #[doc(hidden)]
    pub fn idle_areas(&self) -> u64 {
        let first = self.leaf_of(self.span().start());
        let next = |leaf: &u32| Some(self.bitmaps.leaf(*leaf).next.get()).filter(|next| *next != 0);
        let leaves = core::iter::successors(Some(first), next);
        let busy: u64 = leaves.map(|leaf| u64::from(self.bitmaps.leaf(leaf).busy_areas())).sum();
        self.areas - busy
    }

    /// Returns the retired area that starts at `page`.
    #[doc(hidden)]
    pub fn retired(&self, page: u64) -> Option<PageRange> {
        let is_it = |found: &Segment| found.state == State::Retired && found.range.start() == page;
        self.segment(page).filter(is_it).map(|found| found.range)
    }

    /// Returns the leaf in which `page` lies, for the counts that others keep there.
    #[doc(hidden)]
    pub fn leaf(&self, page: u64) -> &Leaf {
        self.bitmaps.leaf(self.leaf_of(page))
    }

    /// Returns leaf and bit of the area that starts at `page`, or why none does.
    #[inline]
    pub(crate) fn area_at(&self, page: u64) -> Result<(u32, u32), NoArea> {
        let leaf = self.leaf_of(page);
        let bit = Leaf::bit(page);
        if self.bitmaps.leaf(leaf).is_area(bit) { Ok((leaf, bit)) } else { Err(self.why_no_area(page)) }
    }

    #[cold]
    fn why_no_area(&self, page: u64) -> NoArea {
        match self.segment(page) {
            Some(segment) if segment.state != State::Free => {
                NoArea::Interior { page, start: segment.range.start() }
            }
            _ => NoArea::Nothing { page },
        }
    }
}

/// Counts the steps of a search where the feature `count-steps` asks for it; else nothing at all.
#[derive(Default)]
pub(crate) struct Steps {
    #[cfg(feature = "count-steps")]
    count: core::cell::Cell<u64>,
}

impl Steps {
    #[inline]
    pub(crate) fn reset(&self) {
        #[cfg(feature = "count-steps")]
        self.count.set(0);
    }

    #[inline]
    pub(crate) fn tick(&self) {
        #[cfg(feature = "count-steps")]
        self.count.set(self.count.get() + 1);
    }
}
