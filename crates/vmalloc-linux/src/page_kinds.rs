//! Pages that are not [plain](crate::frames::table) any more, and how they become so again.
//!
//! Every change keeps one order, so that [`restore`](Linux::restore) finds all pages to restore
//! (W1), whatever step fails. Entries are written, the mapping is changed, and only then the
//! entries say what is certain (W2).

use crate::error::{mapping_error, platform_error, protect_error};
use crate::frames::table::Entry;
use crate::guard::Guarding;
use crate::os::map_count::{BUDGET, MOVED, SPLIT};
use crate::os::reservation::Access;
use crate::os::swap::{Found, pages};
use crate::platform::Linux;
use vmalloc::{PageRange, PlatformError, Protect, Protection};

/// The call that fails on a lost page.
const LOST: &str = "mmap of pages that another mapping of the program has taken";

// SAFETY: mprotect(2) returns when no CPU can do any more what the new protection forbids.
unsafe impl Protect for Linux {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.check(range)?;
        self.change(range, protection.try_into()?)
    }
}

impl Linux {
    /// Gives pages that were just mapped readable and writable the access that was asked for. If
    /// that fails they are not mapped.
    pub(crate) fn protect_new(&self, range: PageRange, access: Access) -> Result<(), PlatformError> {
        if access == Access::ReadWrite {
            return Ok(());
        }
        self.change(range, access).inspect_err(|_| self.put_back(range))
    }

    fn change(&self, range: PageRange, access: Access) -> Result<(), PlatformError> {
        self.mark_special(range)?;
        BUDGET.take(SPLIT)?;
        self.memory.protect(range, access).map_err(protect_error)?;
        self.table.update(range, |_, old| old.protected(access));
        Ok(())
    }

    /// Makes the pages of `range` special, whatever they were, so that unmapping them replaces
    /// them.
    pub(crate) fn mark_special(&self, range: PageRange) -> Result<(), PlatformError> {
        self.prepare(range)?;
        self.table.update(range, |_, old| old.unsure());
        Ok(())
    }

    /// Makes all special pages in `range` plain. Their content is lost, and so is that of pages
    /// between them. They may be accessible until they are unmapped as plain ones.
    #[inline]
    pub(crate) fn restore(&self, range: PageRange) -> Result<(), PlatformError> {
        if self.table.is_plain(range) {
            return Ok(());
        }
        self.restore_special(range, self.guarding.plain_access())
    }

    /// Makes all special pages in `range` plain, with this access. They read as zero. No mappings
    /// are drawn from the budget: at its end the pages would be lost.
    pub(crate) fn restore_special(&self, range: PageRange, access: Access) -> Result<(), PlatformError> {
        self.table.hulls(range).try_for_each(|hull| {
            self.set_opened(hull);
            // W3
            if let Guarding::PteMarkers(markers) = &self.guarding {
                markers.admit(&self.memory, hull)?;
            }
            self.retake(hull)?;
            let drawn = self.table.borders(self.with_neighbours(hull));
            self.memory.replace(hull, access).map_err(|errno| {
                self.mend(hull);
                mapping_error(["mmap", "mmap (at vm.max_map_count)"], errno)
            })?;
            self.table.update(hull, |_, _| Entry::PLAIN);
            BUDGET.give_back(drawn);
            MOVED.give_back(drawn);
            Ok(())
        })?;
        self.table.forget(range);
        Ok(())
    }

    /// Undoes a mapping that has failed: the memory behind `range`, which is the caller's, is
    /// dropped. If a step of this fails as well, the entries still say so, and the next operation
    /// on these pages begins with restoring them.
    #[cold]
    pub(crate) fn put_back(&self, range: PageRange) {
        // Pages that could not be restored may be another owner's.
        if self.restore(range).is_ok() {
            let _ = self.unmap_plain(&[range]);
        }
    }

    /// Maps again what a refused call has left unmapped of `range`, which was prepared: H3. All of
    /// it is special then, for it can't be accessed.
    #[cold]
    pub(crate) fn mend(&self, range: PageRange) -> Found {
        self.table.update(range, |_, old| old.unsure());
        self.memory.mend(range, |page| self.lose(page))
    }

    /// Mends `range`, which was prepared, and of which each page did trap.
    #[cold]
    pub(crate) fn mend_trapping(&self, range: PageRange) {
        if self.mend(range) == Found::Whole && self.memory.is_readable(range) {
            self.lose(range);
        }
    }

    /// Leaves `range`, which was prepared, to the other owner who has mapped it.
    #[cold]
    pub(crate) fn lose(&self, range: PageRange) {
        self.memory.stay();
        self.table.note_lost(range);
    }

    /// Maps the lost pages of `range`, which was prepared. An error if another owner still has one.
    pub(crate) fn retake(&self, range: PageRange) -> Result<(), PlatformError> {
        if !self.table.has_lost() {
            return Ok(());
        }
        pages(range).filter(|page| self.table.get(page.start()) == Entry::LOST).try_for_each(|page| {
            self.memory.fill(page).map_err(|errno| platform_error(LOST, errno))?;
            self.table.update(page, |_, _| Entry::PLAIN.unsure());
            Ok(())
        })
    }

    /// Opens the chunks of `range`, of which all pages are about to be replaced, and makes room for
    /// their entries: in this order, for W3.
    pub(crate) fn admit(&self, range: PageRange) -> Result<(), PlatformError> {
        if let Guarding::PteMarkers(markers) = &self.guarding {
            markers.admit(&self.memory, range)?;
        }
        // What replaces the pages later is in dumps, and one mapping with what is there then.
        self.admit_to_dumps(range);
        self.prepare(range).and_then(|()| self.retake(range)).inspect_err(|_| self.put_back(range))?;
        self.set_opened(range);
        Ok(())
    }

    /// Has `range` in core dumps, if the guards do not see to that.
    #[inline]
    pub(crate) fn admit_to_dumps(&self, range: PageRange) {
        if let Some(dumps) = &self.dumps {
            dumps.admit(&self.memory, range);
        }
    }

    /// Notes that the mapping of `range` is about to be replaced: U1.
    fn set_opened(&self, range: PageRange) {
        if let Guarding::Userfault(userfault) = &self.guarding {
            userfault.set_opened(range);
        }
    }

    /// Makes room for entries of `range`.
    fn prepare(&self, range: PageRange) -> Result<(), PlatformError> {
        if self.table.is_special(range) {
            return Ok(());
        }
        BUDGET.take(SPLIT)?;
        self.table.prepare(range)
    }

    /// Returns `range` and the pages on either side, as far as they are in the span.
    pub(crate) fn with_neighbours(&self, range: PageRange) -> PageRange {
        let around = PageRange::new(range.start() - 1, range.end() + 1);
        around.and_then(|around| around.intersection(&self.memory.span())).unwrap_or(range)
    }
}
