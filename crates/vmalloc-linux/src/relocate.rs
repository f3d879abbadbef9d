//! Moving pages to other addresses, for areas that grow.
//!
//! The kernel moves page tables, not bytes (mremap(2) with `MREMAP_DONTUNMAP`), from one mapping. It does not merge
//! what was moved with its new neighbours, so these pages are marked [special](crate::table) and replaced when they are
//! unmapped. The mapping that they came from stays, with nothing in it: it is made to fault as any free range is.

use crate::budget::SPLIT;
use crate::error::{mapping_error, platform_error};
use crate::platform::Linux;
use crate::table::Entry;
use rustix::io::Errno;
use vmalloc::{DirectMemory, PageRange, PlatformError, PlatformFault};

// SAFETY: a mapped page is memory of this program at its own address, and mmap(2) never places a mapping at
// address zero.
unsafe impl DirectMemory for Linux {
    /// Windows are not moved, nor ranges that the kernel keeps in several mappings, as parts of different protection: for
    /// these it is unsupported.
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.check(from)?;
        self.check(to)?;
        if from.len() != to.len() || from.intersection(&to).is_some() || !self.is_movable(from) {
            return Err(unsupported(Errno::INVAL));
        }
        self.restore(to)?;
        self.admit(to)?;
        self.move_pages(from, to).inspect_err(|_| self.put_back(to))?;
        self.leave(from);
        Ok(())
    }
}

impl Linux {
    fn move_pages(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        self.budget.take(SPLIT)?;
        self.table.update(to, |_, _| Entry::MARKED);
        self.memory.relocate(from, to).map_err(|errno| match errno {
            // Several mappings, locked pages, or a kernel before 5.7.
            Errno::FAULT | Errno::INVAL => unsupported(errno),
            _ => mapping_error(["mremap", "mremap (at vm.max_map_count)"], errno),
        })
    }

    /// Whether `range` may well be in one mapping, and of private memory. Were it in several for all that, old kernels
    /// would refuse to move it; kernels from 6.17 on move one mapping after the other.
    fn is_movable(&self, range: PageRange) -> bool {
        let first = self.table.get(range.start());
        first.frame().is_none() && (range.start()..range.end()).all(|page| self.table.get(page) == first)
    }

    /// Makes `from` fault, of which the pages have gone. Should that fail, a stray access finds zeros until the caller
    /// unmaps the range, as it has to.
    fn leave(&self, from: PageRange) {
        let _ = self.unmap_plain(&[from]);
    }
}

fn unsupported(errno: Errno) -> PlatformError {
    let error = platform_error("moving these pages", errno);
    PlatformError { fault: PlatformFault::Unsupported, ..error }
}
