//! Checks of a whole space.

use super::Space;
use super::annotations::Table;
use super::node::Lazy;
use crate::area_map::{State as SegmentState, Violation};
use crate::platform::Platform;
use alloc::vec::Vec;
use lock_api::MutexGuard;

impl<P: Platform> Space<P> {
    /// Checks every invariant, and that the counts agree with the map: S1 (areas that wait somewhere),
    /// S2 (annotations), S3 (blocks). O(n), with all locks held: for tests, while nobody is between two of them.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        let purger = self.purger.0.lock();
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.0.lock()).collect();
        let tables: Vec<MutexGuard<'_, P::RawLock, Table>> =
            self.annotations.tables().map(lock_api::Mutex::lock).collect();
        let map = self.map();
        map.verify()?;
        let retired = map.segments().filter(|segment| segment.state == SegmentState::Retired);
        let retired = retired.fold((0, 0), |sum, segment| (sum.0 + 1, sum.1 + segment.range.len()));
        let page = map.span().start();
        let mut waiting = (self.deferred.areas(), self.deferred.pages());
        for node in &nodes {
            waiting.0 += node.cached.areas() + node.pools.areas() + node.lazy.areas();
            waiting.1 += node.cached.pages() + node.pools.pages();
        }
        let lazy = nodes.iter().flat_map(|node| Lazy::iter(&node.lazy)).chain(purger.iter());
        let pages: u64 = lazy.map(|area| area.len()).sum();
        waiting = (waiting.0 + purger.iter().count() as u64, waiting.1 + pages);
        if retired != waiting {
            return Err(Violation {
                invariant: "S1: an area is neither busy, lazy, cached, pooled nor free",
                page,
            });
        }
        for &page in tables.iter().flat_map(|table| table.keys()) {
            let is_area = map.find(page).is_some_and(|area| area.start() == page);
            if !is_area || !map.leaf(page).may_be_annotated(page) {
                return Err(Violation { invariant: "S2: an annotation without its area", page });
            }
        }
        drop(map);
        self.verify_blocks(&tables)
    }
}
