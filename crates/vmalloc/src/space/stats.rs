//! The counts of a space.

use super::Space;
use crate::platform::Platform;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

/// Counts of a space. Each name tells its unit: areas, pages, bytes. `Display` writes a table for
/// people, with sizes in bytes, and [`iter`](Self::iter) tells the names to programs.
///
/// Nothing counts allocations and frees, nor the allocations that found an area to reuse: each of
/// them would pay for it. Those that found none are [`placed_areas`](Self::placed_areas).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of a page.
    pub page_bytes: u64,
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
    /// Areas among the lazy ones that the platform has refused to unmap or to flush. Every later
    /// purge tries them again.
    pub refused_areas: u64,
    /// Pages of these.
    pub refused_pages: u64,
    /// Parts of areas of [tenants](crate::tenant) that the platform has refused to unmap or to
    /// flush. Areas of which nothing is in use are lazy, and among the refused areas, too.
    pub refused_parts: u64,
    /// Parts of areas in use that the platform has refused to unmap or to flush. Every later purge
    /// tries them again.
    pub pending_ranges: u64,
    /// Frees so far that were to [trap at once](crate::SpaceOptions::trap_on_free), and stayed lazy: the
    /// platform refused to unmap the area.
    pub late_frees: u64,
    /// Areas freed that keep their pages.
    pub cached_areas: u64,
    /// Pages of areas freed that keep their pages.
    pub cached_pages: u64,
    /// Areas among the cached ones that wait in no node: large ones, and small ones that nodes did
    /// not need while the space grew. Without guard pages areas side by side count as one.
    pub large_areas: u64,
    /// Pages of these.
    pub large_pages: u64,
    /// Areas freed and flushed whose addresses wait in a node for reuse.
    pub pooled_areas: u64,
    /// Pages of these.
    pub pooled_pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// The most pages so far that were not free, at an allocation that the map placed.
    pub peak_pages: u64,
    /// Areas so far that the map placed: neither a node nor the stock had one of the size.
    pub placed_areas: u64,
    /// Areas so far that waited in a node or the stock and were handed out again.
    pub reused_areas: u64,
    /// Purges so far that unmapped something. Each made one unmap and one flush, or more where the
    /// platform refused an area.
    pub purges: u64,
    /// Areas purged so far.
    pub purged_areas: u64,
    /// The most areas that a purge moved or gave back under one hold of a lock that allocations and
    /// frees take.
    pub longest_hold_areas: u64,
    /// Areas of [tenants](crate::tenant) that there are: busy, lazy or pooled areas.
    pub tenant_areas: u64,
    /// Areas that tenants have made so far.
    pub tenant_areas_made: u64,
    /// Areas that tenants have given up so far: when their addresses went back to the map.
    pub tenant_areas_freed: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
}

/// Lists fields with their names.
macro_rules! named {
    ($of:expr; $($field:ident)*) => { [$((stringify!($field), $of.$field)),*] };
}

impl Stats {
    /// Returns the bytes of a number of pages: `stats.bytes(stats.busy_pages)`.
    #[must_use]
    pub const fn bytes(&self, pages: u64) -> u64 {
        pages.saturating_mul(self.page_bytes)
    }

    /// Returns each count with its name, which is that of its field. Names stay as they are; later
    /// versions may have more.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = named!(self; page_bytes span_pages busy_areas busy_pages lazy_areas lazy_pages
            refused_areas refused_pages refused_parts pending_ranges late_frees cached_areas
            cached_pages large_areas large_pages pooled_areas pooled_pages free_pages
            largest_free_pages peak_pages placed_areas reused_areas purges purged_areas longest_hold_areas
            tenant_areas tenant_areas_made tenant_areas_freed metadata_bytes);
        counts.into_iter()
    }

    /// Returns how many areas were allocated so far, one by one: the map placed them, or they
    /// waited.
    #[must_use]
    pub const fn allocations(&self) -> u64 {
        self.placed_areas.saturating_add(self.reused_areas)
    }

    /// Returns the counts that purges change.
    fn begin<P: Platform>(space: &Space<P>) -> Self {
        let counts = &space.counts;
        let refused_pages = counts.refused_pages.load(Relaxed);
        Self {
            page_bytes: space.geometry.page_bytes() as u64,
            span_pages: space.geometry.span.len(),
            lazy_areas: counts.taken_areas.load(Relaxed) + space.deferred.areas(),
            lazy_pages: space.cache.lazy.level()
                + space.cache.lazy.absent()
                + refused_pages
                + space.deferred.pages(),
            refused_areas: counts.refused_areas.load(Relaxed),
            refused_pages,
            refused_parts: counts.refused_parts.load(Relaxed),
            pending_ranges: counts.pending.load(Relaxed),
            late_frees: counts.late_frees.load(Relaxed),
            purges: counts.purges.load(Relaxed),
            purged_areas: counts.purged_areas.load(Relaxed),
            longest_hold_areas: counts.longest_hold(),
            metadata_bytes: counts.list_bytes.load(Relaxed),
            ..Self::default()
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, count)| match name.rsplit_once('_') {
            Some((of, "pages")) => writeln!(f, "{of:<20} {}", Size(self.bytes(count))),
            Some((of, "bytes")) => writeln!(f, "{of:<20} {}", Size(count)),
            _ => writeln!(f, "{name:<20} {count}"),
        })
    }
}

/// A number of bytes, as people read it.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = self.0.max(1).ilog2() / 10;
        let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power as usize];
        let tenths = (u128::from(self.0) * 10) >> (10 * power);
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} {unit}"),
            (whole, tenth) => write!(f, "{whole}.{tenth} {unit}"),
        }
    }
}

/// Counts of one node: pages unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
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

impl<P: Platform> Space<P> {
    /// Returns the counts. O(nodes and sizes). Each is right for some moment during the call if no
    /// other thread allocates, frees or drains meanwhile. Else an area that moves from one node to
    /// another, or to the purge, may be counted twice, and be missing among the busy ones, or be
    /// counted as busy.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::begin(self);
        for node in self.cache.each() {
            stats.lazy_areas += node.lazy.len();
            stats.lazy_pages += node.unpublished();
            stats.cached_areas += node.cached.areas();
            stats.cached_pages += node.cached.pages();
            stats.pooled_areas += node.pooled.areas();
            stats.pooled_pages += node.pooled.pages();
            stats.reused_areas += node.reused;
            stats.metadata_bytes += node.bytes() as u64;
        }
        let stock = self.cache.stock.lock();
        (stats.large_areas, stats.large_pages) = (stock.iter().len() as u64, stock.pages);
        stats.cached_areas += stats.large_areas;
        stats.reused_areas += stock.reused;
        stats.cached_pages += stats.large_pages;
        stats.metadata_bytes += stock.bytes() as u64;
        drop(stock);
        let tenants = self.tenants.counts();
        stats.lazy_areas += tenants.lazy_areas;
        stats.pooled_areas += tenants.spare_areas;
        stats.pooled_pages += tenants.spare_pages;
        (stats.tenant_areas, stats.tenant_areas_made) = (tenants.areas, tenants.made);
        stats.tenant_areas_freed = tenants.freed;
        stats.metadata_bytes += self.tenants.iter().map(|tenant| tenant.metadata_bytes()).sum::<u64>();
        let kept = self.areas.table_bytes() + self.frame_sets.lock().bytes();
        let map = self.areas.map();
        stats.free_pages = map.free_pages();
        (stats.placed_areas, stats.peak_pages) = map.placed();
        stats.largest_free_pages = map.largest_free();
        stats.metadata_bytes += (map.metadata_bytes() + kept) as u64;
        // Every area is one of these; while other threads free and allocate, one may have been
        // counted twice.
        let areas = stats.lazy_areas + stats.cached_areas + stats.pooled_areas;
        let idle = stats.lazy_pages + stats.cached_pages + stats.pooled_pages;
        stats.busy_areas = map.area_count().saturating_sub(areas);
        stats.busy_pages = stats.span_pages.saturating_sub(idle + stats.free_pages);
        stats
    }

    /// Returns the counts of each node.
    pub fn node_stats(&self) -> impl ExactSizeIterator<Item = NodeStats> {
        self.cache.each().map(|node| NodeStats {
            lazy_areas: node.lazy.len(),
            cached_areas: node.cached.areas(),
            cached_pages: node.cached.pages(),
            pooled_areas: node.pooled.areas(),
            pooled_pages: node.pooled.pages(),
        })
    }
}
