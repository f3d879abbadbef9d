//! Walks over a whole space: its areas, its segments, and the areas that nodes keep.
//!
//! A lock is held for a few steps at a time only, so no thread waits for a walk. Areas that come or
//! go meanwhile may or may not be seen.

use super::Space;
use crate::PageRange;
use crate::areas::AreaInfo;
use crate::platform::Platform;
use crate::wait::{BATCH, MAX_PAGES};
use core::array::IntoIter;
use core::fmt;
use core::iter::Flatten;
use vmalloc_map::{Segment, State};

/// The way in which an area is kept for reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cached {
    /// It kept its memory, and is handed out as it is.
    Memory,
    /// Addresses only: flushed, unmapped; mapped again on allocation.
    Addresses,
}

impl<P: Platform> Space<P> {
    /// Returns all segments in address order: free ranges, busy areas, and retired ones, which are
    /// lazy or [kept](Self::cached). The lock is taken again every few segments. O(segments) in
    /// all.
    pub fn segments(&self) -> Segments<'_, P> {
        Segments { space: self, page: self.geometry.span.start(), few: few(core::iter::empty()) }
    }

    /// Returns the areas that are kept for reuse, in no order. The lock of a node is taken
    /// again every few areas. O(areas kept + nodes × sizes) in all.
    pub fn cached(&self) -> CachedAreas<'_, P> {
        CachedAreas { space: self, place: 0, seen: 0, few: few(core::iter::empty()) }
    }
}

/// A few items that were taken under one hold of a lock.
type Few<T> = Flatten<IntoIter<Option<T>, BATCH>>;

fn few<T>(from: impl Iterator<Item = T>) -> Few<T> {
    let mut from = from.fuse();
    core::array::from_fn(|_| from.next()).into_iter().flatten()
}

/// An iterator over the segments of a space. See [`Space::segments`].
#[derive(Debug)]
pub struct Segments<'a, P: Platform> {
    space: &'a Space<P>,
    page: u64,
    few: Few<Segment>,
}

impl<P: Platform> Iterator for Segments<'_, P> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let segment = self.few.next().or_else(|| {
            self.few = few(self.space.areas.map().segments_from(self.page));
            self.few.next()
        })?;
        // A segment that was joined with its neighbours meanwhile began before the page: it is told
        // from there on.
        let range = PageRange::new(segment.range.start().max(self.page), segment.range.end())?;
        self.page = range.end();
        Some(Segment { range, ..segment })
    }
}

/// An iterator over the areas that nodes keep. See [`Space::cached`].
#[derive(Debug)]
pub struct CachedAreas<'a, P: Platform> {
    space: &'a Space<P>,
    /// The number of the list: of each node the cached areas and then the pooled ones, by size; at
    /// last the stock.
    place: usize,
    /// Areas of it that were told.
    seen: usize,
    few: Few<PageRange>,
}

impl<P: Platform> Iterator for CachedAreas<'_, P> {
    type Item = (PageRange, Cached);

    fn next(&mut self) -> Option<Self::Item> {
        let (cache, sizes) = (&self.space.cache, MAX_PAGES as usize);
        loop {
            let (node, size) = (cache.nodes.get(self.place / sizes / 2), self.place % sizes);
            let has_memory = node.is_none() || self.place / sizes % 2 == 0;
            if let Some(area) = self.few.next() {
                self.seen += 1;
                return Some((area, if has_memory { Cached::Memory } else { Cached::Addresses }));
            }
            self.few = match node.map(|node| node.lock()) {
                Some(node) => {
                    let stacks = if has_memory { &node.cached } else { &node.pooled };
                    few(stacks.of_size(size).skip(self.seen))
                }
                None => few(cache.stock.lock().iter().skip(self.seen)),
            };
            if self.few.clone().next().is_none() {
                node?;
                (self.place, self.seen) = (self.place + 1, 0);
            }
        }
    }
}

impl<P: Platform> Space<P> {
    /// Returns the busy areas in address order. The lock is taken again for every step: areas that
    /// come or go meanwhile may or may not be seen, and nothing waits for the walk. O(areas and
    /// free ranges) in all.
    pub fn areas(&self) -> Areas<'_, P> {
        self.areas_from(0)
    }

    /// Returns the busy areas that start at `addr` or behind it, in address order. See
    /// [`areas`](Self::areas).
    pub fn areas_from(&self, addr: usize) -> Areas<'_, P> {
        let page = addr.div_ceil(1 << self.shift()) as u64;
        Areas { space: self, page: page.max(self.geometry.span.start()) }
    }

    /// Returns the areas as text, a line each in the manner of Linux's `/proc/vmallocinfo`: range
    /// with guard page, size with guard page, tag, pages, kind. At last the areas that wait to be
    /// unmapped, by nodes, as Linux tells them.
    pub fn vmallocinfo(&self) -> Vmallocinfo<'_, P> {
        Vmallocinfo { space: self }
    }
}

/// An iterator over the busy areas of a space. See [`Space::areas`].
#[derive(Debug)]
pub struct Areas<'a, P: Platform> {
    space: &'a Space<P>,
    page: u64,
}

impl<P: Platform> Iterator for Areas<'_, P> {
    type Item = AreaInfo;

    fn next(&mut self) -> Option<AreaInfo> {
        let space = self.space;
        while space.geometry.span.contains(self.page) {
            let Some(area) = self.step() else { continue };
            // Another area may be there now, or none. One that began before was told already.
            let start = space.addr(area.start());
            if let Some(info) = space.find(start).filter(|info| info.addr >= start) {
                self.page = space.pages_of(&info).end() + u64::from(info.guard);
                return Some(info);
            }
        }
        None
    }
}

impl<P: Platform> Areas<'_, P> {
    /// Returns the next busy area, if it is among the next few segments.
    fn step(&mut self) -> Option<PageRange> {
        let map = self.space.areas.map();
        for segment in map.segments_from(self.page).take(BATCH) {
            let is_new = segment.range.start() >= self.page;
            self.page = segment.range.end();
            if segment.state == State::Busy && is_new {
                return Some(segment.range);
            }
        }
        None
    }
}

/// The areas of a space as text. See [`Space::vmallocinfo`].
#[derive(Debug)]
pub struct Vmallocinfo<'a, P: Platform> {
    space: &'a Space<P>,
}

impl<P: Platform> fmt::Display for Vmallocinfo<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for area in self.space.areas() {
            let bytes = self.space.bytes(area.pages + u64::from(area.guard));
            let (start, pages, kind) = (area.addr, area.pages, area.kind);
            let tag = area.tag.as_deref().unwrap_or("-");
            let end = start + bytes;
            writeln!(f, "{start:#018x}-{end:#018x} {bytes:7} {tag} pages={pages} {kind}")?;
        }
        for node in &self.space.cache.nodes {
            let (mut seen, mut before) = (0, usize::MAX);
            while seen != before {
                before = seen;
                let some = few(node.lock().lazy.iter().skip(seen).copied());
                for area in some {
                    let [start, end] = [area.start(), area.end()].map(|page| self.space.addr(page));
                    writeln!(f, "{start:#018x}-{end:#018x} {:7} unpurged vm_area", end - start)?;
                    seen += 1;
                }
            }
        }
        Ok(())
    }
}
