//! What a space tells of itself: one area, all areas, and the counts.

use super::annotations::Annotation;
use super::request::Blocking;
use super::walk::STEP;
use super::{Kind, Space};
use crate::addr::PageRange;
use crate::area_map::{Look, State as SegmentState};
use crate::platform::{Platform, Translate};
use crate::sync::size;
use core::fmt;
use core::sync::atomic::Ordering;

/// What is known of a busy area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AreaInfo {
    /// Its first address.
    pub addr: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Pages, the guard not counted.
    pub pages: u64,
    /// Whether a guard page follows.
    pub guard: bool,
    /// What it is for.
    pub kind: Kind,
    /// The caller's tag.
    pub tag: Option<&'static str>,
}

/// Counts of a space: pages unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Pages of the whole span: the sum of free, busy, lazy, cached and pooled ones.
    pub span_pages: u64,
    /// Areas handed out.
    pub busy_areas: u64,
    /// Pages handed out, guards included.
    pub busy_pages: u64,
    /// Areas freed and not yet purged.
    pub lazy_areas: u64,
    /// Pages freed and not yet purged.
    pub lazy_pages: u64,
    /// Areas among the lazy ones that the platform has refused to unmap or to flush. Every later purge tries them again.
    pub refused_areas: u64,
    /// Pages of these.
    pub refused_pages: u64,
    /// Blocks of short mappings that the platform has refused to unmap or to flush something of. Those of which nothing is
    /// in use are lazy, and among the refused areas, too.
    pub refused_blocks: u64,
    /// Parts of areas in use that the platform has refused to unmap or to flush. Every later purge tries them again.
    pub torn_ranges: u64,
    /// Areas freed that keep their pages.
    pub cached_areas: u64,
    /// Pages of areas freed that keep their pages.
    pub cached_pages: u64,
    /// Areas freed and flushed whose addresses wait in a node for reuse.
    pub pooled_areas: u64,
    /// Pages of these.
    pub pooled_pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// Sets purged so far: each was one unmap and one flush, but where something was refused.
    pub purges: u64,
    /// Areas purged so far.
    pub purged_areas: u64,
    /// The most areas that a purge moved or gave back under one hold of a lock that allocations and frees take.
    pub longest_hold_areas: u64,
    /// Blocks of short mappings there are: busy, lazy or pooled areas.
    pub blocks: u64,
    /// Blocks made so far.
    pub blocks_made: u64,
    /// Blocks given up so far: with a classic policy when all slots were dirty, else when their addresses went back.
    pub blocks_freed: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
}

/// Counts of one node: pages unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct NodeStats {
    /// Areas freed on it and not purged yet.
    pub lazy_areas: u64,
    /// Areas freed on it that keep their memory.
    pub cached_areas: u64,
    /// Pages of these.
    pub cached_pages: u64,
    /// Areas whose addresses wait in it.
    pub pooled_areas: u64,
    /// Pages of these.
    pub pooled_pages: u64,
}

/// How often a look without locks is repeated when the bitmaps were changing: a change takes less than a microsecond.
const LOOKS: usize = size(16, 2) as usize;

impl<P: Platform> Space<P> {
    /// Returns what is known of `area`, whose annotation this is, or which has none.
    fn info(&self, area: PageRange, annotation: Option<Annotation>) -> AreaInfo {
        let annotation = annotation.unwrap_or(Annotation::plain(self.config.guard));
        let pages = area.len().checked_sub(annotation.guard_pages).filter(|&pages| pages > 0);
        let bytes = pages.and_then(|pages| (pages << self.shift).checked_sub(annotation.slack));
        let (Some(pages), Some(bytes)) = (pages, bytes) else {
            self.platform.fatal(&"an area is smaller than its annotation says")
        };
        AreaInfo {
            addr: self.addr(area.start()),
            bytes: bytes as usize,
            pages,
            guard: annotation.guard_pages != 0,
            kind: annotation.kind,
            tag: annotation.tag,
        }
    }

    /// Returns the area that holds `addr`, which may be anywhere inside it, guard page included. All
    /// of the answer was true at one moment during the call. O(1) and without a lock for plain areas
    /// of up to 256 pages near the start of the span; O(log n) for others.
    #[doc(alias = "find_vm_area")]
    pub fn find(&self, addr: usize) -> Option<AreaInfo> {
        let page = (addr >> self.shift) as u64;
        match self.look(page) {
            Some(Look::Nothing) => None,
            Some(Look::Plain(area)) => Some(self.info(area, None)),
            Some(Look::Annotated(_)) | None => self.find_annotated(page),
        }
    }

    #[inline(never)]
    fn find_annotated(&self, page: u64) -> Option<AreaInfo> {
        loop {
            // It gives up only after other threads have put areas there and freed them again.
            if let Ok(found) = self.find_by_locks(page, Blocking::Allowed) {
                return found;
            }
        }
    }

    /// Finds the area that holds `page` with its annotation's table locked. An area is busy only while its
    /// annotation, if it has one, is in the table, so area and annotation belong together.
    fn find_by_locks(&self, page: u64, blocking: Blocking) -> Result<Option<AreaInfo>, Busy> {
        for _ in 0..LOOKS {
            let Some(seen) = self.area_at(page, blocking)? else { return Ok(None) };
            let table = match blocking {
                Blocking::Allowed => self.annotations.lock(seen.start()),
                Blocking::Forbidden => self.annotations.try_lock(seen.start()).ok_or(Busy)?,
            };
            match self.area_at(page, blocking)? {
                None => return Ok(None),
                Some(area) if area.start() == seen.start() => {
                    return Ok(Some(self.info(area, table.get(&area.start()).copied())));
                }
                // Another area is there now, whose annotation may be in another table.
                Some(_) => {}
            }
        }
        Err(Busy)
    }

    /// Returns the range of the busy area that holds `page`.
    fn area_at(&self, page: u64, blocking: Blocking) -> Result<Option<PageRange>, Busy> {
        match (self.look(page), blocking) {
            (Some(Look::Nothing), _) => Ok(None),
            (Some(Look::Plain(area) | Look::Annotated(area)), _) => Ok(Some(area)),
            (None, Blocking::Allowed) => Ok(self.map().find(page)),
            (None, Blocking::Forbidden) => Ok(self.try_map().ok_or(Busy)?.find(page)),
        }
    }

    /// As [`find`](Self::find) but never waits: for profilers and crash dumps, which may run at any moment. Most areas are
    /// found without any lock.
    ///
    /// # Errors
    /// [`Busy`] when it takes a lock, and that is held, perhaps by the very thread that was interrupted,
    /// or when other threads allocate and free there all the time.
    pub fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Busy> {
        let page = (addr >> self.shift) as u64;
        match self.look(page) {
            Some(Look::Nothing) => Ok(None),
            Some(Look::Plain(area)) => Ok(Some(self.info(area, None))),
            Some(Look::Annotated(_)) | None => self.find_by_locks(page, Blocking::Forbidden),
        }
    }

    /// Returns what the bitmaps tell of `page` without a lock, if they do.
    #[inline]
    fn look(&self, page: u64) -> Option<Look> {
        (0..LOOKS).find_map(|_| self.bitmaps.look(page).ok())
    }

    /// The counts. O(nodes and sizes). Each is right for some moment during the call; their sum may not be while others
    /// allocate and free.
    pub fn stats(&self) -> Stats {
        let refused_pages = self.counts.refused_pages.load(Ordering::Relaxed);
        let mut stats = Stats {
            span_pages: self.geometry.span.len(),
            lazy_areas: self.counts.taken_areas.load(Ordering::Relaxed) + self.deferred.areas(),
            lazy_pages: self.lazy_pages.0.load(Ordering::Relaxed) + refused_pages + self.deferred.pages(),
            refused_areas: self.counts.refused_areas.load(Ordering::Relaxed),
            refused_pages,
            refused_blocks: self.counts.refused_blocks.load(Ordering::Relaxed),
            torn_ranges: self.torn.load(Ordering::Relaxed),
            purges: self.counts.purges.load(Ordering::Relaxed),
            purged_areas: self.counts.purged_areas.load(Ordering::Relaxed),
            longest_hold_areas: self.counts.longest_hold.load(Ordering::Relaxed),
            metadata_bytes: self.counts.list_bytes.load(Ordering::Relaxed),
            ..Stats::default()
        };
        for node in &self.nodes {
            let node = node.0.lock();
            stats.lazy_areas += node.lazy.areas();
            stats.lazy_pages += node.unpublished;
            stats.cached_areas += node.cached.areas();
            stats.cached_pages += node.cached.pages();
            stats.pooled_areas += node.pools.areas();
            stats.pooled_pages += node.pools.pages();
            stats.metadata_bytes += node.bytes() as u64;
        }
        let shelf = self.blocks.shelf.0.lock();
        stats.lazy_areas += shelf.spent;
        stats.pooled_areas += shelf.ready.len();
        stats.pooled_pages += shelf.ready.len() * self.blocks.slots();
        stats.blocks = shelf.all.len() as u64;
        (stats.blocks_made, stats.blocks_freed) = (shelf.made, shelf.freed);
        drop(shelf);
        let kept = self.blocks.bytes() + self.linear.bytes() + self.lots.lock().bytes();
        stats.metadata_bytes += kept as u64;
        let tables: usize = self.annotations.tables().map(|table| table.lock().allocation_size()).sum();
        let map = self.map();
        stats.free_pages = map.free_pages();
        stats.largest_free_pages = map.largest_free();
        stats.metadata_bytes += (map.metadata_bytes() + tables) as u64;
        // Every area is one of these; while others free and allocate, one may have been counted twice.
        let areas = stats.lazy_areas + stats.cached_areas + stats.pooled_areas;
        let pages = stats.lazy_pages + stats.cached_pages + stats.pooled_pages + stats.free_pages;
        stats.busy_areas = map.area_count().saturating_sub(areas);
        stats.busy_pages = stats.span_pages.saturating_sub(pages);
        stats
    }

    /// The counts of each node.
    pub fn node_stats(&self) -> impl ExactSizeIterator<Item = NodeStats> {
        self.nodes.iter().map(|node| {
            let node = node.0.lock();
            NodeStats {
                lazy_areas: node.lazy.areas(),
                cached_areas: node.cached.areas(),
                cached_pages: node.cached.pages(),
                pooled_areas: node.pools.areas(),
                pooled_pages: node.pools.pages(),
            }
        })
    }

    /// The busy areas in address order. The lock is taken anew for every step: areas that come or go meanwhile
    /// may or may not be seen, and nobody waits for the walk. O(areas and free ranges) in all.
    pub fn areas(&self) -> Areas<'_, P> {
        Areas { space: self, page: self.geometry.span.start() }
    }

    /// The areas as text, a line each in the manner of Linux's `/proc/vmallocinfo`: range with guard page, size with guard
    /// page, tag, pages, kind.
    pub fn vmallocinfo(&self) -> Vmallocinfo<'_, P> {
        Vmallocinfo { space: self }
    }
}

impl<P: Translate> Space<P> {
    /// The physical frame behind `addr`, anywhere inside an area; `None` outside areas, on guard pages, where no
    /// page is yet, and where the machine does not tell.
    pub fn vmalloc_to_page(&self, addr: usize) -> Option<u64> {
        let area = self.find(addr)?;
        let page = (addr >> self.shift) as u64;
        let payload = PageRange::from_len((area.addr >> self.shift) as u64, area.pages)?;
        if area.kind.is_memory() && payload.contains(page) { self.platform.physical_page(page) } else { None }
    }
}

/// Somebody holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the space's lock is held")
    }
}

impl core::error::Error for Busy {}

/// The busy areas of a space, in address order.
pub struct Areas<'a, P: Platform> {
    pub(super) space: &'a Space<P>,
    pub(super) page: u64,
}

impl<P: Platform> Iterator for Areas<'_, P> {
    type Item = AreaInfo;

    fn next(&mut self) -> Option<AreaInfo> {
        let space = self.space;
        while space.geometry.span.contains(self.page) {
            let Some(area) = self.step() else { continue };
            // What is there now may be another area, or none. One that began before was told already.
            if let Some(info) = space.find(space.addr(area.start()))
                && info.addr >= space.addr(area.start())
            {
                let pages = info.pages + u64::from(info.guard);
                self.page = (info.addr >> space.shift) as u64 + pages;
                return Some(info);
            }
        }
        None
    }
}

impl<P: Platform> Areas<'_, P> {
    /// The next busy area, if it is among the next few segments.
    fn step(&mut self) -> Option<PageRange> {
        let map = self.space.map();
        for segment in map.segments_from(self.page).take(STEP) {
            self.page = segment.range.end();
            if segment.state == SegmentState::Busy {
                return Some(segment.range);
            }
        }
        None
    }
}

/// The areas of a space as text.
pub struct Vmallocinfo<'a, P: Platform> {
    space: &'a Space<P>,
}

impl<P: Platform> fmt::Display for Vmallocinfo<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for area in self.space.areas() {
            let bytes = ((area.pages + u64::from(area.guard)) << self.space.shift) as usize;
            let kind = area.kind;
            let tag = area.tag.unwrap_or("-");
            let (start, end, pages) = (area.addr, area.addr + bytes, area.pages);
            writeln!(f, "{start:#018x}-{end:#018x} {bytes:7} {tag} pages={pages} {kind}")?;
        }
        Ok(())
    }
}
