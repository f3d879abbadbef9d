//! A1 `free-list` (2018): free ranges in a list, walked from the last one used.
//!
//! ```text
//!    ──[3]──[1]──[5]──[▒▒ 900 ▒▒]──[2]──[40]──     free ranges and their pages
//!                      ↑ the cache: the last one used. What was skipped below it has no place for more
//!                        than 5 pages: `skipped`
//! ```
//!
//! * `L1` The cache says: no request at its lower limit or a higher one, with its alignment or a greater one and more pages than
//!   `skipped`, fits below its range. Any other request starts from the lowest range: first fit is the lowest fit,
//!   whatever the cache says.
//! * `L2` A request with an alignment of at most a stack's, four pages, is for a multiple of the alignment: an area of 5 pages
//!   at 4 has 8. What is left behind such areas is aligned too, and not too small for the next.
//!
//! A cut leaves the cache at what remains of the range, or at the range below. A range that is
//! given back at the cache or below it is the cache from then on. Congruent areas, cut from the
//! top, only make ranges smaller; if the cache's own is cut, the cache follows. A search that finds
//! nothing leaves the cache as it was.
//!
//! The object for the second remainder of a cut comes from the arena's unused nodes: they are the
//! cache of objects of the RFC, bounded by what was in use at a time and not by half of lazy_max.
//!
//! Giving back is O(log n), the walk is O(n), but in free ranges. A lower limit is found in the
//! tree. Source: the RFC of 2018.

use super::areas::Want;
use super::free_ranges::FreeRanges;
use super::pair::FreeSpace;
use super::tree::{Id, NIL, Plain};
use vmalloc::PageRange;

/// The alignment of a stack, in pages: 16 KiB.
const STACK_ALIGN: u64 = 4;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct FreeList {
    ranges: FreeRanges<Plain>,
    cache: Cache,
}

/// Where the next search may start: `L1`. Nowhere while `node` is nil.
#[derive(Clone, Copy, Debug)]
struct Cache {
    node: Id,
    skipped: u64,
    low: u64,
    align: u64,
}

impl FreeSpace for FreeList {
    type Sum = Plain;

    fn new(span: PageRange) -> Self {
        let cache = Cache { node: NIL, skipped: 0, low: 0, align: 1 };
        Self { ranges: FreeRanges::full(span), cache }
    }

    fn ranges(&self) -> &FreeRanges<Plain> {
        &self.ranges
    }

    fn take(&mut self, want: &Want) -> Option<PageRange> {
        let want = padded(want)?;
        let (node, place, skipped) = self.walk(&want)?;
        let node = self.ranges.cut(node, place);
        self.cache = Cache { node, skipped, low: want.within.start(), align: want.align };
        Some(place)
    }

    fn take_exactly(&mut self, part: PageRange) {
        let node = self.ranges.tree().floor(part.start());
        let rest = self.ranges.cut(node, part);
        if node == self.cache.node {
            self.cache.node = rest;
        }
    }

    fn give(&mut self, part: PageRange) {
        let cached = (self.cache.node != NIL).then(|| self.ranges.tree().range(self.cache.node).start());
        let node = self.ranges.give(part);
        // Also when the cache's own range was merged with one below, and its node is gone.
        if cached.is_some_and(|start| self.ranges.tree().range(node).start() <= start) {
            self.cache.node = node;
        }
    }

    fn verify(&self) -> Result<(), String> {
        self.ranges.verify()?;
        self.verify_cache()
    }
}

impl FreeList {
    /// The lowest fit, from the cache on if that can be; its place, and the most pages of a place
    /// that was skipped.
    fn walk(&self, want: &Want) -> Option<(Id, PageRange, u64)> {
        let tree = self.ranges.tree();
        let (mut node, mut skipped) = self.start(want);
        while node != NIL {
            tree.look();
            let free = tree.range(node);
            let start = want.first_in(free.start())?;
            let end = start.checked_add(want.pages)?;
            if end > want.within.end() {
                return None;
            }
            if end <= free.end() {
                return PageRange::new(start, end).map(|place| (node, place, skipped));
            }
            skipped = skipped.max(free.end().saturating_sub(start));
            node = tree.next(node);
        }
        None
    }

    /// The range to begin with, and the most pages of a place below it.
    fn start(&self, want: &Want) -> (Id, u64) {
        let (cache, low, tree) = (self.cache, want.within.start(), self.ranges.tree());
        let good = cache.node != NIL
            && want.pages > cache.skipped
            && low >= cache.low
            && want.align >= cache.align
            && low <= tree.range(cache.node).end();
        if good {
            return (cache.node, cache.skipped);
        }
        let floor = tree.floor(low);
        (if floor == NIL { tree.first() } else { floor }, 0)
    }

    /// Checks `L1`: the smallest request that the cache is for does not fit below.
    fn verify_cache(&self) -> Result<(), String> {
        let (cache, tree) = (self.cache, self.ranges.tree());
        if cache.node == NIL {
            return Ok(());
        }
        let Some(within) = PageRange::new(cache.low, tree.range(cache.node).start()) else { return Ok(()) };
        let want = Want { pages: cache.skipped + 1, align: cache.align, within };
        match tree.ranges().find(|&free| want.place(free).is_some()) {
            Some(free) => Err(format!("L1: {want:?} fits into {free:?}, below the cache")),
            None => Ok(()),
        }
    }
}

/// `L2`.
fn padded(want: &Want) -> Option<Want> {
    let unit = if want.align <= STACK_ALIGN { want.align } else { 1 };
    Some(Want { pages: want.pages.checked_next_multiple_of(unit)?, ..*want })
}
