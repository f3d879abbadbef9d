//! Guard pages as marks in the page tables (`MADV_GUARD_INSTALL`, Linux 6.13).
//!
//! # Which thread may change which state
//! - Chunks are **opened** under [`OPENING`], for two areas may lie in one chunk. The order is:
//!   marks, then access, then the [state](super::chunks). A thread that sees the chunk open
//!   (without the lock) finds F1 to hold.
//! - Chunks are **closed** without the lock: only chunks that lie wholly inside a range being
//!   unmapped, which belongs to that one call. The order is: pages dropped, state, access.
//! - If a failure, or a fork in another thread, cuts the opening or closing of a chunk short, the
//!   chunk counts as closed. It is opened as if it had never been.
//! - `map` and `unmap` of different ranges in open chunks need no lock: the kernel orders changes
//!   to page tables.
//!
//! # The cost of a change
//! Removing marks interrupts no CPU. Dropping pages interrupts the CPUs that run this program, once
//! for each call. A vector of marks over touched pages interrupts them once for each *range*, and
//! so pages are dropped by one vector first and marked by a second. In between a use-after-free
//! reads zeros instead of trapping. For a single range, marks alone do both.

use crate::error::protect_error;
use crate::fork::locks::OPENING;
use crate::guard::chunks::{CHUNK_PAGES, Chunks, State};
use crate::means::BatchAdvise;
use crate::os::batch::Batch;
use crate::os::madvise::Advice;
use crate::os::reservation::{Access, Reservation};
use libc::iovec;
use rustix::io::Errno;
use vmalloc::{PageRange, PlatformError};

/// From this size on, the whole chunks of a range are closed rather than marked. (8 chunks: 64
/// MiB.)
///
/// Marking 64 MiB takes 0.5 ms and 128 KiB of page tables. Closing it takes a few µs, but it may
/// cost two mappings. At this size even a terabyte with every second piece closed stays at a
/// quarter of the default `vm.max_map_count`.
const CLOSE_PAGES: u64 = 8 * CHUNK_PAGES;

/// Guards by marks in the page tables.
#[derive(Debug)]
pub(crate) struct PteMarkers {
    chunks: Chunks,
}

impl PteMarkers {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        Chunks::new(span).map(|chunks| Self { chunks })
    }

    pub(crate) fn map(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        if self.chunks.is_open(range) {
            return memory.advise(range, Advice::GuardRemove);
        }
        self.admit(memory, range)?;
        memory.advise(range, Advice::GuardRemove).inspect_err(|_| self.expel(memory, range))
    }

    /// Returns true if the chunks of `range` are open.
    pub(crate) fn is_open(&self, range: PageRange) -> bool {
        self.chunks.is_open(range)
    }

    /// Opens the chunks of `range`. Its pages are marked where the chunks were open, and accessible
    /// where they were not: in any case they are about to be replaced.
    pub(crate) fn admit(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        if self.chunks.is_open(range) {
            return Ok(());
        }
        self.open(memory, range).inspect_err(|_| self.expel(memory, range))
    }

    /// Undoes a mapping that has failed: the chunks that were opened for it do not guard `range`.
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

    /// A function of its own, so that only a batch pays for the stack of a batch.
    #[inline(never)]
    fn unmap_many(&self, memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let mut batch = Batch::new(memory);
        for range in ranges {
            if range.len() >= CLOSE_PAGES {
                self.unmap_one(memory, *range)?;
                continue;
            }
            for part in self.chunks.runs(*range, State::Open) {
                batch.push(part, drop_and_mark)?;
            }
        }
        batch.finish(drop_and_mark)
    }

    /// Opens the closed chunks that `range` touches, marking everything in them but `range`.
    #[cold]
    fn open(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        let _opening = OPENING.lock();
        let whole = self.chunks.round_out(range);
        self.chunks.runs(whole, State::Closed).try_for_each(|run| self.open_run(memory, run, range))
    }

    fn open_run(&self, memory: &Reservation, run: PageRange, range: PageRange) -> Result<(), PlatformError> {
        // Nothing is mapped there. This unlocks locked pages: the kernel would not mark them, and
        // would put memory behind each once it is accessible.
        memory.advise(run, Advice::DontNeed)?;
        let before = PageRange::new(run.start(), range.start());
        let after = PageRange::new(range.end(), run.end());
        for gap in [before, after].into_iter().flatten() {
            memory.advise(gap, Advice::GuardInstall)?;
        }
        memory.protect(run, Access::ReadWrite).map_err(protect_error)?;
        self.chunks.set(run, State::Open);
        Ok(())
    }

    fn unmap_one(&self, memory: &Reservation, range: PageRange) -> Result<(), PlatformError> {
        let closes = range.len() >= CLOSE_PAGES;
        self.chunks.runs(range, State::Open).try_for_each(|part| self.unmap_run(memory, part, closes))
    }

    /// Unmaps a run of pages in open chunks, and closes whole ones if it is part of a large range.
    ///
    /// A large range may have few open chunks, far from each other: a reserved area with a little
    /// committed. Each is a mapping of its own, and splits another. Closing it takes both back.
    fn unmap_run(&self, memory: &Reservation, run: PageRange, closes: bool) -> Result<(), PlatformError> {
        let Some(chunks) = self.chunks.round_in(run).filter(|_| closes) else {
            return memory.advise(run, Advice::GuardInstall);
        };
        let before = PageRange::new(run.start(), chunks.start());
        let after = PageRange::new(chunks.end(), run.end());
        for edge in [before, after].into_iter().flatten() {
            memory.advise(edge, Advice::GuardInstall)?;
        }
        self.close(memory, chunks)
    }

    /// Closes whole chunks. At the limit on mappings they are marked throughout instead, which
    /// serves as well.
    fn close(&self, memory: &Reservation, chunks: PageRange) -> Result<(), PlatformError> {
        memory.advise(chunks, Advice::DontNeed)?;
        self.chunks.set(chunks, State::Closed);
        memory.protect(chunks, Access::None).or_else(|_| memory.advise(chunks, Advice::GuardInstall))
    }
}

/// Unmaps a batch: one interrupt for all of it. Dropping first saves none for a batch of one or
/// without vectors. There marks alone do, and leave no gap.
fn drop_and_mark(memory: &Reservation, runs: &[iovec]) -> Result<(), PlatformError> {
    if runs.len() > 1 && memory.sender().vectors() != BatchAdvise::Loop {
        memory.advise_all(runs, Advice::DontNeed)?;
    }
    memory.advise_all(runs, Advice::GuardInstall)
}
