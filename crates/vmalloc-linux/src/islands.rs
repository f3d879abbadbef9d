//! Guard pages as inaccessible mappings, for kernels without guard marks.
//!
//! The whole span begins inaccessible; `map` makes a range accessible, `unmap` drops its pages and makes it
//! inaccessible again. The kernel keeps each maximal run of equal access as one mapping (it merges neighbours
//! itself), so an area with its guard page costs two, and `vm.max_map_count` is the limit on areas.
//!
//! At that limit every mmap(2) of the program fails, and malloc(3) with it. So `map` leaves an eighth of the
//! limit alone ([`Budget`]), and refuses with [`MapLimit`](vmalloc::PlatformFault::MapLimit) before the
//! kernel would. `unmap` asks nobody: taking an area away in one piece gives mappings back, and the
//! eighth is there for the cases that split. Should it be used up as well, `unmap` fails with the same fault.
//!
//! A scattered purge drops all pages by vectors first, at one interrupt a vector. The mprotect(2) for each
//! range after it then finds nothing to change in the page tables, and interrupts nobody.

use crate::advise::Advice;
use crate::batch::Batch;
use crate::error::{platform_error, protect_error};
use crate::limits;
use crate::memory::{Access, Memory};
use libc::iovec;
use rustix::io::Errno;
use std::sync::atomic::{AtomicI64, Ordering};
use vmalloc::{PageRange, PlatformError, PlatformFault};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Islands {
    budget: Budget,
}

impl Islands {
    pub(crate) fn map(&self, memory: &Memory, range: PageRange) -> Result<(), PlatformError> {
        self.budget.take()?;
        memory.protect(range, Access::ReadWrite).map_err(|errno| {
            // A range over several mappings may be half done. Going back splits nothing, so it can't fail for
            // want of mappings.
            let _ = memory.protect(range, Access::None);
            protect_error(errno)
        })
    }

    pub(crate) fn unmap(&self, memory: &Memory, ranges: &[PageRange]) -> Result<(), PlatformError> {
        drop_pages(memory, ranges)?;
        // All are tried, whatever becomes of one: those that merge make room for those that split.
        let refused =
            ranges.iter().map(|range| memory.protect(*range, Access::None)).fold(Ok(()), Result::and);
        refused.map_err(protect_error)
    }
}

fn drop_pages(memory: &Memory, ranges: &[PageRange]) -> Result<(), PlatformError> {
    match ranges {
        [range] => memory.advise(*range, Advice::DontNeed),
        ranges => drop_many(memory, ranges),
    }
}

/// Apart, so that only a batch pays for the stack of a batch.
#[inline(never)]
fn drop_many(memory: &Memory, ranges: &[PageRange]) -> Result<(), PlatformError> {
    let mut batch = Batch::new(memory);
    ranges.iter().try_for_each(|range| batch.push(*range, drop_runs))?;
    batch.finish(drop_runs)
}

fn drop_runs(memory: &Memory, runs: &[iovec]) -> Result<(), PlatformError> {
    memory.advise_all(runs, Advice::DontNeed)
}

/// How many mappings `map` may still make before the mappings of the program are counted again.
///
/// The kernel merges mappings on its own, and other parts of the program make some, so no count kept here
/// could be exact. This one is an upper bound on what `map` has made since the last count, which takes half a
/// microsecond a mapping: with thousands of mappings left, nothing for each of them.
#[derive(Debug, Default)]
struct Budget {
    left: AtomicI64,
}

/// The most mappings that making one range accessible adds: the range, and the rest behind it.
const SPLIT: i64 = 2;

/// The fewest mappings worth a new count: near the limit no more than every 32nd `map` pays for one.
const GRANT: u64 = 32 * SPLIT as u64;

impl Budget {
    #[inline]
    fn take(&self) -> Result<(), PlatformError> {
        // Relaxed: a number and nothing else; threads that race for the last of it are absorbed by the
        // eighth.
        if self.left.fetch_sub(SPLIT, Ordering::Relaxed) >= SPLIT { Ok(()) } else { self.recount() }
    }

    #[cold]
    fn recount(&self) -> Result<(), PlatformError> {
        // Where /proc does not tell, the kernel will.
        let (Some(count), Some(max)) = (limits::map_count(), limits::max_map_count()) else { return Ok(()) };
        let left = (max - max / 8).saturating_sub(count);
        if left < GRANT {
            return Err(map_limit());
        }
        self.left.store(left as i64 - SPLIT, Ordering::Relaxed);
        Ok(())
    }
}

fn map_limit() -> PlatformError {
    let error = platform_error("map (7/8 of vm.max_map_count are in use)", Errno::NOMEM);
    PlatformError { fault: PlatformFault::MapLimit, ..error }
}
