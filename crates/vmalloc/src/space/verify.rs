//! Checks of a whole space.

use super::Space;
use super::node::Lazy;
use crate::area_map::{State as SegmentState, Violation};
use crate::platform::Platform;
use alloc::vec::Vec;

impl<P: Platform> Space<P> {
    /// Checks every invariant, and that the counts agree with the map: S1 (busy areas), S2 (areas that wait somewhere),
    /// S3 (notes). O(n), with all locks held: for tests, while nobody is between two of them.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        let purger = self.purger.0.lock();
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.0.lock()).collect();
        let tables: Vec<_> = self.notes.tables().map(lock_api::Mutex::lock).collect();
        let map = self.map();
        map.verify()?;
        let (mut busy, mut retired) = ((0u64, 0u64), (0u64, 0u64));
        for segment in map.segments() {
            let of = match segment.state {
                SegmentState::Free => continue,
                SegmentState::Busy => &mut busy,
                SegmentState::Retired => &mut retired,
            };
            *of = (of.0 + 1, of.1 + segment.range.len());
        }
        let page = map.span().start();
        let counted = nodes.iter().fold((0u64, 0u64), |sum, node| {
            (sum.0.wrapping_add(node.busy_areas), sum.1.wrapping_add(node.busy_pages))
        });
        if busy != counted {
            return Err(Violation { invariant: "S1: busy areas are miscounted", page });
        }
        let mut waiting = (0, 0);
        for node in &nodes {
            waiting.0 += node.retained.areas() + node.pools.areas() + node.lazy.areas();
            waiting.1 += node.retained.pages() + node.pools.pages();
        }
        let lazy = nodes.iter().flat_map(|node| Lazy::iter(&node.lazy)).chain(purger.iter());
        let pages: u64 = lazy.map(|area| area.len()).sum();
        waiting = (waiting.0 + purger.iter().count() as u64, waiting.1 + pages);
        if retired != waiting {
            return Err(Violation {
                invariant: "S2: an area is neither busy, lazy, retained, pooled nor free",
                page,
            });
        }
        for &page in tables.iter().flat_map(|table| table.keys()) {
            let is_area = map.find(page).is_some_and(|area| area.start() == page);
            if !is_area || map.leaf(page).notes() == 0 {
                return Err(Violation { invariant: "S3: a note without its area", page });
            }
        }
        Ok(())
    }
}
