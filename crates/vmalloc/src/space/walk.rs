//! Walks over a whole space: what every range of it is at the moment.
//!
//! A lock is held for a few steps at a time only, so nobody waits for a walk, and what comes or goes meanwhile may or may not be seen.

use super::Space;
use super::node::Node;
use crate::addr::PageRange;
use crate::area_map::Segment;
use crate::platform::Platform;

/// Steps under one hold of a lock.
pub(super) const STEP: usize = 32;

/// What becomes of an area that is kept for reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kept {
    /// It kept its memory, and is handed out as it is.
    Memory,
    /// Its addresses were flushed, and are mapped anew for whom they are handed out to.
    Addresses,
}

impl<P: Platform> Space<P> {
    /// All segments in address order: free ranges, busy areas, and retired ones, which are lazy or [kept](Self::kept). The lock is
    /// taken anew every few segments. O(segments) in all.
    pub fn segments(&self) -> Segments<'_, P> {
        Segments { space: self, page: self.geometry.span.start(), few: Few::default() }
    }

    /// The areas that the nodes keep for reuse, in no order. The lock of a node is taken anew every few areas. O(areas
    /// kept + nodes × sizes) in all.
    pub fn kept(&self) -> KeptAreas<'_, P> {
        KeptAreas { space: self, node: 0, kept: Kept::Memory, size: 0, seen: 0, few: Few::default() }
    }
}

/// A few items taken under one hold of a lock.
struct Few<T> {
    items: [Option<T>; STEP],
    next: usize,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { items: [const { None }; STEP], next: 0 }
    }
}

impl<T> Few<T> {
    fn fill(&mut self, from: impl Iterator<Item = T>) {
        let mut from = from.fuse();
        self.items.fill_with(|| from.next());
        self.next = 0;
    }

    fn take(&mut self) -> Option<T> {
        let item = self.items.get_mut(self.next)?.take();
        self.next += 1;
        item
    }
}

/// The segments of a space. See [`Space::segments`].
pub struct Segments<'a, P: Platform> {
    space: &'a Space<P>,
    page: u64,
    few: Few<Segment>,
}

impl<P: Platform> Iterator for Segments<'_, P> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let segment = self.few.take().or_else(|| {
            self.few.fill(self.space.map().segments_from(self.page));
            self.few.take()
        })?;
        // A segment that was joined with its neighbours meanwhile began before the page: it is told from there on.
        let range = PageRange::new(segment.range.start().max(self.page), segment.range.end())?;
        self.page = range.end();
        Some(Segment { range, ..segment })
    }
}

/// The areas that are kept. See [`Space::kept`].
pub struct KeptAreas<'a, P: Platform> {
    space: &'a Space<P>,
    node: usize,
    kept: Kept,
    /// Pages less one.
    size: usize,
    /// Areas of that size seen already.
    seen: usize,
    few: Few<PageRange>,
}

impl<P: Platform> Iterator for KeptAreas<'_, P> {
    type Item = (PageRange, Kept);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(area) = self.few.take() {
                self.seen += 1;
                return Some((area, self.kept));
            }
            let node = self.space.nodes.get(self.node)?.0.lock();
            self.few.fill(starts(&node, self.kept, self.size, self.seen));
            drop(node);
            if self.few.items[0].is_none() {
                self.go_on();
            }
        }
    }
}

fn starts(node: &Node, kept: Kept, size: usize, seen: usize) -> impl Iterator<Item = PageRange> + '_ {
    let pools = if kept == Kept::Memory { &node.cached } else { &node.pools };
    pools.of_size(size).skip(seen)
}

impl<P: Platform> KeptAreas<'_, P> {
    /// To the next size, set or node.
    fn go_on(&mut self) {
        self.seen = 0;
        self.size += 1;
        if self.size < super::pools::MAX_PAGES as usize {
            return;
        }
        self.size = 0;
        match self.kept {
            Kept::Memory => self.kept = Kept::Addresses,
            Kept::Addresses => (self.kept, self.node) = (Kept::Memory, self.node + 1),
        }
    }
}
