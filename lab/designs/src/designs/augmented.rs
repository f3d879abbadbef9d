//! A2 `augmented` (2019): the lowest fitting free range is found by descending from the root.
//!
//! ```text
//!                      [40,52) 12│ max 20                 wanted: 9 pages
//!              ┌──────────────┴──────────────┐             left of the root the maximum is 7: no
//!       [10,14) 4│ max 7              [90,110) 20│ max 20    the root itself has 12: yes
//!                └─[20,27) 7│ max 7
//! ```
//!
//! * `A1` Each node knows the pages of the largest range below it ([`Largest`]).
//! * `A2` A request of n pages at alignment a gets the lowest range that has, from the lower limit on, n + a − 1 pages: there an
//!   aligned place is sure. With a = 1 this is the lowest fit, exactly.
//!
//! The quirk of `A2`: with a > 1 a range with fewer pages may have an aligned place too. So a
//! placement may be higher than need be, and a request may be refused although it would fit;
//! the caller counts the latter.
//!
//! Taking and giving back are O(log n). Source: the merged series of 2019.

use super::areas::{Want, range};
use super::free_ranges::FreeRanges;
use super::pair::FreeSpace;
use super::tree::{Id, Largest, NIL};
use vmalloc::PageRange;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Augmented {
    ranges: FreeRanges<Largest>,
}

impl FreeSpace for Augmented {
    type Sum = Largest;

    fn new(span: PageRange) -> Self {
        Self { ranges: FreeRanges::full(span) }
    }

    fn ranges(&self) -> &FreeRanges<Largest> {
        &self.ranges
    }

    fn take(&mut self, want: &Want) -> Option<PageRange> {
        let node = self.lowest(want)?;
        let place = want.place(self.ranges.tree().range(node))?;
        self.ranges.cut(node, place);
        Some(place)
    }

    fn take_exactly(&mut self, part: PageRange) {
        let node = self.ranges.tree().floor(part.start());
        self.ranges.cut(node, part);
    }

    fn give(&mut self, part: PageRange) {
        self.ranges.give(part);
    }

    fn verify(&self) -> Result<(), String> {
        self.ranges.verify()
    }
}

impl Augmented {
    /// The lowest range in which the request is sure to fit, as far as the lower limit goes.
    fn lowest(&self, want: &Want) -> Option<Id> {
        let (tree, low) = (self.ranges.tree(), want.within.start());
        let pages = want.pages.checked_add(want.align - 1)?;
        let first = tree.first();
        let node = if first == NIL || low <= tree.range(first).start() {
            tree.lowest_of(pages)
        } else {
            let cut = tree.floor(low);
            let end = tree.range(cut).end();
            let fits = end > low && range(low, end).len() >= pages;
            if fits { cut } else { tree.lowest_above(low, pages) }
        };
        (node != NIL).then_some(node)
    }
}
