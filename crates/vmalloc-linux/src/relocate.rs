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
use crate::os::reservation::Access;
use crate::platform::Linux;
use rustix::io::Errno;
use std::iter;
use std::ptr;
use vmalloc::{DirectMemory, PageRange, Platform, PlatformError, PlatformFault, ReadNofault, Relocate};

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
            self.memory.relocate(run, target).map_err(|errno| {
                self.copy_back(run, entry, target);
                if let Some(moved) = PageRange::new(from.start(), run.start()) {
                    self.bring_back(moved, from, to);
                }
                move_error(errno)
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
            let target = counterpart(run, from, to);
            if self.memory.relocate(target, run).is_err() {
                self.copy_back(run, entry, target);
            }
        }
    }

    /// Copies bytes from `target` back to `run`, from where some of them were moved: as many as the
    /// kernel moved before it refused. There is no asking how many. But what was moved is the begin
    /// of `target`, and its pages in `run` read as zero now. What was not moved traps in `target`,
    /// or reads as zero. So all that is found in `target` belongs into `run`.
    #[cold]
    fn copy_back(&self, run: PageRange, entry: Entry, target: PageRange) {
        let access = entry.private_access().unwrap_or(Access::None);
        let mut is_changed = self.fill_holes(run);
        for (page, source) in pages(run).zip(pages(target)) {
            match self.copy_page_back(page, source, access) {
                Some(is_copied) => is_changed |= is_copied,
                None => break,
            }
        }
        if is_changed && access != Access::ReadWrite && self.memory.protect(run, access).is_err() {
            self.table.update(run, |_, old| old.unsure());
        }
    }

    /// Puts fresh memory behind the pages of `run` that have lost their mapping. Returns true if
    /// some had.
    fn fill_holes(&self, run: PageRange) -> bool {
        if !self.memory.has_hole(run) {
            return false;
        }
        for page in pages(run).filter(|page| self.memory.has_hole(*page)) {
            self.memory.replace(page, Access::ReadWrite).unwrap_or_else(|errno| self.is_stuck(errno));
        }
        true
    }

    /// Copies one page, if there is more than zeros in it. Returns true if it has; `None` if the
    /// page can't be read.
    fn copy_page_back(&self, page: PageRange, source: PageRange, access: Access) -> Option<bool> {
        let (target, source) = (self.memory.run(page), self.memory.run(source));
        let (mut block, mut is_copied) = ([0; 4096], false);
        for offset in (0..target.iov_len).step_by(block.len()) {
            if self.read_nofault(source.iov_base.addr() + offset, &mut block) != block.len() {
                return None;
            }
            if block.iter().all(|byte| *byte == 0) {
                continue;
            }
            if !is_copied && access != Access::ReadWrite {
                let writable = self.memory.protect(page, Access::ReadWrite);
                writable.unwrap_or_else(|errno| self.is_stuck(errno));
            }
            let to = target.iov_base.cast::<u8>().wrapping_add(offset);
            // SAFETY: the page is in a range that the caller of `relocate` owns, so no other thread
            // uses it. It is writable, as it was or was just made, and whole blocks long.
            unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to, block.len()) };
            is_copied = true;
        }
        Some(is_copied)
    }

    fn is_stuck(&self, errno: Errno) {
        self.fatal(&format_args!("pages can be moved neither on nor back ({errno})"));
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

/// Returns the pages of `range`, each by itself.
fn pages(range: PageRange) -> impl Iterator<Item = PageRange> {
    (range.start()..range.end()).filter_map(|page| PageRange::from_len(page, 1))
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
