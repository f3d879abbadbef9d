//! Looking at all nodes at once, and checking them.

use super::Nodes;
use super::node::{POOLS, Pools};
use crate::design::{Segment, State};
use crate::designs::pair::FreeSpace;
use crate::designs::verify_partition;
use std::sync::atomic::Ordering::Relaxed;

impl Nodes {
    pub(super) fn bytes(&self) -> usize {
        let of_node = |node: &super::Node| {
            node.busy.lock().bytes() + node.pools.lock().bytes() + node.lazy.lock().bytes()
        };
        size_of_val(&*self.nodes)
            + self.nodes.iter().map(of_node).sum::<usize>()
            + self.heap.lock().ranges().bytes()
    }

    /// In address order. One lock after the other: exact while no thread allocates or frees.
    pub(super) fn all_segments(&self) -> Vec<Segment> {
        let all = |state| move |range| Segment { range, state };
        let mut segments = Vec::new();
        for node in &self.nodes {
            segments.extend(node.busy.lock().ranges().map(all(State::Busy)));
            segments.extend(node.lazy.lock().iter().map(|area| area.range).map(all(State::Lazy)));
            segments.extend(node.pools.lock().ranges().map(|(_, range)| range).map(all(State::Pooled)));
        }
        segments.extend(self.heap.lock().ranges().tree().ranges().map(all(State::Free)));
        segments.sort_unstable_by_key(|segment| segment.range.start());
        segments
    }

    /// Checks the heap, the trees, `N1` and `N2`.
    pub(super) fn verify_all(&self) -> Result<(), String> {
        self.heap.lock().verify()?;
        for at in 0..self.nodes.len() {
            self.verify_node(at)?;
        }
        let segments = self.all_segments();
        verify_partition(self.span, &segments).map_err(|wrong| format!("N1: {wrong}"))?;
        let lazy = super::super::count(&segments).lazy_pages;
        let counted = self.lazy.load(Relaxed);
        if counted == lazy { Ok(()) } else { Err(format!("N2: {lazy} lazy pages, counted {counted}")) }
    }

    fn verify_node(&self, at: usize) -> Result<(), String> {
        let node = &self.nodes[at];
        let (busy, lazy) = (node.busy.lock(), node.lazy.lock());
        busy.verify()?;
        let areas = busy.ranges().chain(lazy.iter().map(|area| area.range));
        if let Some(range) = areas.into_iter().find(|range| self.home(range.start()) != at) {
            return Err(format!("N1: {range:?} is at node {at}"));
        }
        drop((busy, lazy));
        verify_pools(&node.pools.lock())
    }
}

fn verify_pools(pools: &Pools) -> Result<(), String> {
    match pools.ranges().find(|(pages, range)| range.len() != *pages as u64 || *pages > POOLS) {
        Some((pages, range)) => Err(format!("N1: {range:?} is in the pool of {pages} pages")),
        None => Ok(()),
    }
}
