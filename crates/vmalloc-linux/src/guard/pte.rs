//! Guard pages as marks in the page tables (`MADV_GUARD_INSTALL`, Linux 6.13).
//!
//! # Which thread may change which state
//! - Pages are **opened** and **closed** under [`OPENING`], for two areas may lie in one chunk. The
//!   order of opening is: marks, then access, then the [units](super::opened). A thread that sees
//!   pages open (without the lock) finds F1 to hold. The order of closing is: pages dropped, units,
//!   access, marks.
//! - The whole chunks of a very large range belong to one call. They are opened and closed without
//!   the lock: no other thread waits for what takes as long as the range is.
//! - If a failure, or a fork in another thread, cuts the opening or closing of pages short, they
//!   count as closed. They are opened as if they had never been.
//! - `map` and `unmap` of different ranges in open chunks need no lock: the kernel orders changes
//!   to page tables.
//!
//! # The cost of a change
//! Removing marks interrupts no CPU. Dropping pages interrupts the CPUs that run this program, once
//! for each call. A vector of marks over touched pages interrupts them once for each *range*, and
//! so pages are dropped by one vector first and marked by a second. In between a use-after-free
//! reads zeros instead of trapping. For a single range that is not closed, marks alone do both.

use crate::error::protect_error;
use crate::fork::locks::{self, OPENING};
use crate::guard::chunks::CHUNK_PAGES;
use crate::guard::opened::Opened;
use crate::os::batch::with_batch;
use crate::os::madvise::Advice;
use crate::os::map_count::{BUDGET, SPARE, SPLIT};
use crate::os::reservation::{Access, Reservation};
use libc::iovec;
use rustix::io::Errno;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::{PageRange, PlatformError};

/// From this size on, a range is closed rather than marked.
///
/// A mark is written in 30 ns and removed in as much, however few pages were touched: 256 pages
/// take as long as closing and opening a range, 16 µs. Closing may cost two mappings, where both
/// sides of the range stay open. Those are drawn from the budget of ranges that can do without,
/// which leaves half of the limit alone; beyond it a range is marked.
const CLOSE_PAGES: u64 = 256;

/// From this size on, the whole chunks of a range are opened and closed by themselves. (8 chunks:
/// 64 MiB.)
const ALONE_PAGES: u64 = 8 * CHUNK_PAGES;

/// The page tables below pages that were just mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Below {
    /// None that this reservation has made.
    Nothing,
    /// Some, which held marks.
    Tables,
}

/// Guards by marks in the page tables.
#[derive(Debug)]
pub(crate) struct PteMarkers {
    opened: Opened,
    /// True once an opening or a closing has failed: closed pages may hold marks then.
    is_uneven: AtomicBool,
    /// The generation of forks in which this was made. In a later one another thread's opening may
    /// have been cut short.
    generation: u64,
    /// True if what is open is in core dumps.
    dumps: bool,
}

impl PteMarkers {
    /// Returns guards for a span of which nothing is open, and all is left out of core dumps: a
    /// mark makes the kernel count its whole mapping as written to, and a dump would look through
    /// all of the span, page by page. If it `dumps`, what is open is in dumps.
    pub(crate) fn new(span: PageRange, dumps: bool) -> Result<Self, Errno> {
        Ok(Self {
            dumps,
            opened: Opened::new(span)?,
            is_uneven: AtomicBool::new(false),
            generation: locks::generation(),
        })
    }

    /// Makes `range` accessible. Returns whether some of it had marks, which are gone then.
    pub(crate) fn map(&self, memory: &Reservation, range: PageRange) -> Result<Below, PlatformError> {
        if self.opened.is_open(range) {
            return memory.advise(range, Advice::GuardRemove).map(|()| Below::Tables);
        }
        self.open(memory, range).inspect_err(|_| self.expel(memory, range))
    }

    /// Opens `range`, of which all pages are about to be replaced, and marks what it has opened.
    pub(crate) fn admit(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        if self.opened.is_open(range) {
            return Ok(());
        }
        let opened = self.each_part(range, |part| self.open_closed(memory, range, part, None));
        opened.inspect_err(|_| self.expel(memory, range))
    }

    /// Undoes a mapping that has failed: what was opened for it does not guard `range`.
    /// If marking fails as well, the caller still has not got the range, and the next `map` of it
    /// works. Only a wild access to it would not trap.
    pub(crate) fn expel(&self, memory: &Reservation, range: PageRange) {
        let _ = self.unmap_one(memory, range);
    }

    pub(crate) fn unmap(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        match ranges {
            [range] => self.unmap_one(memory, *range),
            ranges => self.unmap_many(memory, ranges),
        }
    }

    fn unmap_many(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        with_batch(memory, |batch| {
            for range in ranges {
                if range.len() >= CLOSE_PAGES {
                    self.unmap_one(memory, *range)?;
                    continue;
                }
                self.opened.open_runs(*range, |part| batch.push(part, drop_and_mark))?;
            }
            batch.finish(drop_and_mark)
        })
    }

    /// Opens what is closed of `range`, marks what is opened beside it, and removes the marks of
    /// what was open before: also of what another thread has opened meanwhile.
    #[cold]
    fn open(&self, memory: &Reservation, range: PageRange) -> Result<Below, PlatformError> {
        let mut below = Below::Nothing;
        self.each_part(range, |part| {
            let opened = self.opened.open_runs(part, |open| {
                below = Below::Tables;
                memory.advise(open, Advice::GuardRemove)
            });
            opened.inspect_err(|_| self.is_uneven.store(true, Relaxed))?;
            self.open_closed(memory, range, part, Some(range))
        })?;
        Ok(below)
    }

    /// Calls `open` with the whole chunks of a large range, and with the rest under the lock.
    fn each_part(
        &self,
        range: PageRange,
        mut open: impl FnMut(PageRange) -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        let Some([before, chunks, after]) = self.large_parts(range) else {
            let _opening = OPENING.lock();
            return open(range);
        };
        for edge in [before, after].into_iter().flatten() {
            let _opening = OPENING.lock();
            open(edge)?;
        }
        chunks.map_or(Ok(()), open)
    }

    /// Returns the whole chunks of a range that has many, between what is before and after them.
    fn large_parts(&self, range: PageRange) -> Option<[Option<PageRange>; 3]> {
        let chunks = self.opened.whole_chunks(range).filter(|chunks| chunks.len() >= ALONE_PAGES)?;
        let before = PageRange::new(range.start(), chunks.start());
        Some([before, Some(chunks), PageRange::new(chunks.end(), range.end())])
    }

    /// Opens what is closed for `range` in the chunks of `part` of it, and marks all that it opens
    /// but the `accessible` pages.
    #[cold]
    fn open_closed(
        &self,
        memory: &Reservation,
        range: PageRange,
        part: PageRange,
        accessible: Option<PageRange>,
    ) -> Result<(), PlatformError> {
        let opened = self.opened.closed_runs(range, part, |run| self.open_run(memory, run, accessible));
        opened.inspect_err(|_| self.is_uneven.store(true, Relaxed))
    }

    fn open_run(
        &self,
        memory: &Reservation,
        run: PageRange,
        accessible: Option<PageRange>,
    ) -> Result<(), PlatformError> {
        // A run beside an open one moves the border of two mappings, and makes none.
        let (open_sides, _) = self.sides(memory, run);
        if open_sides == 0 {
            BUDGET.take(SPLIT)?;
        }
        // Nothing is mapped there. This unlocks locked pages: the kernel would not mark them, and
        // would put memory behind each once it is accessible.
        memory.advise(run, Advice::DontNeed)?;
        if self.dumps {
            // At the limit on mappings it fails, and then the opening says so.
            let _ = memory.advise(run, Advice::DoDump);
        }
        let accessible = accessible.and_then(|range| range.intersection(&run));
        let (start, end) = accessible.map_or((run.end(), run.end()), |part| (part.start(), part.end()));
        let marked = [PageRange::new(run.start(), start), PageRange::new(end, run.end())];
        marked.into_iter().flatten().try_for_each(|part| memory.advise(part, Advice::GuardInstall))?;
        // Relaxed: pages that were closed with marks in them have come here from their owners, and
        // an opening fails under the same lock.
        let is_uneven = self.is_uneven.load(Relaxed) || locks::generation() != self.generation;
        if let Some(part) = accessible.filter(|_| is_uneven) {
            memory.advise(part, Advice::GuardRemove)?;
        }
        memory.protect(run, Access::ReadWrite).map_err(protect_error)?;
        self.opened.set_open(run);
        // It is one mapping with what is open on both sides.
        if open_sides == 2 {
            BUDGET.give_back(SPLIT);
            SPARE.give_back(SPLIT);
        }
        Ok(())
    }

    /// Returns on how many sides of `run` the next page is open, and on how many it is closed, as
    /// far as there is one in the span.
    #[inline(never)]
    fn sides(&self, memory: &Reservation, run: PageRange) -> (usize, usize) {
        let (mut open, mut closed) = (0, 0);
        for page in [run.start() - 1, run.end()] {
            if memory.span().contains(page) {
                let is_open = PageRange::from_len(page, 1).is_some_and(|page| self.opened.is_open(page));
                *if is_open { &mut open } else { &mut closed } += 1;
            }
        }
        (open, closed)
    }

    fn unmap_one(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        let mark = |part| memory.advise(part, Advice::GuardInstall);
        let units = self.opened.whole_units(range).filter(|_| range.len() >= CLOSE_PAGES);
        let Some(units) = units else { return self.opened.open_runs(range, mark) };
        // What takes as long as the range is comes first, without the lock.
        let mut done = self.opened.open_runs(units, |run| memory.advise(run, Advice::DontNeed));
        for edge in [PageRange::new(range.start(), units.start()), PageRange::new(units.end(), range.end())] {
            done = done.and(edge.map_or(Ok(()), |edge| self.opened.open_runs(edge, mark)));
        }
        done?;
        self.each_part(units, |part| self.opened.open_runs(part, |run| self.close(memory, run)))
    }

    /// Returns the chunks of which something is open.
    pub(crate) fn open_chunks(&self) -> impl Iterator<Item = PageRange> + '_ {
        self.opened.open_chunks()
    }

    /// Closes the whole units of `range`, in which nothing is mapped: it is the caller's.
    pub(crate) fn close_unused(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        let Some(units) = self.opened.whole_units(range) else { return Ok(()) };
        self.opened.open_runs(units, |run| memory.advise(run, Advice::DontNeed))?;
        self.each_part(units, |part| self.opened.open_runs(part, |run| self.close(memory, run)))
    }

    /// Makes a run of open units inaccessible, whose pages were dropped. At the limit on mappings
    /// it is marked throughout instead, which serves as well.
    fn close(&self, memory: &Reservation, run: PageRange) -> Result<(), PlatformError> {
        // A run beside a closed one moves the border of two mappings, and makes none.
        let (open_sides, closed_sides) = self.sides(memory, run);
        if closed_sides == 0 && SPARE.take(SPLIT).and_then(|()| BUDGET.take(SPLIT)).is_err() {
            return memory.advise(run, Advice::GuardInstall);
        }
        self.opened.set_closed(run);
        if memory.protect(run, Access::None).is_ok() {
            // Dropping pages has left the marks between them.
            if memory.advise(run, Advice::GuardRemove).is_err() {
                self.is_uneven.store(true, Relaxed);
            }
            // It is one mapping with what is closed on both sides.
            if open_sides == 0 {
                BUDGET.give_back(SPLIT);
            }
            // As what is closed beside it, so that they are one mapping. At the limit on mappings
            // it stays one of its own.
            let _ = memory.advise(run, Advice::DontDump);
            return Ok(());
        }
        self.is_uneven.store(true, Relaxed);
        let marked = memory.advise(run, Advice::GuardInstall);
        // A run of several mappings may be half done. Going back splits nothing.
        let is_open = memory.protect(run, Access::ReadWrite).is_ok();
        // Also where it could not be marked, so that the next purge finds it. A run that is marked,
        // and can't be opened, is as closed as any.
        if is_open || marked.is_err() {
            self.opened.set_open(run);
        }
        marked
    }
}

/// Unmaps a batch: one interrupt for all of it. Dropping first saves none for a batch of one or
/// without vectors. There marks alone do, and leave no gap.
fn drop_and_mark(memory: &Reservation, runs: &[iovec]) -> Result<(), PlatformError> {
    if runs.len() > 1 && memory.takes_batches() {
        memory.advise_all(runs, Advice::DontNeed)?;
    }
    memory.advise_all(runs, Advice::GuardInstall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Guarding;
    use crate::{GuardMeans, Linux, LinuxOptions};
    use vmalloc::SpaceOptions;
    use vmalloc_harness::in_own_process;

    /// Returns a span of 4 GiB and its guards, if the kernel has marks.
    fn linux() -> Option<Linux> {
        let options = LinuxOptions::new().max_bytes(4 << 30).guard_means(GuardMeans::PteMarkers);
        let linux = Linux::reserve(options, &SpaceOptions::default()).ok();
        if linux.is_none() {
            vmalloc_harness::not_run("guard marks", "the kernel has none");
        }
        linux
    }

    fn markers(linux: &Linux) -> &PteMarkers {
        let Guarding::PteMarkers(markers) = &linux.guarding else { unreachable!("they were asked for") };
        markers
    }

    /// A mark for each page would make an area cost by its size, however little of it was touched.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no guard marks")]
    fn a_large_area_between_others_is_unmapped_and_mapped_without_marks() {
        let Some(linux) = linux() else { return };
        let (memory, markers) = (&linux.memory, markers(&linux));
        for pages in [CLOSE_PAGES, 1000, 1024, 4096 + 7, 16_384, 100_000, 1 << 18] {
            let start = memory.span().start() + 3;
            let [before, area, behind] = [(start, 5), (start + 6, pages), (start + 7 + pages, 5)]
                .map(|(start, pages)| PageRange::from_len(start, pages).unwrap());
            for range in [before, area, behind] {
                markers.map(memory, range).unwrap();
            }
            for _ in 0..3 {
                markers.unmap(memory, &[area]).unwrap();
                let mut marked = 0;
                let Ok(()) = markers.opened.open_runs(area, |run| {
                    marked += run.len();
                    Ok::<_, std::convert::Infallible>(())
                });
                assert!(marked < 2 * 64, "{marked} of {pages} pages are marked");
                assert!(markers.opened.is_open(before) && markers.opened.is_open(behind));
                markers.map(memory, area).unwrap();
                assert!(markers.opened.is_open(area));
            }
            markers.unmap(memory, &[before, area, behind]).unwrap();
        }
    }

    /// A program near the limit would mark such an area page by page, after a while.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no guard marks")]
    fn a_large_area_that_comes_and_goes_between_others_draws_no_mappings_in_the_end() {
        in_own_process(|| {
            let Some(linux) = linux() else { return };
            let (memory, markers) = (&linux.memory, markers(&linux));
            let start = memory.span().start();
            let [all, area] = [(start, 4096), (start + 64, 1024)]
                .map(|(start, pages)| PageRange::from_len(start, pages).unwrap());
            markers.map(memory, all).unwrap();
            let come_and_go = || {
                markers.unmap(memory, &[area]).unwrap();
                markers.map(memory, area).unwrap();
                [BUDGET.left(), SPARE.left()]
            };
            let before = come_and_go();
            for _ in 0..50 {
                come_and_go();
            }
            assert_eq!(come_and_go(), before);
        });
    }

    /// A large area takes long to open, and no other allocation waits for it.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no guard marks")]
    fn whole_chunks_of_a_large_range_are_opened_without_the_lock() {
        let Some(linux) = linux() else { return };
        let markers = markers(&linux);
        let start = linux.memory.span().start();
        let chunks = PageRange::new(start, start + ALONE_PAGES).unwrap();
        let held = OPENING.lock();
        assert_eq!(markers.map(&linux.memory, chunks), Ok(Below::Nothing));
        drop(held);
        let edge = PageRange::new(chunks.end(), chunks.end() + 1).unwrap();
        assert_eq!(markers.map(&linux.memory, edge), Ok(Below::Nothing));
        assert!(markers.opened.is_open(chunks) && markers.opened.is_open(edge));
    }
}
