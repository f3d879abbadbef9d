//! Moving pages to other addresses, for areas that grow.
//!
//! The kernel moves page tables, not bytes (mremap(2) with `MREMAP_DONTUNMAP`), from one mapping.
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

use crate::error::{mapping_error, platform_error};
use crate::frames::table::Entry;
use crate::guard::Guarding;
use crate::os::map_count::SPLIT;
use crate::os::reservation::{Access, Stuck};
use crate::platform::Linux;
use rustix::io::Errno;
use std::iter;
use vmalloc::{DirectMemory, PageRange, Platform, PlatformError, PlatformFault, Relocate};

/// The most runs that are moved.
const RUNS_MAX: usize = 8;

// SAFETY: a mapped page is memory of this program at its own address, and mmap(2) never places a
// mapping at address zero.
unsafe impl DirectMemory for Linux {}

// SAFETY: `relocate` moves the pages themselves, so `to` holds the content that `from` held.
unsafe impl Relocate for Linux {
    /// Moves neither frame pages, nor pages of which the protection is not known, nor ranges of
    /// more than eight mappings, nor small areas with [`Guards::Userfault`](crate::Guards): for these
    /// it is unsupported. Protections go with the pages.
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.check(from)?;
        self.check(to)?;
        let runs = self.movable_runs(from).filter(|_| self.is_by_mapping(from));
        let runs = runs.filter(|_| from.len() == to.len() && from.intersection(&to).is_none());
        let runs = runs.ok_or_else(|| unsupported(Errno::INVAL))?;
        self.restore(to)?;
        self.admit(to)?;
        let moved = self.memory.budget().take(SPLIT * runs as u64).and_then(|()| self.move_runs(from, to));
        moved.inspect_err(|_| self.put_back(to))?;
        self.leave(from);
        Ok(())
    }
}

impl Linux {
    /// Returns true if the kernel moves `from` with its mapping. It would end the registration of
    /// registered pages, which are few: these are copied.
    fn is_by_mapping(&self, from: PageRange) -> bool {
        match &self.guarding {
            Guarding::Userfault(userfault) => userfault.is_opened(from),
            Guarding::PteMarkers(_) | Guarding::Mprotect(_) => true,
        }
    }

    /// Moves all of `from` or, in the end, nothing.
    fn move_runs(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        for (number, (run, entry)) in (1..).zip(self.runs(from)) {
            let target = counterpart(run, from, to);
            self.table.update(target, |_, _| entry.moved(number));
            self.memory.relocate(run, target).map_err(|Stuck { pages, errno }| {
                let error = move_error(errno);
                if let Some(moved) = PageRange::new(from.start(), run.start() + pages) {
                    self.bring_back(moved, from, to);
                }
                error
            })?;
        }
        Ok(())
    }

    /// Returns the runs of `range`, each of which the kernel may well keep in one mapping, with the
    /// entry of each. Where the kernel keeps one in several all the same, kernels before 6.17
    /// refuse to move it.
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

    /// Moves the pages back that were moved out of `moved`, the begin of `from`.
    #[cold]
    fn bring_back(&self, moved: PageRange, from: PageRange, to: PageRange) {
        for (run, entry) in self.runs(moved) {
            let Err(Stuck { pages, .. }) = self.memory.relocate(counterpart(run, from, to), run) else {
                continue;
            };
            if let Some(rest) = PageRange::new(run.start() + pages, run.end()) {
                self.copy_back(rest, entry, counterpart(rest, from, to));
            }
        }
    }

    /// Copies bytes back where the kernel refuses to move pages back, as it is likely to after it
    /// refused the move. They go into the mapping that they were in. If the kernel has removed that
    /// before it refused, they go into a new one.
    fn copy_back(&self, run: PageRange, entry: Entry, target: PageRange) {
        let writable = self.memory.protect(run, Access::ReadWrite);
        if let Err(errno) = writable.or_else(|_| self.memory.replace(run, Access::ReadWrite)) {
            self.fatal(&format_args!("pages can be moved neither on nor back ({errno})"));
        }
        // SAFETY: the pages at `target` came from `run`, so they are readable, and `run` was just
        // made writable. They are as long as each other and disjoint, as `relocate` has checked.
        // Its caller owns both, so no other thread uses them.
        unsafe { self.memory.copy(target, run) };
        if let Some(access) = entry.private_access().filter(|access| *access != Access::ReadWrite)
            && self.memory.protect(run, access).is_err()
        {
            self.table.update(run, |_, old| old.unsure());
        }
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
        // Several mappings, locked pages, or a kernel before 5.7.
        Errno::FAULT | Errno::INVAL => unsupported(errno),
        _ => mapping_error(["mremap", "mremap (at vm.max_map_count)"], errno),
    }
}

#[cold]
fn unsupported(errno: Errno) -> PlatformError {
    let error = platform_error("moving these pages", errno);
    PlatformError { fault: PlatformFault::Unsupported, ..error }
}
