//! What a span gives back beside memory: opened chunks, which count as memory to come where
//! overcommit is strict, and addresses.

use crate::error::platform_error;
use crate::guard::Guarding;
use crate::guard::pte::PteMarkers;
use crate::os::limits;
use crate::platform::Linux;
use rustix::io::Errno;
use vmalloc::{PageRange, PlatformError};

impl Linux {
    /// Unmaps a part of the span, and of the tables for it: it does not count as addresses of the
    /// program any more, and the kernel may map anything there. When this is dropped, the rest of
    /// the span stays mapped.
    ///
    /// # Safety
    /// The caller has [reserved](vmalloc::Raw::reserve) the pages, and never unreserves them.
    ///
    /// # Errors
    /// When the system refuses; then nothing is changed. With
    /// [`GuardMeans::Userfault`](crate::GuardMeans::Userfault) it always does.
    pub unsafe fn give_up(&self, range: PageRange) -> Result<(), PlatformError> {
        self.check(range)?;
        if let Guarding::Userfault(_) = self.guarding {
            // A child registers the whole span again.
            return Err(platform_error("munmap of a part of a registered span", Errno::NOSYS));
        }
        // SAFETY: by the caller's promise no thread uses the pages, now or later.
        unsafe { self.memory.give_up(range) }.map_err(|errno| platform_error("munmap", errno))?;
        self.table.give_up(range);
        Ok(())
    }

    /// Returns true if the system counts opened chunks as memory that the program may use, used or
    /// not: under strict overcommit (`vm.overcommit_memory=2`).
    #[must_use]
    #[doc(hidden)]
    pub fn is_charged_for_chunks(&self) -> bool {
        matches!(self.guarding, Guarding::PteMarkers(_)) && limits::overcommit_is_strict()
    }

    /// Returns the chunks of [`CHUNK_PAGES`](crate::CHUNK_PAGES) pages of which something is open,
    /// ascending. Other guards than [`GuardMeans::PteMarkers`](crate::GuardMeans::PteMarkers) have none.
    #[doc(hidden)]
    pub fn open_chunks(&self) -> impl Iterator<Item = PageRange> + '_ {
        let markers = match &self.guarding {
            Guarding::PteMarkers(markers) => Some(markers),
            Guarding::Mprotect(_) | Guarding::Userfault(_) => None,
        };
        markers.into_iter().flat_map(PteMarkers::open_chunks)
    }

    /// Closes a chunk of [`open_chunks`](Self::open_chunks): the system does not count it any more,
    /// and its memory is gone. The next area in it opens it again.
    ///
    /// # Safety
    /// The caller has [reserved](vmalloc::Raw::reserve) the chunk.
    ///
    /// # Errors
    /// When the system refuses. It may be closed or not.
    #[doc(hidden)]
    pub unsafe fn close_chunk(&self, chunk: PageRange) -> Result<(), PlatformError> {
        self.check(chunk)?;
        match &self.guarding {
            Guarding::PteMarkers(markers) => markers.close_unused(&self.memory, chunk),
            Guarding::Mprotect(_) | Guarding::Userfault(_) => Ok(()),
        }
    }
}
