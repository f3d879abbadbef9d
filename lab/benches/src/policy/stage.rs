//! A space on page tables that count, and the CPUs that use it.

use super::Row;
use super::loads::Load;
use super::played::{self, Later};
use crate::ranges::{BASE_PAGE, span};
use parking_lot::{Mutex, RawMutex};
use vmalloc::{Geometry, MemoryCost, PageRange, Request, Space, SpaceOptions};
use vmalloc_kit::null::PAGE_SHIFT;
use vmalloc_kit::null::{Cpus, NullPlatform, Pages};

/// The slack that Linux advises.
const DEAR_PERCENT: u8 = 25;

/// The bounds of the cache. When the bars were set they were 128 MiB for areas of up to 256 pages
/// and as much for larger ones, which now share. With 128 MiB for both, phases and growing buffers
/// take more new pages than their bars allow; with 256 MiB large areas spread farther. The least is
/// what was the default then.
const MOST_CACHED: usize = 160 << 20;
const LEAST_DEAR: u64 = (64 << 20) >> PAGE_SHIFT;
const LEAST_CHEAP: u64 = (32 << 20) >> PAGE_SHIFT;

/// Page tables that remember which pages are mapped.
#[derive(Debug)]
struct Counted {
    is_dear: bool,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// A bit for each page from the start of the span.
    bits: Vec<u64>,
    /// Pages that are mapped, and the most that ever were.
    mapped: u64,
    peak: u64,
    /// Pages that were mapped and were not before.
    fresh: u64,
    /// Ranges that were mapped or unmapped.
    calls: u64,
}

impl Tables {
    /// Sets or clears the bits of a range. Returns how many changed.
    fn change(&mut self, range: PageRange, is_mapped: bool) -> u64 {
        let words = (range.end() - BASE_PAGE).div_ceil(64) as usize;
        self.bits.resize(words.max(self.bits.len()), 0);
        self.calls += 1;
        let mut changed = 0;
        for page in range.start() - BASE_PAGE..range.end() - BASE_PAGE {
            let (word, bit) = (&mut self.bits[(page / 64) as usize], 1 << (page % 64));
            changed += u64::from((*word & bit != 0) != is_mapped);
            *word = if is_mapped { *word | bit } else { *word & !bit };
        }
        changed
    }
}

impl Pages for Counted {
    fn priced(&self, geometry: Geometry) -> Geometry {
        let (cost, slack) =
            if self.is_dear { (MemoryCost::Dear, DEAR_PERCENT) } else { (MemoryCost::Cheap, 0) };
        geometry.memory_cost(cost).max_slack_percent(slack).remaps_atomically(true)
    }

    fn map(&self, range: PageRange) {
        let tables = &mut *self.tables.lock();
        let fresh = tables.change(range, true);
        tables.fresh += fresh;
        tables.mapped += fresh;
        tables.peak = tables.peak.max(tables.mapped);
    }

    fn unmap(&self, ranges: &[PageRange]) {
        let tables = &mut *self.tables.lock();
        for &range in ranges {
            tables.mapped -= tables.change(range, false);
        }
    }
}

/// An area in use: its address and pages.
pub(super) struct Area {
    addr: usize,
    pub(super) pages: u64,
}

/// A space that a load plays on.
pub(super) struct Stage {
    space: Space<NullPlatform<RawMutex, Cpus, Later, Counted>>,
    drain_every: u64,
    guard_pages: u64,
    /// Allocations and frees.
    calls: u64,
    in_use: u64,
    most_in_use: u64,
    /// The end of the highest area, in pages from the start of the span.
    highest: u64,
}

impl Stage {
    pub(super) fn new(load: &Load, drain_every: u64, guards: bool) -> Self {
        played::restart();
        let pages = Counted { is_dear: load.is_dear, tables: Mutex::default() };
        let platform = NullPlatform::with_pages(span(), Cpus(load.cpus), Later, pages);
        let options = SpaceOptions::default().guard(guards).cache_bytes(MOST_CACHED);
        let beside: fn(u64) -> u64 = match load.is_dear {
            true => |in_use| (in_use / 3).max(LEAST_DEAR),
            false => |in_use| (in_use / 12).max(LEAST_CHEAP),
        };
        let options = options.cached_beside(beside);
        let space = Space::new(platform, options).expect("metadata for an empty space");
        let guard_pages = u64::from(guards);
        Self { space, drain_every, guard_pages, calls: 0, in_use: 0, most_in_use: 0, highest: 0 }
    }

    pub(super) fn alloc(&mut self, pages: u64) -> Area {
        let request = Request::new((pages as usize) << PAGE_SHIFT);
        let addr = self.space.raw().alloc(&request).expect("space for every load");
        self.in_use += pages;
        self.most_in_use = self.most_in_use.max(self.in_use);
        let end = (addr >> PAGE_SHIFT) as u64 + pages + self.guard_pages;
        self.highest = self.highest.max(end - BASE_PAGE);
        self.drain_if_due();
        Area { addr, pages }
    }

    pub(super) fn free(&mut self, area: Area) {
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.space.raw().free(area.addr) }.expect("a live area");
        self.in_use -= area.pages;
        self.drain_if_due();
    }

    pub(super) fn free_all(&mut self, areas: Vec<Area>) {
        areas.into_iter().for_each(|area| self.free(area));
    }

    fn drain_if_due(&mut self) {
        self.calls += 1;
        if played::take_drain() || self.calls.is_multiple_of(self.drain_every) {
            let _ = self.space.drain().expect("this platform refuses nothing");
        }
    }

    /// Makes sure that the space is whole. Returns the counts.
    pub(super) fn end(self, row: String) -> Row {
        let (pairs, most) = (self.calls as f64 / 2.0, self.most_in_use as f64);
        let counts = {
            let tables = self.space.platform().pages().tables.lock();
            [
                tables.fresh as f64 / pairs,
                tables.peak as f64 / most,
                self.highest as f64 / most,
                tables.calls as f64 / pairs,
            ]
        };
        self.space.purge().expect("this platform refuses nothing");
        self.space.verify().expect("a whole space");
        // As the table and its budget have them: equal digits are equal.
        let [fresh, memory, span, calls] = counts.map(|count| (count * 1e4).round() / 1e4);
        Row { row, fresh, memory, span, calls }
    }
}
