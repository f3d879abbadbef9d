//! Moving pages to other addresses, for areas that grow.
//!
//! The kernel moves page tables, not bytes (mremap(2) with `MREMAP_DONTUNMAP`), from one mapping:
//! first to a place that it chooses, and from there to the target, see [`swap`](crate::os::swap).
//! That takes up to twice as long as one call (50 µs for 6 MiB), and a hundredth of a copy.
//! It does not merge the moved pages with their new neighbours, so they are marked
//! [special](crate::frames::table) and replaced when they are unmapped. The mapping that they came
//! from stays, with nothing in it: it is made to fault as any free range is.
//!
//! # Runs
//! ```text
//!   moved once, and grown        │ 1          │ plain │
//!   moved again, and grown       │ 1          │ 2     │ plain   │      one mapping, and one mremap(2), each
//! ```
//! An area of several mappings is moved run by run of equal entries, which number the mappings. The
//! kernel never merges them, so each move adds one. Beyond [`RUNS_MAX`] moving is unsupported, and
//! the copy that the caller makes is in one mapping again.

use crate::error::{mapping_error, refusal};
use crate::frames::table::Entry;
use crate::guard::Guarding;
use crate::os::map_count::{BUDGET, MOVED, SPLIT};
use crate::os::reservation::Access;
use crate::platform::Linux;
use rustix::io::Errno;
use std::ffi::c_void;
use std::fmt::Display;
use std::iter;
use std::ptr;
use vmalloc::{DirectMemory, PageRange, Platform, PlatformError, PlatformFault, ReadNofault, Relocate};

/// Areas of so many pages are copied: up to there a copy takes no longer than the two calls that
/// move an area, and costs no mappings. (1 page: 27 µs beside 41; 4: 39 beside 44; 8: 73 beside 48,
/// on a busy machine.)
const COPIED_PAGES: u64 = 4;

/// The most runs that are moved.
const RUNS_MAX: usize = 8;

/// Bytes that are copied at once, on the stack. A page is a whole number of blocks.
const BLOCK: usize = 512;

// SAFETY: a mapped page is memory of this program at its own address, and mmap(2) never places a
// mapping at address zero.
unsafe impl DirectMemory for Linux {}

// SAFETY: `relocate` moves the pages themselves, so `to` holds the content that `from` held.
unsafe impl Relocate for Linux {
    /// Moves neither areas of four pages or less, nor frame pages, nor pages of which the
    /// protection is not known, nor ranges of more than eight mappings, nor areas that got their
    /// pages from the stash of [`GuardMeans::Userfault`](crate::GuardMeans): for these it is unsupported.
    /// Protections go with the pages.
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.check(from)?;
        self.check(to)?;
        let runs = self.movable_runs(from).filter(|_| from.len() > COPIED_PAGES && self.is_by_mapping(from));
        let runs = runs.filter(|_| from.len() == to.len() && from.intersection(&to).is_none());
        let runs = runs.ok_or_else(|| unsupported(Errno::INVAL))?;
        self.make_room(to)?;
        // Each run becomes a mapping beside the last one. For the one on its way, which is gone in
        // the end, the eighth is there.
        let drawn = SPLIT + runs as u64 - 1;
        let drawn = MOVED.take(drawn).and_then(|()| BUDGET.take(drawn));
        drawn.and_then(|()| self.move_runs(from, to)).inspect_err(|_| self.put_back(to))?;
        self.leave(from);
        Ok(())
    }
}

impl Linux {
    /// Returns true if the kernel moves `from` with its mapping. It would end the registration of
    /// registered pages, which are fewer than 1,024: these are copied.
    fn is_by_mapping(&self, from: PageRange) -> bool {
        match &self.guarding {
            Guarding::Userfault(userfault) => userfault.is_opened(from),
            Guarding::PteMarkers(_) | Guarding::Mprotect(_) => true,
        }
    }

    /// Makes `to` ready to be replaced. Until then each of its pages traps.
    fn make_room(&self, to: PageRange) -> Result<(), PlatformError> {
        if !self.table.is_plain(to) {
            self.restore(to)?;
            self.unmap_plain(&[to])?;
        }
        self.admit(to)
    }

    /// Moves all of `from` or, in the end, nothing.
    fn move_runs(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        for (number, (run, entry)) in (1..).zip(self.runs(from)) {
            self.move_run(run, entry, number, counterpart(run, from, to)).inspect_err(|_| {
                let moved = PageRange::new(from.start(), run.start());
                moved.into_iter().for_each(|moved| self.bring_back(moved, from, to));
            })?;
        }
        Ok(())
    }

    /// Moves a run that has this entry to `target`, where it is mapping `number`. In between its
    /// pages are at a place that the kernel chooses. A child of a fork at that moment has them
    /// there, for the thread that it lacks.
    fn move_run(
        &self,
        run: PageRange,
        entry: Entry,
        number: u32,
        target: PageRange,
    ) -> Result<(), PlatformError> {
        let lifted = self.memory.lift(run).map_err(move_error)?;
        self.table.update(target, |_, _| entry.moved(number));
        self.memory.place(lifted, target).map_err(|(errno, lifted)| {
            self.mend_trapping(target);
            self.copy_back(run, entry, lifted.base().as_ptr());
            move_error(errno)
        })
    }

    /// Returns the runs of `range`, each of which the kernel may well keep in one mapping, with the
    /// entry of each. Where the kernel keeps one in several all the same, it refuses to move it.
    fn runs(&self, range: PageRange) -> impl Iterator<Item = (PageRange, Entry)> {
        let mut rest = Some(range);
        iter::from_fn(move || {
            let range = rest?;
            let entry = self.table.get(range.start());
            let differs = |page: &u64| self.table.get(*page) != entry;
            let end = (range.start()..range.end()).find(differs).unwrap_or(range.end());
            rest = PageRange::new(end, range.end());
            PageRange::new(range.start(), end).map(|run| (run, entry))
        })
    }

    /// Returns how many runs `range` has, if all can be moved.
    fn movable_runs(&self, range: PageRange) -> Option<usize> {
        let mut runs = self.runs(range).take(RUNS_MAX + 1);
        let count = runs.try_fold(0, |count, (_, entry)| entry.private_access().map(|_| count + 1));
        count.filter(|count| *count <= RUNS_MAX)
    }

    /// Copies the pages back that were moved out of `moved`, the begin of `from`.
    #[cold]
    fn bring_back(&self, moved: PageRange, from: PageRange, to: PageRange) {
        for (run, entry) in self.runs(moved) {
            self.copy_back(run, entry, self.memory.run(counterpart(run, from, to)).iov_base);
        }
    }

    /// Copies the bytes at `source` back to `run`, which they were moved out of and which reads as
    /// zero.
    #[cold]
    fn copy_back(&self, run: PageRange, entry: Entry, source: *mut c_void) {
        let access = entry.private_access().unwrap_or(Access::None);
        let target = self.memory.run(run);
        if access != Access::ReadWrite {
            self.memory.protect(run, Access::ReadWrite).unwrap_or_else(|errno| self.is_stuck(&errno));
        }
        let mut block = [0; BLOCK];
        for offset in (0..target.iov_len).step_by(BLOCK) {
            if self.read_nofault(source.addr() + offset, &mut block) < BLOCK {
                self.is_stuck(&"nor can they be read");
            }
            if block == [0; BLOCK] {
                continue;
            }
            let to = target.iov_base.cast::<u8>().wrapping_add(offset);
            // SAFETY: the page is in a range that the caller of `relocate` owns, so no other thread
            // uses it. It is writable, as it was or was just made, and whole blocks long.
            unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to, BLOCK) };
        }
        if access != Access::ReadWrite && self.memory.protect(run, access).is_err() {
            self.table.update(run, |_, old| old.unsure());
        }
    }

    /// Stops the program: what the pages hold would be lost.
    fn is_stuck(&self, why: &dyn Display) -> ! {
        self.fatal(&format_args!("pages can be moved neither on nor back ({why})"))
    }

    /// Makes `from` fault, of which the pages have gone. If that fails, a wild access finds zeros
    /// until the caller unmaps the range, as it has to.
    fn leave(&self, from: PageRange) {
        let _ = self.unmap_plain(&[from]);
    }
}

/// Returns the part of `to` that is as far into it as `run` is into `from`, which is as long.
fn counterpart(run: PageRange, from: PageRange, to: PageRange) -> PageRange {
    PageRange::from_len(to.start() + (run.start() - from.start()), run.len()).unwrap_or(to)
}

#[cold]
fn move_error(errno: Errno) -> PlatformError {
    match errno {
        // Several mappings, or locked pages.
        Errno::FAULT | Errno::INVAL => unsupported(errno),
        _ => mapping_error(["mremap", "mremap (at vm.max_map_count)"], errno),
    }
}

#[cold]
fn unsupported(errno: Errno) -> PlatformError {
    refusal("moving these pages", PlatformFault::Unsupported, errno)
}
