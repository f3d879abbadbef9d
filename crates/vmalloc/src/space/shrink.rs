//! Giving memory and addresses back on request: the shrinker.

use super::Space;
use super::drain::Drain;
use crate::platform::{Platform, PlatformError};

impl<P: Platform> Space<P> {
    /// How many areas [`shrink`](Self::shrink) could give back now: those whose memory is cached, or whose addresses are pooled.
    /// O(nodes).
    pub fn shrinkable(&self) -> u64 {
        let kept: u64 = self.node_stats().map(|node| node.cached_areas + node.pooled_areas).sum();
        kept + self.blocks.shelf.0.lock().ready.len()
    }

    /// Gives back up to `areas` areas that are kept for reuse, those with memory first; how many. What is lazy is purged as
    /// well, and not counted. Waits for a purge under way, and costs what a [`purge`](Self::purge) of as many areas does.
    ///
    /// # Errors
    /// The platform's, as for [`purge`](Self::purge).
    pub fn shrink(&self, areas: u64) -> Result<u64, PlatformError> {
        self.purge_with(Drain::at_most(areas)).map(|done| done.shed)
    }
}
