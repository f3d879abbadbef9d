//! Questions about the whole space, and the checks of it.

use crate::oracle::facts;
use crate::player::{Player, is_short};
use vmalloc::area_map::State;
use vmalloc::{PageRange, Platform};

impl<P: Platform> Player<'_, P> {
    /// Returns the pages that are handed out, ascending: those of areas with their guards, and of
    /// blocks.
    pub(crate) fn taken(&self) -> Vec<PageRange> {
        let areas = self.oracle.areas.iter();
        let own = areas.filter(|area| self.oracle.is_inside(area) && area.what.kind().is_some());
        let blocks = self.space.areas().filter(is_short);
        let blocks = blocks.map(|area| {
            let pages = area.pages + u64::from(area.guard);
            PageRange::from_len((area.addr >> self.place.shift) as u64, pages).expect("a block has pages")
        });
        let mut all: Vec<_> = own.map(|area| self.oracle.range(area)).chain(blocks).collect();
        all.sort_unstable_by_key(PageRange::start);
        all
    }

    /// Returns whether `size` bytes can be placed, if everything freed is back.
    pub(crate) fn has_room(&self, size: u64, align: u64, within: PageRange) -> bool {
        let (taken, span) = (self.taken(), self.addrs(self.place.span));
        let taken: Vec<_> = taken.iter().map(|&pages| self.addrs(pages)).collect();
        let starts = [span.start()].into_iter().chain(taken.iter().map(PageRange::end));
        let ends = taken.iter().map(PageRange::start).chain([span.end()]);
        starts.zip(ends).any(|(start, end)| {
            let (start, end) = (start.max(within.start()), end.min(within.end()));
            let place = start.checked_next_multiple_of(align).and_then(|start| start.checked_add(size));
            place.is_some_and(|place| place <= end)
        })
    }

    /// Returns the addresses of pages.
    pub(crate) fn addrs(&self, pages: PageRange) -> PageRange {
        pages.times(1 << self.place.shift)
    }

    /// Compares the counts.
    pub(crate) fn check_counts(&self) {
        if self.is_shared {
            return;
        }
        let stats = self.space.stats();
        let waiting = stats.lazy_pages + stats.cached_pages + stats.pooled_pages;
        let sum = stats.free_pages + stats.busy_pages + waiting;
        assert_eq!((sum, stats.span_pages), (self.place.span.len(), self.place.span.len()), "{stats:?}");
        let areas = self.oracle.areas.iter().filter(|area| area.what.kind().is_some());
        let own = areas.fold((0, 0), |(areas, pages), area| {
            (areas + 1, pages + area.pages.len() as u64 + u64::from(area.guard))
        });
        let shorts = if stats.tenant_areas > 0 || self.has_shorts() { self.block_counts() } else { (0, 0) };
        // Blocks count as areas until they wait for a flush or for their release.
        let is_right = |got: u64, own: u64, block: u64| (own..=own + block).contains(&got);
        let right =
            is_right(stats.busy_areas, own.0, shorts.0) && is_right(stats.busy_pages, own.1, shorts.1);
        assert!(right, "the oracle has {own:?} areas and pages, blocks have {shorts:?}: {stats:?}");
    }

    fn has_shorts(&self) -> bool {
        self.oracle.areas.iter().any(|area| area.what.kind().is_none())
    }

    fn block_counts(&self) -> (u64, u64) {
        let areas = self.space.areas().filter(is_short);
        areas.fold((0, 0), |(areas, pages), area| (areas + 1, pages + area.pages + u64::from(area.guard)))
    }

    /// Checks every invariant, and that the machine has found no misuse.
    pub(crate) fn check_all(&self) {
        self.space.verify().unwrap_or_else(|violation| panic!("{violation:?}"));
        let faults = self.program.look.faults(self.space.platform());
        assert!(faults.is_empty(), "the machine has found misuses: {faults:?}");
        self.check_walks();
    }

    /// Compares walks over the whole space with the oracle.
    pub(crate) fn check_walks(&self) {
        let own = self.space.areas().filter(|area| !is_short(area));
        let found: Vec<_> = own.map(|area| facts(&area)).collect();
        let mut want: Vec<_> = self.oracle.areas.iter().filter_map(|area| self.oracle.info(area)).collect();
        want.sort_unstable_by_key(|area| area.0);
        assert_eq!(found, want);
        let (mut end, mut free, mut retired) = (self.place.span.start(), 0, 0);
        let mut was_free = false;
        for segment in self.space.segments() {
            let is_free = segment.state == State::Free;
            assert_eq!(segment.range.start(), end, "segments follow each other");
            assert!(!(is_free && was_free), "free ranges are joined: {segment:?}");
            free += if is_free { segment.range.len() } else { 0 };
            retired += u64::from(segment.state == State::Retired);
            (end, was_free) = (segment.range.end(), is_free);
        }
        let stats = self.space.stats();
        assert_eq!((end, free), (self.place.span.end(), stats.free_pages));
        let kept = self.space.cached().fold((0, 0), |sum, (area, _)| (sum.0 + 1, sum.1 + area.len()));
        let counted = (stats.cached_areas + stats.pooled_areas, stats.cached_pages + stats.pooled_pages);
        assert!(retired >= kept.0, "{retired} areas are retired: {stats:?}");
        // Blocks that wait for their release count as well.
        let is_right =
            kept == counted || stats.tenant_areas > 0 && kept.0 <= counted.0 && kept.1 <= counted.1;
        assert!(is_right, "a walk over what is kept finds {kept:?} areas and pages: {stats:?}");
    }
}
