//! Checks every invariant of the map, in O(n).

use super::leaf::Leaf;
use super::{AreaMap, State};
use thiserror::Error;

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[cfg_attr(feature = "error-texts", error("{invariant} (at {at:#x})"))]
#[cfg_attr(not(feature = "error-texts"), error("{invariant}"))]
pub struct Violation {
    /// The name of the invariant, and how it is broken.
    pub invariant: &'static str,
    /// The page of a map at which it shows, or the address of a space.
    pub at: u64,
}

impl Violation {
    /// Fails with the violation, unless the invariant holds.
    #[doc(hidden)]
    pub fn unless(holds: bool, invariant: &'static str, at: u64) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { invariant, at }) }
    }
}

impl AreaMap<'_> {
    /// Checks every invariant and the summaries. O(n): for tests and debugging.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        self.verify_segments()?;
        self.verify_leaves()
    }

    fn verify_segments(&self) -> Result<(), Violation> {
        let (mut page, mut free, mut areas, mut last) = (self.span().start(), 0, 0, None);
        for segment in self.segments() {
            Violation::unless(segment.range.start() == page, "MAP-1: segments leave a gap", page)?;
            if segment.state == State::Free {
                Violation::unless(last != Some(State::Free), "MAP-2: two free ranges side by side", page)?;
                free += segment.range.len();
            }
            areas += u64::from(segment.state != State::Free);
            (page, last) = (segment.range.end(), Some(segment.state));
        }
        Violation::unless(page == self.span().end(), "MAP-1: segments end before the span does", page)?;
        Violation::unless(free == self.free_pages, "MAP-6: the free pages are miscounted", page)?;
        Violation::unless(areas == self.areas, "MAP-6: the areas are miscounted", page)
    }

    fn verify_leaves(&self) -> Result<(), Violation> {
        let mut leaf = self.leaf_of(self.span().start());
        let (mut prev, mut count, mut at) = (0, 0, self.span().start());
        let result = self.tree.check(&mut |id, up, summary| {
            let record = self.bitmaps.leaf(id);
            (count, at) = (count + 1, record.base());
            let complaint = if id != leaf || record.prev.get() != prev {
                Some("MAP-5: the tree and the links disagree on the order of leaves")
            } else if record.up.get() != up {
                Some("TREE-1: a leaf does not know its place")
            } else if !self.summary_of(record).equals(*summary) {
                Some("MAP-5: the summary beside a leaf is not that of its free ranges")
            } else {
                self.leaf_complaint(id, record)
            };
            (prev, leaf) = (id, record.next.get());
            complaint
        });
        result.map_err(|invariant| Violation { invariant, at })?;
        Violation::unless(leaf == 0, "MAP-5: a leaf is linked but not in the tree", at)?;
        Violation::unless(count == self.leaf_count, "MAP-4: a leaf is lost", at)
    }

    fn leaf_complaint(&self, id: u32, record: &Leaf) -> Option<&'static str> {
        if record.is_empty() {
            Some("MAP-4: an empty leaf")
        } else if [self.leaf_of(record.base()), self.tree.leaf_before(record.base())] != [id; 2] {
            Some("MAP-4: a leaf is not found by its first page")
        } else if record.prev.get() != 0 && self.bitmaps.leaf(record.prev.get()).base() >= record.base() {
            Some("MAP-4: leaves are out of order")
        } else if record.first_stray().is_some() {
            Some("MAP-3: a state bit without its start")
        } else if !record.is_counted() {
            Some("MAP-6: the free ranges of a leaf are miscounted")
        } else {
            None
        }
    }
}
