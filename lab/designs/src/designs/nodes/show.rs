//! Looking at all nodes at once, and checking them.

use super::Nodes;
use super::node::{Node, POOLS, Pools};
use super::shared::Window;
use crate::design::{Segment, State};
use crate::designs::pair::FreeSpace;
use crate::designs::verify_partition;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::PageRange;

impl Nodes {
    /// Those of the window, and for the main one of all nodes.
    pub(super) fn bytes(&self) -> usize {
        let heap = self.window().heap.lock().ranges().bytes();
        if self.is_main() { heap + self.bytes_of_nodes() } else { heap }
    }

    fn bytes_of_nodes(&self) -> usize {
        let of_node =
            |node: &Node| node.busy.lock().bytes() + node.pools.lock().bytes() + node.lazy.lock().bytes();
        let nodes = &self.shared.nodes;
        size_of_val(&**nodes) + nodes.iter().map(of_node).sum::<usize>()
    }

    /// All of a window, in address order. One lock after the other: exact while no thread allocates
    /// or frees.
    pub(super) fn all_segments(&self, window: &Window) -> Vec<Segment> {
        let all = |state| move |range| Segment { range, state };
        let mut segments = Vec::new();
        for node in &self.shared.nodes {
            segments.extend(node.busy.lock().ranges().map(all(State::Busy)));
            segments.extend(node.lazy.lock().iter().map(|area| area.range).map(all(State::Lazy)));
            segments.extend(node.pools.lock().ranges().map(|(_, range)| range).map(all(State::Pooled)));
        }
        segments.retain(|segment| window.span.covers(&segment.range));
        segments.extend(window.heap.lock().ranges().tree().ranges().map(all(State::Free)));
        segments.sort_unstable_by_key(|segment| segment.range.start());
        segments
    }

    /// Checks the heaps, the trees, `N1` and `N2`, of all windows.
    pub(super) fn verify_all(&self) -> Result<(), String> {
        for at in 0..self.shared.nodes.len() {
            self.verify_node(at)?;
        }
        let mut lazy = 0;
        for window in &self.shared.windows {
            window.heap.lock().verify()?;
            let segments = self.all_segments(window);
            verify_partition(window.span, &segments).map_err(|wrong| format!("N1: {wrong}"))?;
            lazy += super::super::count(&segments).lazy_pages;
        }
        let counted = self.shared.lazy.load(Relaxed);
        if counted == lazy { Ok(()) } else { Err(format!("N2: {lazy} lazy pages, counted {counted}")) }
    }

    fn verify_node(&self, at: usize) -> Result<(), String> {
        let node = &self.shared.nodes[at];
        let (busy, lazy) = (node.busy.lock(), node.lazy.lock());
        busy.verify()?;
        let areas = busy.ranges().chain(lazy.iter().map(|area| area.range));
        if let Some(range) = areas.into_iter().find(|range| self.shared.home(range.start()) != at) {
            return Err(format!("N1: {range:?} is at node {at}"));
        }
        drop((busy, lazy));
        self.verify_pools(&node.pools.lock())
    }

    fn verify_pools(&self, pools: &Pools) -> Result<(), String> {
        let is_wrong = |pages: usize, range: PageRange| {
            range.len() != pages as u64 || pages > POOLS || !self.shared.pools_take(range)
        };
        match pools.ranges().find(|(pages, range)| is_wrong(*pages, *range)) {
            Some((pages, range)) => Err(format!("N1: {range:?} is in the pool of {pages} pages")),
            None => Ok(()),
        }
    }
}
